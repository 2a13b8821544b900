"""A coordinator with logs in a directory of its own, in memory where there is such a place."""

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
    """A broker with these settings, that leads the topic of offsets and a topic `t` of three partitions."""
    made: list[GroupPath] = []

    def make_path(**properties: str) -> GroupPath:
        settings = {name.replace("_", "."): value for name, value in properties.items()}
        path = GroupPath(log_directory, properties=settings)
        made.append(path)
        path.create_topic("t", 3)
        path.create_offsets_topic()
        return path

    yield make_path
    for path in made:
        path.stop()


@pytest.fixture
def path(make: Callable[..., GroupPath]) -> GroupPath:
    return make()
