"""Every test gets a broker's data path in a directory of its own, in memory where there is such a place."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator

import pytest

from tests.support.data_path import DataPath

_MEMORY = "/dev/shm"


@pytest.fixture
def log_directory() -> Iterator[str]:
    directory = tempfile.mkdtemp(prefix="ottla-test-", dir=_MEMORY if os.access(_MEMORY, os.W_OK) else None)
    yield directory
    shutil.rmtree(directory)


@pytest.fixture
def node(log_directory: str) -> Iterator[DataPath]:
    path = DataPath(log_directory)
    yield path
    path.stop()
