"""A transaction coordinator with a log in a directory of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.support.transaction_path import TransactionPath


@pytest.fixture
def make_path(log_directory: str) -> Iterator[Callable[..., TransactionPath]]:
    """A broker with these settings, that leads the topic of transactions and a topic `t` of four partitions."""
    paths: list[TransactionPath] = []

    def make(*, level: int = 2, **properties: str) -> TransactionPath:
        settings = {name.replace("_", "."): value for name, value in properties.items()}
        path = TransactionPath(log_directory, properties=settings)
        paths.append(path)
        path.set_transaction_version(level)
        path.create_topic("t", 4)
        path.create_state_topic()
        return path

    yield make
    for path in paths:
        path.stop()


@pytest.fixture
def path(make_path: Callable[..., TransactionPath]) -> TransactionPath:
    return make_path()
