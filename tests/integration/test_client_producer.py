"""The producer as applications use it: configuration, callbacks, interceptors, partitioners, and a full buffer."""

from __future__ import annotations

import asyncio
import threading
import uuid
from collections.abc import Mapping
from typing import Any

import pytest

from ottla.client.admin import AdminClient
from ottla.client.admin.configs import ConfigChange, ConfigResource, ResourceType
from ottla.client.admin.topics import NewTopic
from ottla.client.blocking import BlockingProducer
from ottla.client.config import ConfigurationError
from ottla.client.consumer import ConsumedRecord, Consumer
from ottla.client.errors import BufferExhausted, ClientError, ClusterUnreachable, TimedOut
from ottla.client.metadata import PartitionInfo
from ottla.client.producer import OutgoingRecord, Producer, ProducerInterceptor, RecordMetadata
from ottla.client.producer.partitioner import partition_of_key
from ottla.model.errors import ErrorCode, KafkaError
from ottla.model.ids import TopicPartition


@pytest.fixture
def cluster_config(client_bootstrap: str) -> dict[str, Any]:
    return {"bootstrap.servers": client_bootstrap}


@pytest.fixture
def topic(cluster_config: dict[str, Any]) -> str:
    name = f"t-{uuid.uuid4().hex[:8]}"

    async def create() -> None:
        async with AdminClient(cluster_config) as admin:
            await admin.topics.create([NewTopic(name=name, partitions=3, replication_factor=1)])

    asyncio.run(create())
    return name


async def read(cluster_config: dict[str, Any], topic: str, count: int) -> list[ConsumedRecord]:
    async with Consumer({**cluster_config, "auto.offset.reset": "earliest"}) as consumer:
        await consumer.assign(await consumer.partitions(topic))
        records: list[ConsumedRecord] = []
        async with asyncio.timeout(30):
            while len(records) < count:
                records += await consumer.poll()
        return records


def test_callbacks_of_a_partition_come_in_order(cluster_config: dict[str, Any], topic: str) -> None:
    called: list[tuple[int, int]] = []

    def on_delivery(metadata: RecordMetadata, error: Exception | None) -> None:
        assert error is None
        called.append((metadata.partition, metadata.offset))
        if metadata.offset == 5:
            raise RuntimeError("a callback that fails")

    async def scenario() -> None:
        async with Producer({**cluster_config, "batch.size": 500}) as producer:
            for number in range(300):
                await producer.send(topic, b"%d" % number, partition=number % 3, on_delivery=on_delivery)

    asyncio.run(scenario())
    for partition in range(3):
        assert [offset for target, offset in called if target == partition] == list(range(100))


def test_a_callback_gets_the_error_too(cluster_config: dict[str, Any], topic: str) -> None:
    called: list[tuple[RecordMetadata, Exception | None]] = []

    async def scenario() -> None:
        async with AdminClient(cluster_config) as admin, Producer(cluster_config) as producer:
            await admin.configs.alter(
                {ConfigResource(ResourceType.TOPIC, topic): [ConfigChange("max.message.bytes", "100")]}
            )
            delivery = await producer.send(
                topic, bytes(1_000), partition=1, on_delivery=lambda metadata, error: called.append((metadata, error))
            )
            with pytest.raises(KafkaError):
                await delivery

    asyncio.run(scenario())
    ((metadata, error),) = called
    assert (metadata.topic, metadata.partition, metadata.offset) == (topic, 1, -1)
    assert isinstance(error, KafkaError)
    assert error.code == ErrorCode.MESSAGE_TOO_LARGE


@pytest.mark.parametrize("transactional", [False, True])
def test_batches_are_split_until_the_topic_accepts_them(cluster_config: dict[str, Any], transactional: bool) -> None:
    called: list[tuple[int, ErrorCode | None]] = []

    def on_delivery(metadata: RecordMetadata, error: Exception | None) -> None:
        called.append((metadata.offset, error.code if isinstance(error, KafkaError) else None))

    async def scenario() -> None:
        topic = f"t-{uuid.uuid4().hex[:8]}"
        own = {"transactional.id": topic} if transactional else {}
        async with (
            AdminClient(cluster_config) as admin,
            Producer({**cluster_config, **own, "linger.ms": 1_000}) as producer,
        ):
            small = {"max.message.bytes": "1000"}
            await admin.topics.create([NewTopic(name=topic, partitions=1, replication_factor=1, configs=small)])
            if transactional:
                await producer.init_transactions()
                producer.begin_transaction()
            for number in range(100):
                await producer.send(topic, b"%d" % number + bytes(number), key=b"k", on_delivery=on_delivery)
            if transactional:
                await producer.commit_transaction()
            await producer.flush()
            assert called == [(number, None) for number in range(100)]
            values = [(record.value or b"").rstrip(bytes(1)) for record in await read(cluster_config, topic, 100)]
            assert values == [b"%d" % number for number in range(100)]
            if not transactional:
                partition = TopicPartition(topic, 0)
                ((state,),) = (await admin.transactions.producers([partition])).values()
                # Every sequence number was used exactly once, so the epoch has not changed.
                assert (state.producer_epoch, state.last_sequence) == (0, 99)

    asyncio.run(scenario())


