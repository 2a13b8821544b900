"""A log in memory, and batches to put into it."""

from __future__ import annotations

import pytest

from tests.unit.storage.helpers import LogBench


@pytest.fixture
def bench() -> LogBench:
    return LogBench()
