"""A consumer detects that the log it reads was truncated, also if other records replaced the lost ones (KIP-320)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from typing import Any

import pytest

from ottla.client.admin.groups import CommittedOffset
from ottla.client.admin.offsets import FoundOffset
from ottla.client.consumer import Consumer, truncation
from ottla.client.errors import LogTruncated, RequestUnsupported
from ottla.client.metadata import MetadataCache
from ottla.model.errors import ErrorCode, KafkaError
from ottla.model.ids import TopicPartition
from ottla.records.build import build_batch
from ottla.records.record import Record
from ottla.wire.messages.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData
from ottla.wire.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderTopicResult,
)
from tests.unit.client.consuming import OneNode, consume, until

ONE = TopicPartition("t", 0)


class Broker:
    """Leads one partition in an epoch that may change, and rejects requests with another epoch."""

    def __init__(self) -> None:
        self.epoch = 0
        # The epoch of each record.
        self.log: list[int] = []
        self.changed = asyncio.Event()
        self.fetches: list[tuple[int, int]] = []
        self.asked: list[tuple[int, int]] = []
        self.answering = asyncio.Event()
        self.answering.set()
        self.errors: list[ErrorCode] = []
        self.is_old = False
        self.committed: dict[TopicPartition, CommittedOffset] = {}

    def append(self, count: int) -> None:
        self.log += [self.epoch] * count
        self.changed.set()

    def elect(self, epoch: int, *, keeps: int | None = None) -> None:
        """Elects a new leader, which has the first records only."""
        self.epoch = epoch
        self.log = self.log[:keeps]
        self.changed.set()

    async def ask(self, request: FetchRequest, **_: Any) -> FetchResponse:
        ((wanted,),) = [topic.partitions for topic in request.topics]
        self.fetches.append((wanted.current_leader_epoch, wanted.fetch_offset))
        while (answer := self._answer(wanted.current_leader_epoch, wanted.fetch_offset)) is None:
            self.changed.clear()
            await self.changed.wait()
        return FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=[answer])])

    def _answer(self, current_epoch: int, offset: int) -> PartitionData | None:
        data = PartitionData(partition_index=0, high_watermark=len(self.log), error_code=self._refusal(current_epoch))
        if data.error_code:
            return data
        if offset > len(self.log):
            data.error_code = ErrorCode.OFFSET_OUT_OF_RANGE
        elif offset == len(self.log):
            return None
        else:
            record = Record(offset=offset, timestamp=0, key=None, value=b"%d" % self.log[offset])
            data.records = memoryview(build_batch([record], base_offset=offset, leader_epoch=self.log[offset]))
        return data

    def _refusal(self, current_epoch: int) -> ErrorCode:
        if current_epoch < self.epoch:
            return ErrorCode.FENCED_LEADER_EPOCH
        return ErrorCode.NONE if current_epoch == self.epoch else ErrorCode.UNKNOWN_LEADER_EPOCH

    async def end_of_epoch(self, request: OffsetForLeaderEpochRequest) -> OffsetForLeaderEpochResponse:
        if self.is_old:
            raise RequestUnsupported("not known here")
        ((wanted,),) = [topic.partitions for topic in request.topics]
        self.asked.append((wanted.current_leader_epoch, wanted.leader_epoch))
        await self.answering.wait()
        answer = EpochEndOffset(partition=0, error_code=self._refusal(wanted.current_leader_epoch))
        if self.errors:
            answer.error_code = self.errors.pop()
        elif not answer.error_code:
            known = [epoch for epoch in {*self.log, self.epoch} if epoch <= wanted.leader_epoch]
            if wanted.leader_epoch <= self.epoch and known:
                answer.leader_epoch = max(known)
                answer.end_offset = sum(epoch <= max(known) for epoch in self.log)
        return OffsetForLeaderEpochResponse(topics=[OffsetForLeaderTopicResult(topic="t", partitions=[answer])])

    async def offsets(
        self, _group_id: str, _partitions: Iterable[TopicPartition], **_: Any
    ) -> dict[TopicPartition, CommittedOffset]:
        return self.committed

    async def find(self, times: Mapping[TopicPartition, int], **_: Any) -> dict[TopicPartition, FoundOffset]:
        return {partition: FoundOffset(0 if time == -2 else len(self.log), -1, -1) for partition, time in times.items()}


class Cluster(OneNode):
    """Learns of an election only by a metadata refresh."""

    def __init__(self, broker: Broker) -> None:
        super().__init__(broker, partitions=1)
        self.refreshed = 0

    async def ask_node(self, _node_id: int, request: OffsetForLeaderEpochRequest) -> OffsetForLeaderEpochResponse:
        answer: OffsetForLeaderEpochResponse = await self.broker.end_of_epoch(request)
        return answer

    async def refresh(self, *_: Any, **__: Any) -> MetadataCache:
        self.refreshed += 1
        if self.refreshed > 1:
            self.tell({0: self.broker.epoch})
        return self.metadata

    async def retry(self, attempt: Callable[[], Awaitable[Any]]) -> Any:
        return await attempt()


Work = Callable[[Consumer, Broker], Coroutine[Any, Any, None]]


def run(work: Work, **settings: Any) -> Broker:
    async def assigned(consumer: Consumer, broker: Broker) -> None:
        await consumer.assign([ONE])
        await work(consumer, broker)

    async def scenario() -> Broker:
        broker = Broker()
        await consume(Cluster(broker), assigned, **{"auto_offset_reset": "earliest", **settings})
        return broker

    return asyncio.run(scenario())


async def read(consumer: Consumer, count: int) -> list[tuple[int, int]]:
    """Reads `count` records; their offsets and epochs."""
    positions: list[tuple[int, int]] = []
    while len(positions) < count:
        records = await consumer.poll(max_records=count - len(positions))
        positions += [(record.offset, record.leader_epoch) for record in records]
    return positions


def test_a_new_leader_that_has_everything_is_asked_once_and_read_on() -> None:
    async def work(consumer: Consumer, broker: Broker) -> None:
        broker.append(2)
        assert await read(consumer, 2) == [(0, 0), (1, 0)]
        broker.elect(3)
        broker.append(2)
        assert await read(consumer, 2) == [(2, 3), (3, 3)]

    broker = run(work)
    assert broker.asked == [(3, 0)]
    # The consumer fetches from the new leader only after the leader has confirmed the consumer's position.
    assert next(fetch for fetch in broker.fetches if fetch[0] == 3) == (3, 2)


def test_after_a_cut_everything_that_is_new_is_read() -> None:
    async def work(consumer: Consumer, broker: Broker) -> None:
        broker.append(4)
        await read(consumer, 4)
        broker.elect(2, keeps=2)
        # The log is longer than before the truncation: no offset is out of range.
        broker.append(3)
        assert await read(consumer, 3) == [(2, 2), (3, 2), (4, 2)]

    run(work)


@pytest.mark.parametrize("policy", ["earliest", "latest"])
def test_where_the_log_was_cut_matters_more_than_the_policy(policy: str) -> None:
    async def work(consumer: Consumer, broker: Broker) -> None:
        await consumer.poll(0)
        broker.append(3)
        await read(consumer, 3)
        broker.elect(1, keeps=1)
        broker.append(1)
        assert await read(consumer, 1) == [(1, 1)]

    run(work, auto_offset_reset=policy)


def test_without_a_policy_a_cut_is_an_error_that_says_where() -> None:
    async def work(consumer: Consumer, broker: Broker) -> None:
        broker.append(4)
        consumer.seek(ONE, 0)
        await read(consumer, 4)
        broker.elect(2, keeps=3)
        broker.append(4)
        with pytest.raises(LogTruncated) as raised:
            await read(consumer, 1)
        error = raised.value
        assert (error.partition, error.position, error.leader_epoch, error.end) == (ONE, 4, 0, (0, 3))
        assert error.code == ErrorCode.OFFSET_OUT_OF_RANGE
        assert all(word in str(error) for word in ("t-0", "offset 4", "epoch 0", "offset 3"))
        # The check stays pending, and nothing is asked while the application does not poll.
        with pytest.raises(LogTruncated):
            await read(consumer, 1)
        request_count = len(broker.asked)
        for _ in range(20):
            await asyncio.sleep(0)
        assert len(broker.asked) == request_count
        consumer.seek(ONE, 3)
        assert await read(consumer, 1) == [(3, 2)]

    run(work, auto_offset_reset="none")


def test_what_was_fetched_ahead_is_not_handed_out_after_a_cut() -> None:
    async def work(consumer: Consumer, broker: Broker) -> None:
        broker.append(4)
        assert [record.offset for record in await consumer.poll(max_records=1)] == [0]
        await until(lambda: (0, 4) in broker.fetches)
        broker.elect(1, keeps=2)
        broker.append(3)
        await until(lambda: consumer._cluster.metadata.leader_epoch_of(*ONE) == 1)
        assert await read(consumer, 4) == [(1, 0), (2, 1), (3, 1), (4, 1)]

    run(work)


def test_a_commit_says_which_log_it_is_of() -> None:
    async def work(consumer: Consumer, broker: Broker) -> None:
        broker.append(4)
        broker.elect(1, keeps=2)
        broker.append(4)
        broker.committed[ONE] = CommittedOffset(4, 0)
        assert await read(consumer, 4) == [(offset, 1) for offset in range(2, 6)]
        assert consumer._positions.committable() == {ONE: (6, 1)}

    run(work, group_id="g")


def test_a_commit_of_a_leader_epoch_that_is_not_known_yet_waits() -> None:
    async def work(consumer: Consumer, broker: Broker) -> None:
        broker.append(1)
        broker.elect(7)
        broker.append(3)
        broker.committed[ONE] = CommittedOffset(3, 7)
        assert await read(consumer, 1) == [(3, 7)]

    # The first metadata names the leader of epoch 0, which cannot answer about epoch 7.
    assert run(work, group_id="g").asked == [(7, 7)]


def test_a_commit_of_a_leader_that_there_never_was_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    async def work(consumer: Consumer, broker: Broker) -> None:
        broker.append(3)
        broker.committed[ONE] = CommittedOffset(2, 9)
        assert await read(consumer, 3) == [(0, 0), (1, 0), (2, 0)]

    monkeypatch.setattr(truncation, "STALE_SECONDS_MAX", 0.0)
    run(work, group_id="g")


def test_an_error_says_that_the_log_has_nothing_of_an_epoch(monkeypatch: pytest.MonkeyPatch) -> None:
    async def work(consumer: Consumer, broker: Broker) -> None:
        broker.append(3)
        consumer.seek(ONE, 2, leader_epoch=9)
        with pytest.raises(LogTruncated) as raised:
            await read(consumer, 1)
        assert raised.value.end is None
        assert "nothing of it" in str(raised.value)

    monkeypatch.setattr(truncation, "STALE_SECONDS_MAX", 0.0)
    run(work, auto_offset_reset="none")


def test_a_seek_settles_what_is_being_asked() -> None:
    async def work(consumer: Consumer, broker: Broker) -> None:
        broker.append(4)
        await read(consumer, 4)
        broker.answering.clear()
        broker.elect(1, keeps=2)
        broker.append(4)
        await until(lambda: bool(broker.asked))
        consumer.seek(ONE, 5)
        broker.answering.set()
        assert await read(consumer, 1) == [(5, 1)]

    run(work)


def test_a_leader_that_has_moved_is_asked_again() -> None:
    async def work(consumer: Consumer, broker: Broker) -> None:
        broker.append(4)
        await read(consumer, 4)
        broker.errors = [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.UNKNOWN_LEADER_EPOCH]
        broker.elect(1, keeps=3)
        broker.append(1)
        assert await read(consumer, 1) == [(3, 1)]

    assert run(work).asked[:3] == [(1, 0)] * 3


def test_what_may_not_be_asked_is_told() -> None:
    async def work(consumer: Consumer, broker: Broker) -> None:
        broker.append(1)
        await read(consumer, 1)
        broker.errors = [ErrorCode.TOPIC_AUTHORIZATION_FAILED]
        broker.elect(1)
        with pytest.raises(KafkaError, match="t-0") as raised:
            await read(consumer, 1)
        assert raised.value.code == ErrorCode.TOPIC_AUTHORIZATION_FAILED

    run(work)


def test_a_broker_that_cannot_tell_is_read_without_asking() -> None:
    async def work(consumer: Consumer, broker: Broker) -> None:
        broker.is_old = True
        broker.append(2)
        await read(consumer, 2)
        broker.elect(1)
        broker.append(1)
        assert await read(consumer, 1) == [(2, 1)]

    run(work)