class Marking(ProducerInterceptor):
    def __init__(self) -> None:
        self.acknowledged: list[int] = []
        self.closed = False
        self.config: Mapping[str, Any] = {}

    def configure(self, config: Mapping[str, Any]) -> None:
        self.config = config

    def on_send(self, record: OutgoingRecord) -> OutgoingRecord:
        return record._replace(value=record.value + b"!", headers=[*record.headers, ("seen", b"1")])

    def on_acknowledgement(self, metadata: RecordMetadata, error: Exception | None) -> None:
        self.acknowledged.append(metadata.offset)

    def close(self) -> None:
        self.closed = True


class Broken(ProducerInterceptor):
    def on_send(self, record: OutgoingRecord) -> OutgoingRecord:
        raise RuntimeError("broken on purpose")

    def on_acknowledgement(self, metadata: RecordMetadata, error: Exception | None) -> None:
        raise RuntimeError("broken on purpose")

    def close(self) -> None:
        raise RuntimeError("broken on purpose")


def test_a_failed_batch_raises_the_epoch_and_later_records_follow(cluster_config: dict[str, Any]) -> None:
    async def scenario() -> None:
        topic = f"t-{uuid.uuid4().hex[:8]}"
        partition = TopicPartition(topic, 0)
        async with AdminClient(cluster_config) as admin, Producer(cluster_config) as producer:
            small = {"max.message.bytes": "1000"}
            await admin.topics.create([NewTopic(name=topic, partitions=1, replication_factor=1, configs=small)])
            assert (await producer.send_and_wait(topic, b"1")).offset == 0
            with pytest.raises(KafkaError) as refused:
                await producer.send_and_wait(topic, bytes(5_000))
            assert refused.value.code == ErrorCode.MESSAGE_TOO_LARGE
            assert [(await producer.send_and_wait(topic, b"%d" % number)).offset for number in (2, 3)] == [1, 2]
            states = (await admin.transactions.producers([partition]))[partition]
            assert isinstance(states, list)
            assert [(state.producer_epoch, state.last_sequence) for state in states] == [(1, 1)]

    asyncio.run(scenario())


def test_interceptors_replace_records_and_never_break_a_send(cluster_config: dict[str, Any], topic: str) -> None:
    first, last = Marking(), Marking()

    async def scenario() -> list[ConsumedRecord]:
        async with Producer({**cluster_config, "interceptor.classes": [first, Broken, last]}) as producer:
            metadata = await producer.send_and_wait(topic, b"v", b"k")
            assert metadata.offset == 0
            with pytest.raises(KafkaError):
                await producer.send(topic, b"v", partition=99)
        return await read(cluster_config, topic, 1)

    (record,) = asyncio.run(scenario())
    assert (record.value, record.key, record.headers) == (b"v!!", b"k", [("seen", b"1"), ("seen", b"1")])
    assert first.acknowledged == last.acknowledged == [0, -1]
    assert first.closed
    assert last.closed
    assert first.config["bootstrap.servers"] == cluster_config["bootstrap.servers"]


class Alerts:
    """Critical alerts have the last partition for themselves; the other records share the rest."""

    def partition(
        self, _topic: str, key: bytes | None, value: bytes | None, partitions: Mapping[int, PartitionInfo]
    ) -> int:
        if value == b"wrong":
            return 99
        last = len(partitions) - 1
        return last if value == b"CRITICAL" else partition_of_key(key or b"", last)


def test_a_partitioner_of_the_application(cluster_config: dict[str, Any], topic: str) -> None:
    async def scenario() -> None:
        async with Producer({**cluster_config, "partitioner.class": f"{Alerts.__module__}:Alerts"}) as producer:
            for number in range(20):
                calm = await producer.send_and_wait(topic, b"minor", b"%d" % number)
                assert calm.partition < 2
            assert (await producer.send_and_wait(topic, b"CRITICAL", b"7")).partition == 2
            assert (await producer.send_and_wait(topic, b"CRITICAL", b"7", partition=0)).partition == 0
            with pytest.raises(KafkaError, match="The partitioner Alerts chose partition 99"):
                await producer.send(topic, b"wrong")

    asyncio.run(scenario())


