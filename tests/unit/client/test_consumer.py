"""The records and positions of a consumer, with a minimal broker."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from typing import Any

import pytest

from ottla.client.admin.groups import CommittedOffset
from ottla.client.admin.offsets import FoundOffset
from ottla.client.consumer import Consumer, starts
from ottla.model.errors import ErrorCode, KafkaError
from ottla.model.ids import TopicPartition
from ottla.records.build import build_batch
from ottla.records.compression import Codec
from ottla.records.errors import CorruptRecords
from ottla.records.header import ATTRIBUTES_POSITION
from ottla.records.record import Record
from ottla.serdes.protocol import Deserializer
from ottla.wire.messages.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData
from tests.unit.client.consuming import OneNode, consume, until

ONE, OTHER = TopicPartition("t", 0), TopicPartition("t", 1)


class Broker:
    """Leads two partitions. A fetch without records waits until there are some, or until the test answers it."""

    def __init__(self) -> None:
        self.starts = {ONE: 0, OTHER: 0}
        self.ends = {ONE: 0, OTHER: 0}
        self.committed: dict[TopicPartition, int] = {}
        self.unstable = 0
        self.leaderless: set[TopicPartition] = set()
        self.damaged: set[int] = set()
        self.changed = asyncio.Event()
        self.fetches: list[dict[TopicPartition, int]] = []

    def append(self, partition: TopicPartition, count: int) -> None:
        self.ends[partition] += count
        self.changed.set()

    async def ask(self, request: FetchRequest, **_: Any) -> FetchResponse:
        wanted = {
            TopicPartition(topic.topic, partition.partition): partition.fetch_offset
            for topic in request.topics
            for partition in topic.partitions
        }
        self.fetches.append(wanted)
        while not (
            answers := [data for partition, offset in wanted.items() if (data := self._answer(partition, offset))]
        ):
            self.changed.clear()
            await self.changed.wait()
        return FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=answers)])

    def _answer(self, partition: TopicPartition, offset: int) -> PartitionData | None:
        data = PartitionData(partition_index=partition.partition, high_watermark=self.ends[partition])
        if not self.starts[partition] <= offset <= self.ends[partition]:
            data.error_code = ErrorCode.OFFSET_OUT_OF_RANGE
        elif offset == self.ends[partition]:
            return None
        else:
            records = [
                Record(offset=at, timestamp=0, key=None, value=b"%d" % at)
                for at in range(offset, min(offset + 2, self.ends[partition]))
            ]
            batch = build_batch(records, base_offset=offset)
            if offset in self.damaged:
                # The batch claims to be compressed.
                batch[ATTRIBUTES_POSITION + 1] |= Codec.GZIP
            data.records = memoryview(batch)
        return data

    # The requests of a consumer to coordinators and leaders.

    async def offsets(
        self, _group_id: str, partitions: Iterable[TopicPartition], **_: Any
    ) -> dict[TopicPartition, CommittedOffset]:
        if self.unstable:
            self.unstable -= 1
            raise KafkaError(ErrorCode.UNSTABLE_OFFSET_COMMIT, "")
        return {
            partition: CommittedOffset(self.committed[partition])
            for partition in partitions
            if partition in self.committed
        }

    async def find(
        self, times: Mapping[TopicPartition, int], **_: Any
    ) -> dict[TopicPartition, FoundOffset | KafkaError]:
        return {
            partition: KafkaError(ErrorCode.LEADER_NOT_AVAILABLE)
            if partition in self.leaderless
            else FoundOffset(self.starts[partition] if time == -2 else self.ends[partition], -1, -1)
            for partition, time in times.items()
        }


class Cluster(OneNode):
    async def retry(self, attempt: Callable[[], Awaitable[Any]]) -> Any:
        while True:
            try:
                return await attempt()
            except KafkaError as error:
                if not error.code.retriable:
                    raise


def run(work: Callable[[Consumer, Broker], Coroutine[Any, Any, None]], **settings: Any) -> None:
    async def scenario() -> None:
        await consume(Cluster(Broker(), partitions=2), work, **settings)

    asyncio.run(scenario())


async def values(consumer: Consumer, count: int) -> list[tuple[int, int]]:
    """Reads `count` records; their partitions and offsets."""
    positions: list[tuple[int, int]] = []
    while len(positions) < count:
        positions += [(record.partition, record.offset) for record in await consumer.poll()]
    return positions


def test_what_was_fetched_before_a_pause_holds_up_no_other_partition() -> None:
    async def work(consumer: Consumer, broker: Broker) -> None:
        await consumer.assign([ONE, OTHER])
        await consumer.poll(0)
        broker.append(ONE, 2)
        await until(lambda: consumer._fetcher.has_next)
        consumer.pause(ONE)
        assert await consumer.poll(1) == []
        broker.append(OTHER, 2)
        assert await values(consumer, 2) == [(1, 0), (1, 1)]
        consumer.resume(ONE)
        assert await values(consumer, 2) == [(0, 0), (0, 1)]

    run(work, auto_offset_reset="earliest")


def test_paused_partitions_leave_room_for_others() -> None:
    async def work(consumer: Consumer, broker: Broker) -> None:
        await consumer.assign([ONE, OTHER])
        await consumer.poll(0)
        broker.append(ONE, 2)
        await until(lambda: consumer._fetcher.has_next)
        consumer.pause(ONE)
        broker.append(OTHER, 4)
        assert await values(consumer, 4) == [(1, 0), (1, 1), (1, 2), (1, 3)]

    run(work, auto_offset_reset="earliest", buffer_bytes=1)


def test_a_commit_that_was_deleted_from_the_log_is_not_gone_back_to() -> None:
    async def work(consumer: Consumer, broker: Broker) -> None:
        broker.append(ONE, 6)
        broker.starts[ONE], broker.committed[ONE] = 4, 1
        await consumer.assign([ONE])
        assert await values(consumer, 2) == [(0, 4), (0, 5)]
        # A partition that is assigned again begins at its committed offset.
        broker.committed[ONE] = 5
        await consumer.assign([])
        await consumer.assign([ONE])
        broker.append(ONE, 1)
        assert await values(consumer, 2) == [(0, 5), (0, 6)]

    run(work, group_id="g", auto_commit=False, auto_offset_reset="earliest")


def test_fetched_records_are_returned_before_the_position_is_reset() -> None:
    async def work(consumer: Consumer, broker: Broker) -> None:
        await consumer.assign([ONE])
        await consumer.poll(0)
        broker.append(ONE, 2)
        await until(lambda: consumer._fetcher.has_next)
        await until(lambda: {ONE: 2} in broker.fetches)
        # The log now starts beyond the consumer's position.
        broker.starts[ONE] = broker.ends[ONE] = 7
        broker.changed.set()
        await until(lambda: broker.fetches.count({ONE: 2}) > 1)
        broker.append(ONE, 1)
        assert await values(consumer, 3) == [(0, 0), (0, 1), (0, 7)]

    run(work, auto_offset_reset="earliest")


def test_an_answer_to_a_partition_that_was_given_up_is_none_to_the_one_that_came_back() -> None:
    async def work(consumer: Consumer, broker: Broker) -> None:
        broker.append(ONE, 4)
        broker.committed[ONE] = 0
        await consumer.assign([ONE])
        assert [record.offset for record in await consumer.poll(max_records=1)] == [0]
        # Fetched up to 4 by now, and asking for more.
        await until(lambda: {ONE: 4} in broker.fetches)
        await consumer.assign([])
        await consumer.assign([ONE])
        assert await consumer.poll(0, max_records=1) == []
        broker.append(ONE, 2)
        assert await values(consumer, 6) == [(0, offset) for offset in range(6)]

    run(work, group_id="g", auto_commit=False)


def test_commits_of_a_transaction_that_is_about_to_end_are_waited_for() -> None:
    async def work(consumer: Consumer, broker: Broker) -> None:
        broker.append(ONE, 2)
        broker.committed[ONE], broker.unstable = 1, 3
        await consumer.assign([ONE])
        assert await values(consumer, 1) == [(0, 1)]

    run(work, group_id="g", auto_commit=False)


def test_a_batch_that_cannot_be_opened_takes_no_other_with_it() -> None:
    async def work(consumer: Consumer, broker: Broker) -> None:
        await consumer.assign([ONE])
        await consumer.poll(0)
        broker.damaged = {2}
        broker.append(ONE, 6)
        await until(lambda: {ONE: 6} in broker.fetches)
        # Records that were fetched together are returned up to the damaged batch.
        assert [record.offset for record in await consumer.poll()] == [0, 1]
        assert consumer.position(ONE) == 2
        # The error is raised and not ignored.
        for _ in range(2):
            with pytest.raises(CorruptRecords):
                await consumer.poll()
        consumer.seek(ONE, 4)
        broker.append(ONE, 1)
        assert await values(consumer, 3) == [(0, 4), (0, 5), (0, 6)]

    run(work, auto_offset_reset="earliest", check_crcs=False)


def test_a_partition_without_a_leader_holds_up_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    async def work(consumer: Consumer, broker: Broker) -> None:
        broker.append(ONE, 2)
        broker.append(OTHER, 2)
        broker.leaderless = {OTHER}
        await consumer.assign([ONE, OTHER])
        assert await values(consumer, 2) == [(0, 0), (0, 1)]
        broker.leaderless.clear()
        while consumer.position(OTHER) < 0:
            assert await consumer.poll(1) == []
        broker.append(ONE, 1)
        assert sorted(await values(consumer, 3)) == [(0, 2), (1, 0), (1, 1)]

    monkeypatch.setattr(starts, "_LOOK_AGAIN_SECONDS", 0.01)
    run(work, auto_offset_reset="earliest")


def test_a_pause_after_few_bytes_lets_records_come_together(monkeypatch: pytest.MonkeyPatch) -> None:
    pause_s, sleep = 600, asyncio.sleep
    pauses: list[asyncio.Event] = []

    async def sleep_until_told(seconds: float) -> None:
        """A pause lasts until the test ends it."""
        if seconds == pause_s:
            pauses.append(asyncio.Event())
            await pauses[-1].wait()
        else:
            await sleep(seconds)

    async def work(consumer: Consumer, broker: Broker) -> None:
        await consumer.assign([ONE])
        consumer.seek(ONE, 0)
        broker.append(ONE, 1)
        # The first record is there at once.
        assert await values(consumer, 1) == [(0, 0)]
        await until(lambda: len(pauses) == 1)
        fetches = len(broker.fetches)
        broker.append(ONE, 1)
        for _ in range(50):
            await asyncio.sleep(0)
        assert len(broker.fetches) == fetches, "the next request waits"
        broker.append(ONE, 1)
        pauses[0].set()
        assert await values(consumer, 2) == [(0, 1), (0, 2)]
        await until(lambda: len(pauses) == 2)
        assert len(broker.fetches) == fetches + 1

    monkeypatch.setattr(asyncio, "sleep", sleep_until_told)
    run(work, fetch_pause_ms=pause_s * 1000)


def test_where_nothing_can_be_read_it_is_told() -> None:
    async def work(consumer: Consumer, broker: Broker) -> None:
        broker.leaderless = {ONE, OTHER}
        await consumer.assign([ONE, OTHER])
        with pytest.raises(KafkaError, match="t-0") as raised:
            await consumer.poll()
        assert raised.value.code == ErrorCode.LEADER_NOT_AVAILABLE

    run(work, auto_offset_reset="earliest")


def test_whatever_a_deserializer_raises_no_record_is_skipped() -> None:
    class Picky(Deserializer[Any]):
        def deserialize(self, topic: str, data: Any, headers: Any = None) -> Any:
            return {b"0": 0, b"1": 1, b"2": 2, b"4": 4, b"5": 5, b"6": 6}[data]

    async def work(consumer: Consumer, broker: Broker) -> None:
        await consumer.assign([ONE])
        await consumer.poll(0)
        broker.append(ONE, 6)
        await until(lambda: {ONE: 6} in broker.fetches)
        assert [record.value for record in await consumer.poll()] == [0, 1, 2]
        for _ in range(2):
            with pytest.raises(KeyError):
                await consumer.poll()
        assert consumer.position(ONE) == 3
        consumer.seek(ONE, 4)
        broker.append(ONE, 1)
        assert await values(consumer, 3) == [(0, 4), (0, 5), (0, 6)]

    run(work, auto_offset_reset="earliest", value_deserializer=Picky())


def test_damaged_columns_count_as_not_read_until_a_seek() -> None:
    async def work(consumer: Consumer, broker: Broker) -> None:
        await consumer.assign([ONE, OTHER])
        await consumer.poll(0)
        broker.damaged = {2}
        broker.append(ONE, 2)
        broker.append(OTHER, 4)
        await until(lambda: any(offsets.get(OTHER) == 4 for offsets in broker.fetches))
        rows_read = 0

        async def read_on() -> None:
            nonlocal rows_read
            while rows_read < 7:
                rows_read += sum(batch.num_rows for batch in await consumer.batches())

        # The batches before the damaged batch come first; every later call raises its error.
        for _ in range(2):
            with pytest.raises(CorruptRecords, match="t-1: The records at offset 2"):
                await read_on()
        assert sum(consumer.position(partition) for partition in (ONE, OTHER)) == rows_read
        broker.damaged = set()
        for partition in (ONE, OTHER):
            consumer.seek(partition, consumer.position(partition))
        broker.append(ONE, 1)
        await read_on()
        assert [consumer.position(partition) for partition in (ONE, OTHER)] == [3, 4]

    run(work, auto_offset_reset="earliest", check_crcs=False)


def test_a_leader_that_learns_late_of_its_partition_does_not_end_a_poll() -> None:
    async def work(consumer: Consumer, broker: Broker) -> None:
        find = broker.find

        async def late(times: Any, *, timeout_ms: int | None = None, **more: Any) -> Any:
            if timeout_ms is not None:
                # The two seconds of the first look are over.
                return {partition: KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION) for partition in times}
            return await find(times, **more)

        broker.find = late  # type: ignore[method-assign]
        await consumer.assign([ONE, OTHER])
        broker.append(ONE, 2)
        offsets: list[int] = []
        while len(offsets) < 2:
            offsets += [record.offset for record in await consumer.poll()]
        assert offsets == [0, 1]

    run(work, auto_offset_reset="earliest")


def test_nothing_is_read_after_a_membership_that_ended_while_positions_were_looked_for() -> None:
    """A position may take long, as while a transaction ends; other partitions have records by then."""

    class Member:
        is_member = True

        def __init__(self, consumer: Consumer) -> None:
            self.consumer = consumer

        async def poll(self, _: float) -> None:
            if not self.is_member:
                self.consumer._assign([])

        async def wait(self) -> None:
            await asyncio.Event().wait()

    async def work(consumer: Consumer, broker: Broker) -> None:
        await consumer.assign([ONE])
        await consumer.poll(0)
        broker.append(ONE, 2)
        await until(lambda: consumer._fetcher.has_next)
        member = Member(consumer)
        consumer._membership = member  # type: ignore[assignment]

        async def find_due() -> None:
            member.is_member = False

        consumer._starts.find_due = find_due  # type: ignore[method-assign]
        assert await consumer.poll(0) == []
        consumer._membership = None

    run(work, auto_offset_reset="earliest")
