"""A coordinator with a separate log directory, in memory if a tmpfs exists."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator

import pytest

from tests.support.group_path import GroupPath

_MEMORY = "/dev/shm"


@pytest.fixture
def log_directory() -> Iterator[str]:
    directory = tempfile.mkdtemp(prefix="ottla-test-", dir=_MEMORY if os.access(_MEMORY, os.W_OK) else None)
    yield directory
    shutil.rmtree(directory)


@pytest.fixture
def make(log_directory: str) -> Iterator[Callable[..., GroupPath]]:
    """A broker with these settings that leads the offsets topic and a topic `t` with three partitions."""
    paths: list[GroupPath] = []

    def make_path(**properties: str) -> GroupPath:
        settings = {name.replace("_", "."): value for name, value in properties.items()}
        path = GroupPath(log_directory, properties=settings)
        paths.append(path)
        path.create_topic("t", 3)
        path.create_offsets_topic()
        return path

    yield make_path
    for path in paths:
        path.stop()


@pytest.fixture
def path(make: Callable[..., GroupPath]) -> GroupPath:
    return make()