def test_a_full_buffer_blocks_and_then_raises(cluster_config: dict[str, Any], topic: str) -> None:
    async def scenario() -> None:
        config = {**cluster_config, "buffer.memory": 10_000, "batch.size": 2_000, "max.block.ms": 300, "linger.ms": 0}
        async with Producer(config) as producer:
            await producer.send_and_wait(topic, b"first")
            connection = await producer._cluster.node_connection(
                producer._cluster.metadata.leader_of(topic, 0), "produce"
            )
            answered = connection.post
            futures: list[asyncio.Future[Any]] = []

            def hold(*_: Any, **__: Any) -> asyncio.Future[Any]:
                futures.append(asyncio.get_running_loop().create_future())
                return futures[-1]

            connection.post = hold  # type: ignore[method-assign]

            async def fill() -> None:
                for _ in range(100):
                    await producer.send(topic, bytes(500), partition=0)

            with pytest.raises(BufferExhausted, match=r"within max\.block\.ms=300.*raise buffer\.memory"):
                await fill()
            connection.post = answered  # type: ignore[method-assign]
            connection.close("told to")
            for future in futures:
                future.set_exception(_lost())

    asyncio.run(scenario())


def _lost() -> Exception:
    from ottla.client.errors import ConnectionLost

    return ConnectionLost("told to")


def test_a_cluster_that_does_not_answer_is_an_error_with_a_sentence() -> None:
    async def scenario() -> None:
        async with Producer({"bootstrap.servers": "127.0.0.1:1", "max.block.ms": 300}) as producer:
            with pytest.raises((TimedOut, ClusterUnreachable), match=r"max\.block\.ms=300|Is it running"):
                await producer.send("nowhere", b"v")

    asyncio.run(scenario())


def test_time_that_is_over_has_a_reason() -> None:
    with BlockingProducer({"bootstrap.servers": "127.0.0.1:1", "max.block.ms": 1_000}) as producer:
        sent = producer.send("t", b"value")
        with pytest.raises(TimedOut, match=r"no metadata within max\.block\.ms=1000\. .*127\.0\.0\.1:1"):
            sent.result()


@pytest.mark.parametrize(
    ("record", "said"),
    [
        ({"value": "text"}, r"The value is of type str, not bytes: set value\.serializer=string, or convert it"),
        ({"value": b"v", "key": 7}, r"The key is of type int, not bytes: set key\.serializer=long"),
        ({"value": object()}, "The value is of type object, not bytes: set a serializer"),
    ],
)
def test_a_record_that_is_no_bytes_is_explained(
    cluster_config: dict[str, Any], topic: str, record: dict[str, Any], said: str
) -> None:
    with BlockingProducer(cluster_config) as producer:
        for _ in range(2):
            sent = producer.send(topic, **record)
            with pytest.raises(TypeError, match=said):
                sent.result()


def test_threads_share_a_blocking_producer(cluster_config: dict[str, Any], topic: str) -> None:
    called: list[int] = []
    with BlockingProducer({**cluster_config, "linger.ms": 2}) as producer:

        def work(number: int) -> None:
            for index in range(50):
                producer.send(
                    topic,
                    b"%d" % index,
                    b"%d" % number,
                    partition=number % 3,
                    on_delivery=lambda metadata, _error: called.append(metadata.offset),
                )

        threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        producer.flush()
        assert len(called) == 300
        assert producer.metrics()["record-send-rate"] > 0
    records = asyncio.run(read(cluster_config, topic, 300))
    for number in range(6):
        values = [record.value for record in records if record.key == b"%d" % number]
        assert values == [b"%d" % index for index in range(50)]


def test_a_misspelt_key_is_named_with_the_right_one(cluster_config: dict[str, Any]) -> None:
    for client in (Producer, Consumer, AdminClient, BlockingProducer):
        with pytest.raises(ConfigurationError, match=r"Did you mean request\.timeout\.ms\?"):
            client({**cluster_config, "request.timeout": 5})


def test_two_phase_commits_are_refused_with_a_sentence(client_bootstrap: str) -> None:
    config = {"bootstrap.servers": client_bootstrap, "transactional.id": "two-phases"}
    with (
        BlockingProducer({**config, "transaction.two.phase.commit.enable": True}) as producer,
        pytest.raises(ClientError, match="The cluster has no two-phase commits"),
    ):
        producer.init_transactions()
    with BlockingProducer(config) as producer, pytest.raises(ClientError, match="Prepared transactions need"):
        producer.init_transactions(keep_prepared=True)
