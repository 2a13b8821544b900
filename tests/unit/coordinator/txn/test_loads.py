"""Loads of a coordinator's state that meet a shortage, or retention: they retry, because nothing else restarts them."""

from __future__ import annotations

import errno
from typing import Any

import pytest

from ottla.coordinator.runtime import ShardStatus
from ottla.coordinator.runtime.loader import Loader
from ottla.model.errors import ErrorCode
from ottla.model.ids import TopicPartition
from ottla.storage import lookups
from tests.support.transaction_path import Producer, TransactionPath

T0 = TopicPartition("t", 0)


@pytest.fixture
def producer(path: TransactionPath) -> Producer:
    """Has a transaction that its coordinator aborts in time."""
    new_producer = Producer(path, "x")
    new_producer.init()
    path.transactions.runtime.shard_of("x").partition.log.roll()
    assert new_producer.add(T0) is ErrorCode.NONE
    return new_producer


@pytest.mark.usefixtures("producer")
def test_too_many_open_files(path: TransactionPath, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> None:
        raise OSError(errno.EMFILE, "Too many open files")

    shard = path.transactions.runtime.shard_of("x")
    with monkeypatch.context() as shortage:
        shortage.setattr(lookups, "read_batches", refuse)
        # As after an append that was refused for the same reason.
        shard.reload()
        path.advance(5_000)
        assert shard.status is ShardStatus.LOADING
    path.advance(1_000)
    assert shard.status is ShardStatus.ACTIVE
    path.advance(120_000)
    assert path.status("x") == "CompleteAbort"


@pytest.mark.usefixtures("producer")
@pytest.mark.parametrize("deletes_all", [False, True])
def test_retention_overtakes_the_load(
    path: TransactionPath, monkeypatch: pytest.MonkeyPatch, deletes_all: bool
) -> None:
    """With `cleanup.policy=compact,delete`."""
    shard = path.transactions.runtime.shard_of("x")
    log = shard.partition.log
    if deletes_all:
        log.roll()
    start = Loader.start

    def start_late(loader: Loader[Any]) -> None:
        log.delete_segments([segment for segment in log.segments if segment is not log.segments.active])
        start(loader)

    monkeypatch.setattr(Loader, "start", start_late)
    shard.reload()
    path.run()
    assert shard.status is ShardStatus.ACTIVE
