"""How far a new task reads the offsets, and its error if the end of a transaction is unknown."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from ottla.client import compacted
from ottla.client.errors import TimedOut
from ottla.client.settings import ClientSettings
from ottla.connect.control.stores.offsets import TopicOffsetStore
from ottla.connect.control.stores.topic_log import TopicLog
from ottla.connect.work.transactions import FencedError, TaskTransactions
from ottla.model.errors import ErrorCode, KafkaError
from ottla.model.ids import TopicPartition

ONE = TopicPartition("offsets", 0)
# Where the first open transaction begins, and where the log ends.
STABLE, END = 40, 51


class Offsets:
    def __init__(self, _cluster: object) -> None:
        pass

    async def numbers(self, partitions: list[TopicPartition], _time: int, *, committed: bool) -> dict[object, int]:
        return dict.fromkeys(partitions, STABLE if committed else END)


class Consumer:
    """A reader of what is committed."""

    def __init__(self) -> None:
        self.assignment = [ONE]
        self.read = STABLE

    def position(self, _partition: TopicPartition) -> int:
        return self.read


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> TopicLog:
    monkeypatch.setattr(compacted, "Offsets", Offsets)
    topic_log = TopicLog(ClientSettings(bootstrap_servers=()), "offsets", lambda _record: None)
    anything: Any = Consumer()
    topic_log._reader._consumer = topic_log._reader._cluster = anything
    return topic_log


def test_what_was_committed_behind_an_open_transaction_is_waited_for(log: TopicLog) -> None:
    async def scenario() -> None:
        await log.read_to_end()
        reading = asyncio.ensure_future(log.read_to_end(settled=True))
        for _ in range(10):
            await asyncio.sleep(0)
        assert not reading.done()
        # The other task's transaction ends, and the reader goes on.
        consumer: Any = log._reader._consumer
        consumer.read = END
        log._reader._progress.set()
        await reading

    asyncio.run(scenario())


def test_a_task_tries_again_while_a_transaction_stays_open(log: TopicLog) -> None:
    store = TopicOffsetStore(lambda _on_record: log)

    async def scenario() -> None:
        read = log.read_to_end
        log.read_to_end = lambda *_, **how: read(1, **how)  # type: ignore[method-assign]
        with pytest.raises(TimedOut):
            await store.refresh()

    asyncio.run(scenario())


class Producer:
    def __init__(self, error: Exception | None) -> None:
        self.error = error

    async def abort_transaction(self) -> None:
        if self.error is not None:
            raise self.error


def given_up(error: Exception | None) -> bool:
    anything: Any = Producer(error)
    transactions = TaskTransactions(anything, "task")
    transactions._producer, transactions._open = anything, True
    return asyncio.run(transactions.give_up())


def test_what_cannot_be_aborted_may_be_committed() -> None:
    assert given_up(None)
    # The coordinator's answer if the transaction is already committed and the first answer was lost.
    assert not given_up(KafkaError(ErrorCode.INVALID_TXN_STATE, "already committed"))
    assert not given_up(TimedOut("no answer"))


def test_who_was_fenced_says_so_first_of_all() -> None:
    with pytest.raises(FencedError):
        given_up(KafkaError(ErrorCode.PRODUCER_FENCED, "another has it"))
