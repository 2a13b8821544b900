"""Which requests a producer sends, when, and their outcome; the broker answers by a script."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

import pytest

from ottla.client.errors import ClientError, TimedOut
from ottla.client.metadata import MetadataCache, PartitionInfo, TopicInfo
from ottla.client.producer.accumulator import Accumulator
from ottla.client.producer.batch import Delivery, OnDelivery, ProducerBatch
from ottla.client.producer.partitioner import RoundRobinPartitioner
from ottla.client.producer.queue import PartitionQueue
from ottla.client.producer.sender import Sender
from ottla.client.producer.sequences import ProducerIdentity
from ottla.client.producer.settings import ProducerSettings
from ottla.client.producer.transactions import TransactionManager
from ottla.client.settings import ClientSettings
from ottla.model.errors import ErrorCode, KafkaError
from ottla.model.ids import TopicPartition, Uuid
from ottla.wire.messages.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)

NEVER_MS = 80_000
Script = Callable[[int, int], ErrorCode]
"""From the number of a request and a partition to what is answered."""


class Connection:
    """Records requests and answers by the script, at once or when the test releases the answers."""

    def __init__(self, script: Script, *, waits: bool = False) -> None:
        self.script = script
        self.requests: list[dict[int, int]] = []
        # The bytes of each request's batches, not copied.
        self.records: list[Any] = []
        self.answering = asyncio.Event()
        if not waits:
            self.answering.set()

    async def post(self, request: ProduceRequest, **_: Any) -> ProduceResponse:
        (topic,) = request.topic_data
        self.requests.append({partition.index: len(partition.records or b"") for partition in topic.partition_data})
        self.records += [partition.records for partition in topic.partition_data]
        number = len(self.requests) - 1
        await self.answering.wait()
        answers = [
            PartitionProduceResponse(
                index=partition.index, error_code=self.script(number, partition.index), base_offset=number
            )
            for partition in topic.partition_data
        ]
        return ProduceResponse(responses=[TopicProduceResponse(name="t", partition_responses=answers)])


class Cluster:
    """Three partitions, led by one broker."""

    def __init__(self, connection: Connection, **settings: int) -> None:
        self.connection = connection
        self.settings = ClientSettings(bootstrap_servers=(), **{"retry_backoff_ms": 0, **settings})
        self.metadata = MetadataCache()
        self.partitions = 3
        self.refreshed = 0
        self.tell()

    def tell(self) -> None:
        partitions = {number: PartitionInfo(number, 1, 0, (), (), ()) for number in range(self.partitions)}
        self.metadata.topics["t"] = TopicInfo("t", Uuid.ZERO, False, partitions, None)

    def is_connected(self, node_id: int, purpose: str) -> bool:
        return True

    async def node_connection(self, node_id: int, purpose: str) -> Connection:
        return self.connection

    async def refresh(self, topics: list[str]) -> None:
        self.refreshed += 1
        self.tell()


class Sending:
    def __init__(self, cluster: Cluster, settings: ProducerSettings) -> None:
        identity = ProducerIdentity()
        if settings.uses_sequences:
            identity.set(5, 0)
        anything: Any = cluster
        transactions = TransactionManager(anything, settings, identity)
        self.cluster = cluster
        self.batches = Accumulator(settings, transactions)
        self.sender = Sender(anything, settings, self.batches, identity, transactions)

    def send(self, value: bytes, partition: int | None = 0, on_delivery: OnDelivery | None = None) -> Delivery:
        return self.batches.append(self.cluster.metadata.topics["t"], value, None, (), partition, None, on_delivery)


def run(
    script: Script,
    work: Callable[[Sending], Coroutine[Any, Any, None]],
    *,
    waits: bool = False,
    cluster: Mapping[str, int] | None = None,
    **settings: Any,
) -> Connection:
    async def scenario() -> Connection:
        connection = Connection(script, waits=waits)
        sending = Sending(Cluster(connection, **(cluster or {})), ProducerSettings(**{"linger_ms": 0, **settings}))
        await sending.sender.start()
        try:
            async with asyncio.timeout(60):
                await work(sending)
        finally:
            await sending.sender.stop()
        return connection

    return asyncio.run(scenario())


async def until(holds: Callable[[], bool]) -> None:
    while not holds():
        await asyncio.sleep(0)


def accepts(_number: int, _partition: int) -> ErrorCode:
    return ErrorCode.NONE


async def failure(delivery: Delivery) -> ErrorCode:
    with pytest.raises(KafkaError) as raised:
        await delivery
    return raised.value.code


def test_what_may_pass_is_told_only_when_all_retries_are_spent() -> None:
    async def work(sending: Sending) -> None:
        assert await failure(sending.send(b"x")) == ErrorCode.NOT_ENOUGH_REPLICAS

    assert len(run(lambda *_: ErrorCode.NOT_ENOUGH_REPLICAS, work, retries=3).requests) == 4


def test_batches_behind_an_expired_one_expire_as_well() -> None:
    async def work(sending: Sending) -> None:
        # The answer to the first batch wakes the sender once, and nothing wakes it again.
        sending.cluster.connection.answering.clear()
        first = sending.send(bytes(500))
        await until(lambda: bool(sending.cluster.connection.requests))
        later = [sending.send(bytes(500)) for _ in range(3)]
        for batch in (*sending.batches.queues[TopicPartition("t", 0)].closed, later[-1].batch):
            batch.created -= 1_000
        sending.cluster.connection.answering.set()
        await first
        for delivery in later:
            with pytest.raises(TimedOut):
                await delivery

    run(accepts, work, batch_size=500, in_flight_max=1)


def test_the_bytes_of_an_expired_batch_are_not_used_again_while_its_request_may_leave() -> None:
    """As CVE-2026-35554: the buffer of a batch that had expired in flight was filled with records of another topic."""

    async def work(sending: Sending) -> None:
        connection = sending.cluster.connection
        first = sending.send(b"a" * 400)
        await until(lambda: bool(connection.requests))
        before = bytes(connection.records[0])
        assert first.batch is not None
        first.batch.created -= 1_000
        second = sending.send(b"b" * 400, 1)
        await until(lambda: len(connection.requests) > 1)
        assert bytes(connection.records[0]) == before
        assert connection.records[1] is not connection.records[0]
        connection.answering.set()
        await second

    run(accepts, work, waits=True, batch_size=500)


def test_what_has_passed_is_not_told() -> None:
    async def work(sending: Sending) -> None:
        assert (await sending.send(b"x")).offset == 2

    def script(number: int, _partition: int) -> ErrorCode:
        return ErrorCode.LEADER_NOT_AVAILABLE if number < 2 else ErrorCode.NONE

    assert len(run(script, work).requests) == 3


@pytest.mark.parametrize("code", [ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.INVALID_CONFIG, ErrorCode.INVALID_RECORD])
def test_what_does_not_pass_is_told_at_once(code: ErrorCode) -> None:
    async def work(sending: Sending) -> None:
        assert await failure(sending.send(b"x")) == code

    assert len(run(lambda *_: code, work).requests) == 1


def test_a_batch_shares_its_fate_and_no_other_does() -> None:
    async def work(sending: Sending) -> None:
        bad = [sending.send(b"x", 0) for _ in range(3)]
        good = [sending.send(b"x", 1) for _ in range(3)]
        assert [await failure(delivery) for delivery in bad] == [ErrorCode.INVALID_RECORD] * 3
        assert [(await delivery).offset for delivery in good] == [0, 1, 2]

    def script(_number: int, partition: int) -> ErrorCode:
        return ErrorCode.NONE if partition else ErrorCode.INVALID_RECORD

    assert len(run(script, work).requests) == 1


def test_a_full_batch_leaves_at_once_and_others_linger() -> None:
    async def work(sending: Sending) -> None:
        lingering = sending.send(b"x", 1)
        full = [sending.send(bytes(60), 0) for _ in range(10)]
        await full[0]
        assert not lingering.done
        assert all(1 not in request for request in sending.cluster.connection.requests)
        # No batch lingers any more.
        sending.sender.flushing = 1
        sending.batches.wake.set()
        await lingering

    run(accepts, work, linger_ms=NEVER_MS, batch_size=600)


def test_without_lingering_a_single_record_leaves_whatever_room_there_is() -> None:
    async def work(sending: Sending) -> None:
        await sending.send(b"x")

    assert len(run(accepts, work, linger_ms=0, batch_size=10_000_000).requests) == 1


def test_a_request_has_a_largest_size_too() -> None:
    async def work(sending: Sending) -> None:
        deliveries = [sending.send(bytes(500), partition) for partition in range(3)]
        for delivery in deliveries:
            await delivery
        # The same limit holds for a single record.
        with pytest.raises(KafkaError) as raised:
            sending.send(bytes(1_300))
        assert raised.value.code == ErrorCode.MESSAGE_TOO_LARGE

    requests = run(accepts, work, request_bytes_max=1_300, linger_ms=0).requests
    assert [len(request) for request in requests] == [2, 1]
    assert all(sum(request.values()) <= 1_300 for request in requests)


@pytest.mark.parametrize(
    ("in_flight_max", "sent"),
    [
        # The second request is sent before the first is known to be lost, and arrives before its retry.
        (5, ["first", "second", "first"]),
        (1, ["first", "first", "second"]),
    ],
)
def test_order_without_sequence_numbers(in_flight_max: int, sent: list[str]) -> None:
    async def work(sending: Sending) -> None:
        connection = sending.cluster.connection
        deliveries = [sending.send(bytes(60)), sending.send(bytes(90))]
        await until(lambda: len(connection.requests) == min(in_flight_max, 2))
        connection.answering.set()
        for delivery in deliveries:
            await delivery

    def script(number: int, _partition: int) -> ErrorCode:
        return ErrorCode.NETWORK_EXCEPTION if number == 0 else ErrorCode.NONE

    options = {"idempotent": False, "in_flight_max": in_flight_max, "batch_size": 100}
    requests = run(script, work, waits=True, **options).requests
    sizes = [next(iter(request.values())) for request in requests]
    assert ["first" if size == min(sizes) else "second" for size in sizes] == sent


@pytest.mark.parametrize("timestamp_ms", [2**63, -(2**63)])
def test_a_time_that_cannot_be_written_down_is_refused_at_once(timestamp_ms: int) -> None:
    async def work(sending: Sending) -> None:
        info = sending.cluster.metadata.topics["t"]
        with pytest.raises(KafkaError) as raised:
            sending.batches.append(info, b"x", None, (), 0, timestamp_ms)
        assert raised.value.code == ErrorCode.INVALID_TIMESTAMP
        await sending.send(b"x")

    run(accepts, work)


def test_a_partition_that_is_given_is_taken_without_a_question() -> None:
    def never(*_: object) -> int:
        raise AssertionError("asked for a partition that was given")

    async def work(sending: Sending) -> None:
        await sending.send(b"x", 2)

    assert [set(request) for request in run(accepts, work, partitioner=never).requests] == [{2}]


def test_partitions_that_come_later_are_noticed() -> None:
    async def work(sending: Sending) -> None:
        for _ in range(3):
            await sending.send(b"x", None)
        sending.cluster.partitions = 5
        await until(lambda: len(sending.cluster.metadata.topics["t"].partitions) == 5)
        for _ in range(5):
            await sending.send(b"x", None)

    # All cached metadata expire at once.
    requests = run(accepts, work, partitioner=RoundRobinPartitioner(), cluster={"metadata_age_max_ms": 0}).requests
    assert {partition for request in requests for partition in request} == set(range(5))


def test_what_is_known_is_not_asked_for_again_before_its_time() -> None:
    refresh_counts: list[int] = []

    async def work(sending: Sending) -> None:
        for _ in range(5):
            await sending.send(b"x")
        refresh_counts.append(sending.cluster.refreshed)

    run(accepts, work, cluster={"metadata_age_max_ms": NEVER_MS})
    assert refresh_counts == [0]


def test_a_leader_whose_disk_failed_is_looked_for_elsewhere() -> None:
    async def work(sending: Sending) -> None:
        await sending.send(b"x")
        assert sending.cluster.refreshed

    run(lambda number, _: ErrorCode.NONE if number else ErrorCode.KAFKA_STORAGE_ERROR, work)


def test_what_comes_back_after_the_end_is_told() -> None:
    async def work(sending: Sending) -> None:
        delivery = sending.send(b"x")
        await until(lambda: bool(sending.cluster.connection.requests))
        await sending.sender.stop()
        sending.cluster.connection.answering.set()
        assert await failure(delivery) == ErrorCode.NETWORK_EXCEPTION

    run(lambda *_: ErrorCode.NETWORK_EXCEPTION, work, waits=True)


def test_a_record_that_cannot_be_written_down_leaves_nothing_behind() -> None:
    async def work(sending: Sending) -> None:
        text: Any = "not bytes"
        with pytest.raises(TypeError):
            sending.send(text)
        assert not sending.batches.unfinished
        await sending.send(b"x")

    assert len(run(accepts, work).requests) == 1


def test_an_unanswered_request_waits_until_it_can_be_sent() -> None:
    async def work(sending: Sending) -> None:
        leaving = asyncio.Event()

        async def drained(*, timeout_ms: int) -> None:
            assert timeout_ms == sending.sender._settings.request_timeout_ms
            await leaving.wait()

        connection: Any = sending.cluster.connection
        connection.drained = drained
        deliveries = [sending.send(bytes(60)) for _ in range(8)]
        await until(lambda: sending.sender._requests[1] == 5)
        assert not connection.requests
        assert not any(delivery.done for delivery in deliveries)
        leaving.set()
        for delivery in deliveries:
            await delivery
        assert len(connection.requests) == 8

    run(accepts, work, acks=0, batch_size=100)


class SlowCluster(Cluster):
    """A broker whose connection takes a given time to open."""

    def __init__(self, connection: Connection, **settings: int) -> None:
        super().__init__(connection, **settings)
        self.connected = asyncio.Event()
        self.connected.set()
        self.asked_for_connection = 0

    async def node_connection(self, node_id: int, purpose: str) -> Connection:
        self.asked_for_connection += 1
        await self.connected.wait()
        return self.connection


def run_slowly(script: Script, work: Callable[[Sending, SlowCluster], Coroutine[Any, Any, None]]) -> list[list[int]]:
    """The batch sizes of each request."""

    async def scenario() -> list[list[int]]:
        cluster = SlowCluster(Connection(script, waits=True))
        sending = Sending(cluster, ProducerSettings(linger_ms=0, batch_size=100))
        sending.batches.queues.setdefault(TopicPartition("t", 0), PartitionQueue()).known_producer_id = 5
        await sending.sender.start()
        try:
            async with asyncio.timeout(60):
                await work(sending, cluster)
        finally:
            await sending.sender.stop()
        return [list(request.values()) for request in cluster.connection.requests]

    return asyncio.run(scenario())


def test_what_comes_back_while_a_connection_is_made_goes_first() -> None:
    async def work(sending: Sending, cluster: SlowCluster) -> None:
        first = sending.send(bytes(60))
        await until(lambda: len(cluster.connection.requests) == 1)
        cluster.connected.clear()
        second = sending.send(bytes(90))
        await until(lambda: cluster.asked_for_connection == 2)
        cluster.connection.answering.set()
        await until(lambda: not sending.batches.queues[TopicPartition("t", 0)].in_flight)
        cluster.connected.set()
        assert (await first).offset == 1
        assert (await second).offset == 2

    def script(number: int, _partition: int) -> ErrorCode:
        return ErrorCode.NONE if number else ErrorCode.NOT_ENOUGH_REPLICAS

    sizes = run_slowly(script, work)
    assert len(sizes) == 3
    assert sizes[0] == sizes[1] < sizes[2]


def test_what_is_given_up_while_a_connection_is_made_does_not_end_the_sender() -> None:
    async def work(sending: Sending, cluster: SlowCluster) -> None:
        cluster.connection.answering.set()
        cluster.connected.clear()
        given_up = sending.send(bytes(60))
        await until(lambda: cluster.asked_for_connection == 1)
        sending.sender.fail_all(KafkaError(ErrorCode.REQUEST_TIMED_OUT, "given up"))
        assert await failure(given_up) == ErrorCode.REQUEST_TIMED_OUT
        cluster.connected.set()
        await sending.send(bytes(90))

    assert len(run_slowly(accepts, work)) == 1


def test_a_sender_that_fails_leaves_no_record_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    async def work(sending: Sending) -> None:
        with monkeypatch.context() as patch:
            patch.setattr(sending.cluster, "is_connected", None)
            delivery = sending.send(b"x")
            with pytest.raises(ClientError, match="The sender has failed"):
                await delivery
        assert not sending.sender.is_running
        await sending.sender.start()
        assert (await sending.send(b"y")).offset == 0

    run(accepts, work)


def test_a_batch_that_cannot_be_encoded_fails_and_holds_up_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    async def work(sending: Sending) -> None:
        def fails(*_: Any, **__: Any) -> Any:
            raise MemoryError

        with monkeypatch.context() as patch:
            patch.setattr(ProducerBatch, "encode", fails)
            with pytest.raises(ClientError, match="MemoryError"):
                await sending.send(b"x")
        await sending.send(b"y")
        assert sending.batches.available_bytes == ProducerSettings().buffer_bytes
        assert not sending.batches.unfinished
        await until(lambda: not sending.sender.requests_in_flight)

    run(accepts, work, idempotent=False)
