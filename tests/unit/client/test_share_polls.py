"""Polls and acknowledgements of a share consumer over a broker that answers by a script."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from ottla.client.cluster import Cluster
from ottla.client.errors import ClientError, ConnectionLost, TimedOut
from ottla.client.metadata import BrokerNode, PartitionInfo, TopicInfo
from ottla.client.settings import ClientSettings
from ottla.client.share import Acknowledge, ShareConsumer, ShareSettings
from ottla.model.errors import ErrorCode, KafkaError
from ottla.model.ids import TopicPartition, Uuid
from ottla.records.build import build_batch
from ottla.records.record import Record
from ottla.wire.messages.share_acknowledge import (
    PartitionData as AcknowledgedPartition,
)
from ottla.wire.messages.share_acknowledge import (
    ShareAcknowledgeRequest,
    ShareAcknowledgeResponse,
    ShareAcknowledgeTopicResponse,
)
from ottla.wire.messages.share_fetch import (
    AcquiredRecords,
    PartitionData,
    ShareFetchableTopicResponse,
    ShareFetchResponse,
)

TOPIC = Uuid(b"t" * 16)
ONE = TopicPartition("t", 0)


class Broker:
    """A connection whose first fetch acquires some records of a partition; later fetches wait."""

    def __init__(self, count: int = 3) -> None:
        self.count = count
        self.asked: list[Any] = []
        # The answer to acknowledgements: an error code, an exception, or None for no answer.
        self.outcome: int | Exception | None = 0

    def version_of(self, _spec: object) -> int:
        return 2

    async def ask(self, request: Any, **_: Any) -> Any:
        self.asked.append(request)
        if isinstance(request, ShareAcknowledgeRequest):
            return await self._acknowledged(request)
        if len([asked for asked in self.asked if not isinstance(asked, ShareAcknowledgeRequest)]) > 1:
            await asyncio.Event().wait()
        content = build_batch([Record(value=b"%d" % number) for number in range(self.count)], base_offset=0)
        data = PartitionData(
            partition_index=0,
            records=memoryview(bytes(content)),
            acquired_records=[AcquiredRecords(first_offset=0, last_offset=self.count - 1, delivery_count=1)],
        )
        return ShareFetchResponse(responses=[ShareFetchableTopicResponse(topic_id=TOPIC, partitions=[data])])

    async def _acknowledged(self, request: ShareAcknowledgeRequest) -> ShareAcknowledgeResponse:
        if self.outcome is None:
            await asyncio.Event().wait()
        if isinstance(self.outcome, Exception):
            raise self.outcome
        answers = [AcknowledgedPartition(partition_index=0, error_code=self.outcome or 0) for _ in request.topics]
        topics = [ShareAcknowledgeTopicResponse(topic_id=TOPIC, partitions=answers)] if answers else []
        return ShareAcknowledgeResponse(responses=topics)

    @property
    def decided(self) -> list[tuple[int, int, list[int]]]:
        return [
            (batch.first_offset, batch.last_offset, batch.acknowledge_types)
            for request in self.asked
            for topic in request.topics
            for partition in topic.partitions
            for batch in partition.acknowledgement_batches
        ]


class Member:
    """A membership with a fixed assignment."""

    identity = type("Identity", (), {"member_id": "m"})

    async def poll(self, _deadline: float) -> None:
        return

    async def wait(self) -> None:
        await asyncio.Event().wait()

    async def leave(self) -> None:
        return


def share(work: Callable[[ShareConsumer, Broker], Awaitable[object]], **settings: Any) -> None:
    async def scenario() -> None:
        broker = Broker()
        cluster = Cluster(ClientSettings(bootstrap_servers=(), retry_backoff_ms=0))
        cluster.metadata.brokers = {1: BrokerNode(1, "h", 1, None)}
        there = {0: PartitionInfo(0, 1, 0, (1,), (1,), ())}
        cluster.metadata.topics["t"] = TopicInfo("t", TOPIC, False, there, None)
        cluster.metadata.names[TOPIC] = "t"
        anything: Any = cluster

        async def connected(*_: Any) -> Broker:
            return broker

        async def refreshed(*_: Any, **__: Any) -> Any:
            return cluster.metadata

        anything.node_connection, anything.refresh = connected, refreshed
        consumer = ShareConsumer(cluster, ShareSettings(group_id="g", **settings))
        member: Any = Member()
        consumer._membership, consumer._assigned = member, [ONE]
        await work(consumer, broker)
        await consumer.close(timeout_ms=100)

    asyncio.run(scenario())


class Slow:
    """A deserializer that asks a registry, whose answer the test releases."""

    uses_network = True

    def __init__(self) -> None:
        self.begun, self.answer = threading.Event(), threading.Event()

    def configure(self, _config: object, *, is_key: bool) -> None:
        return

    def close(self) -> None:
        return

    def deserialize(self, _topic: str, data: bytes | None, _headers: object = ()) -> bytes | None:
        self.begun.set()
        assert self.answer.wait(20)
        return data


def test_a_cancelled_poll_accepts_nothing_and_loses_nothing() -> None:
    slow = Slow()

    async def work(consumer: ShareConsumer, broker: Broker) -> None:
        poll = asyncio.ensure_future(consumer.poll(20_000))
        await asyncio.to_thread(slow.begun.wait)
        poll.cancel()
        await asyncio.gather(poll, return_exceptions=True)
        slow.answer.set()
        await consumer.commit()
        assert broker.decided == []
        assert [record.value for record in await consumer.poll(20_000)] == [b"0", b"1", b"2"]
        await consumer.commit()
        assert broker.decided == [(0, 2, [1])]

    share(work, value_deserializer=slow)


def test_a_connection_may_break_while_records_are_deserialized() -> None:
    slow = Slow()

    async def work(consumer: ShareConsumer, _broker: Broker) -> None:
        poll = asyncio.ensure_future(consumer.poll(20_000))
        await asyncio.to_thread(slow.begun.wait)
        consumer._fetcher._lose(1)
        slow.answer.set()
        assert len(await poll) == 3

    share(work, value_deserializer=slow)


def test_an_error_of_a_commit_leaves_undecided_records_with_the_application() -> None:
    async def work(consumer: ShareConsumer, broker: Broker) -> None:
        records = await consumer.poll(20_000)
        consumer.acknowledge(records[0])
        broker.outcome = ErrorCode.INVALID_RECORD_STATE
        error = (await consumer.commit())[ONE]
        assert error is not None
        assert error.code == ErrorCode.INVALID_RECORD_STATE
        broker.outcome = 0
        consumer.acknowledge(records[1])
        assert await consumer.commit() == {ONE: None}
        # A lock that could not be renewed takes its record away.
        consumer.acknowledge(records[2], Acknowledge.RENEW)
        broker.outcome = ErrorCode.INVALID_RECORD_STATE
        await consumer.commit()
        assert consumer._held.undecided == 0

    share(work, explicit=True)


def test_a_poll_after_one_that_was_cancelled_while_it_renewed_locks_returns_the_renewed_records() -> None:
    async def work(consumer: ShareConsumer, broker: Broker) -> None:
        answering = asyncio.Event()
        answer = broker._acknowledged

        async def late(request: ShareAcknowledgeRequest) -> ShareAcknowledgeResponse:
            await answering.wait()
            return await answer(request)

        broker._acknowledged = late  # type: ignore[method-assign]
        records = await consumer.poll(20_000)
        consumer.acknowledge(records[0])
        for record in records[1:]:
            consumer.acknowledge(record, Acknowledge.RENEW)
        for _ in range(2):
            poll = asyncio.ensure_future(consumer.poll(20_000))
            for _step in range(50):
                await asyncio.sleep(0)
            assert isinstance(broker.asked[-1], ShareAcknowledgeRequest)
            poll.cancel()
            with pytest.raises(asyncio.CancelledError):
                await poll
        # A decision meanwhile counts.
        consumer.acknowledge(records[1])
        answering.set()
        assert await consumer.poll(20_000) == [records[2]]
        with pytest.raises(ClientError, match="1 records of the last poll are not acknowledged"):
            await consumer.poll(20_000)
        renew = [asked for asked in broker.asked if isinstance(asked, ShareAcknowledgeRequest) and asked.is_renew_ack]
        assert len(renew) == 1

    share(work, explicit=True)


def test_a_record_that_the_broker_has_taken_back_is_told_to_the_callback() -> None:
    callback_calls: list[tuple[list[int], ErrorCode | None]] = []

    def callback(_partition: TopicPartition, offsets: list[int], error: KafkaError | None) -> None:
        callback_calls.append((offsets, None if error is None else error.code))

    async def work(consumer: ShareConsumer, broker: Broker) -> None:
        consumer.set_acknowledgement_callback(callback)
        records = await consumer.poll(20_000)
        consumer.acknowledge(records[0])
        broker.outcome = ConnectionLost("gone")
        await consumer.commit()
        consumer.acknowledge(records[1])
        assert callback_calls == [([0], ErrorCode.NETWORK_EXCEPTION), ([1], ErrorCode.INVALID_RECORD_STATE)]

    share(work, explicit=True)


def test_a_commit_in_a_loop_over_records_that_cannot_be_hashed() -> None:
    async def work(consumer: ShareConsumer, broker: Broker) -> None:
        async for record in consumer:
            assert isinstance(record.headers, list | tuple)
            # Objects of a deserializer, such as dictionaries, have no hash.
            waiting: Any = consumer._waiting
            for number, waiting_record in enumerate(waiting):
                waiting[number] = waiting_record._replace(value={})
            await consumer.commit()
            break
        assert broker.decided == [(0, 0, [1])]

    share(work)


def test_time_outs() -> None:
    async def work(consumer: ShareConsumer, broker: Broker) -> None:
        await consumer.poll(20_000)
        broker.outcome = None
        with pytest.raises(TimedOut, match="did not answer the acknowledgements"):
            await consumer.commit(timeout_ms=1)
        consumer.commit_async()
        async with asyncio.timeout(20):
            await consumer.close(timeout_ms=1)

    share(work)


def test_acknowledgements_of_a_deleted_topic_are_not_taken_for_successful() -> None:
    errors: list[KafkaError | None] = []

    async def work(consumer: ShareConsumer, broker: Broker) -> None:
        consumer.set_acknowledgement_callback(lambda _partition, _offsets, error: errors.append(error))
        records = await consumer.poll(20_000)
        metadata = consumer._cluster.metadata
        metadata.topics["t"] = TopicInfo("t", Uuid.ZERO, False, {}, KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
        metadata.names.clear()
        broker.outcome = ErrorCode.UNKNOWN_TOPIC_ID
        consumer.acknowledge(records[0])
        error = (await consumer.commit())[ONE]
        assert error is not None
        assert errors == [error]

    share(work, explicit=True)
