"""Retrying and parallel consumers over a consumer that a test scripts: no record is committed before it was handled."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from ottla.client.consumer import ConsumedRecord, ConsumerSettings
from ottla.client.errors import TimedOut
from ottla.client.parallel import ParallelConsumer
from ottla.client.retries import RetryingConsumer, RetryTopics
from ottla.model.errors import ErrorCode, KafkaError
from ottla.model.ids import TopicPartition

SOURCE = TopicPartition("s", 0)
TOPICS = RetryTopics(source="s", group="g", delays_ms=(3_600_000,))
RETRY = TopicPartition(TOPICS.retries[0], 0)


class Scripted:
    """A consumer of partitions with given record counts. `rebalance` reassigns all partitions and ends their pauses."""

    def __init__(self, counts: Mapping[TopicPartition, int]) -> None:
        self.settings = ConsumerSettings(group_id="g", auto_commit=False)
        self.counts = counts
        self.committed = dict.fromkeys(counts, 0)
        self.rebalances = False
        self.listener: dict[str, Any] = {}
        self._assign()

    def _assign(self) -> None:
        self.positions = dict(self.committed)
        self.paused: list[TopicPartition] = []

    @property
    def assignment(self) -> list[TopicPartition]:
        return list(self.positions)

    async def subscribe(self, _topics: Any, **listener: Any) -> None:
        self.listener = listener

    async def poll(self, _timeout_ms: int) -> list[ConsumedRecord]:
        await asyncio.sleep(0)
        if self.rebalances:
            self.rebalances = False
            self._assign()
        records = []
        for partition, count in self.counts.items():
            if partition not in self.paused:
                # From the future, so no delay is over during a test.
                records += [
                    ConsumedRecord(*partition, offset, 1 << 60, 0, None, b"", (), 0)
                    for offset in range(self.positions[partition], count)
                ]
                self.positions[partition] = count
        return records

    async def commit(self, offsets: Mapping[TopicPartition, int]) -> None:
        self.committed |= offsets

    def seek(self, partition: TopicPartition, offset: int, *, leader_epoch: int) -> None:
        self.positions[partition] = offset

    def pause(self, *partitions: TopicPartition) -> None:
        self.paused += partitions

    def resume(self, *partitions: TopicPartition) -> None:
        self.paused = [partition for partition in self.paused if partition not in partitions]


class NoRoom:
    """A producer that cannot send."""

    async def send_and_wait(self, *_: Any, **__: Any) -> None:
        raise TimedOut("no room")


def test_records_behind_one_that_could_not_be_sent_on_are_polled_again() -> None:
    handled: list[int] = []
    bad = {1}

    async def handle(record: ConsumedRecord) -> None:
        if record.offset in bad:
            raise ValueError
        handled.append(record.offset)

    async def scenario() -> None:
        consumer: Any = Scripted({SOURCE: 4})
        producer: Any = NoRoom()
        retrying = RetryingConsumer(consumer, producer, TOPICS, handle)
        with pytest.raises(TimedOut):
            await retrying.run_once()
        assert consumer.committed[SOURCE] <= 1
        bad.clear()
        await retrying.run_once()
        assert handled == [0, 1, 2, 3]
        assert consumer.committed[SOURCE] == 4

    asyncio.run(scenario())


def test_a_rebalance_does_not_skip_the_records_of_a_partition_that_sleeps() -> None:
    async def handle(_: ConsumedRecord) -> None:
        raise AssertionError

    async def scenario() -> None:
        consumer: Any = Scripted({RETRY: 3})
        producer: Any = NoRoom()
        retrying = RetryingConsumer(consumer, producer, TOPICS, handle)
        for _ in range(2):
            assert await retrying.run_once() == 0
            assert (consumer.positions[RETRY], consumer.paused) == (0, [RETRY])
            consumer.rebalances = True

    asyncio.run(scenario())


def test_after_a_cancelled_run_a_revocation_waits_for_nobody() -> None:
    async def handle(record: ConsumedRecord) -> None:
        if record.offset:
            await asyncio.Event().wait()

    async def scenario() -> None:
        consumer: Any = Scripted({SOURCE: 2})
        parallel = ParallelConsumer(consumer, handle, revoke_timeout_ms=3_600_000)
        await parallel.subscribe("s")
        task = asyncio.ensure_future(parallel.run())
        while parallel._pending != 1:
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        async with asyncio.timeout(30):
            await consumer.listener["on_revoked"]([SOURCE])
        assert consumer.committed[SOURCE] == 1

    asyncio.run(scenario())


@pytest.mark.parametrize("code", [ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.STALE_MEMBER_EPOCH])
def test_a_commit_that_a_rebalance_refuses_does_not_end_a_retrying_consumer(code: ErrorCode) -> None:
    class Refusing(Scripted):
        async def commit(self, offsets: Mapping[TopicPartition, int]) -> None:
            if not self.committed[SOURCE]:
                self.committed[SOURCE] = -1
                raise KafkaError(code)
            await super().commit(offsets)

    seen: list[int] = []

    async def handle(record: ConsumedRecord) -> None:
        seen.append(record.offset)

    async def scenario() -> None:
        consumer = Refusing({SOURCE: 2, RETRY: 0})
        retrying = RetryingConsumer(consumer, None, TOPICS, handle)  # type: ignore[arg-type]
        await retrying.run_once()
        # The partitions are assigned to the member again, from the last commit on.
        consumer.positions[SOURCE] = 0
        await retrying.run_once()
        assert consumer.committed[SOURCE] == 2

    asyncio.run(scenario())
    assert seen == [0, 1, 0, 1]


def test_keys_that_have_no_hash_are_processed_in_order() -> None:
    keys: list[Any] = [{"a": [1]}, {"b": {1}}, {"a": [1]}, [1, 2], [1, 2], {"b": {1}}]

    class Keyed(Scripted):
        async def poll(self, timeout_ms: int) -> list[ConsumedRecord]:
            return [record._replace(key=keys[record.offset]) for record in await super().poll(timeout_ms)]

    running: list[Any] = []
    order: list[int] = []

    async def handle(record: ConsumedRecord) -> None:
        assert record.key not in running
        running.append(record.key)
        await asyncio.sleep(0)
        running.remove(record.key)
        order.append(record.offset)
        if len(order) == len(keys):
            parallel.stop()

    async def scenario() -> None:
        nonlocal parallel
        parallel = ParallelConsumer(Keyed({SOURCE: len(keys)}), handle, workers=6)  # type: ignore[arg-type]
        await parallel.run()

    parallel: ParallelConsumer
    asyncio.run(scenario())
    assert sorted(order) == list(range(len(keys)))
    assert [order.index(first) < order.index(second) for first, second in ((0, 2), (1, 5), (3, 4))] == [True] * 3
