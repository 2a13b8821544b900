"""One cluster for all tests of lake tables, and a client of it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ottla.testing import cluster
from tests.support.spark_topics import Topics


@pytest.fixture(scope="session")
def topics() -> Iterator[Topics]:
    with cluster() as running:
        found = Topics(running.bootstrap)
        yield found
        found.close()
