"""The data path as real clients use it: librdkafka (confluent-kafka) and aiokafka."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.structs import TopicPartition as AioTopicPartition
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from ottla.testing import Cluster, cluster
from tests.integration.data_path import create_topic
from tests.support.raw_client import RawClient


@pytest.fixture(scope="module")
def running() -> Iterator[Cluster]:
    with cluster() as started:
        yield started


@pytest.fixture
def raw(running: Cluster) -> Iterator[RawClient]:
    with RawClient(running.bootstrap) as connected:
        yield connected


def produce(running: Cluster, topic: str, texts: list[str], **settings: Any) -> list[int]:
    """Produces with librdkafka and returns the offsets in order of delivery."""
    offsets: list[int] = []
    errors: list[KafkaError] = []

    def delivered(error: KafkaError | None, message: Any) -> None:
        if error is None:
            offsets.append(message.offset())
        else:
            errors.append(error)

    producer = Producer({"bootstrap.servers": running.bootstrap, **settings})
    for text in texts:
        producer.produce(topic, value=text, partition=0, on_delivery=delivered)
    assert producer.flush(60) == 0
    if errors:
        raise KafkaException(errors[0])
    return offsets


def consume(running: Cluster, topic: str, count: int, *, offset: int = 0, **settings: Any) -> list[Any]:
    consumer = Consumer(
        {"bootstrap.servers": running.bootstrap, "group.id": "none", "enable.auto.commit": False, **settings}
    )
    try:
        consumer.assign([TopicPartition(topic, 0, offset)])
        messages: list[Any] = []
        while len(messages) < count:
            message = consumer.poll(30)
            assert message is not None, f"only {len(messages)} of {count} messages arrived"
            assert message.error() is None, message.error()
            messages.append(message)
        return messages
    finally:
        consumer.close()


class TestConfluent:
    @pytest.mark.parametrize("acks", ["0", "1", "all"])
    def test_acks(self, running: Cluster, raw: RawClient, acks: str) -> None:
        topic = create_topic(raw)
        texts = [f"m{number}" for number in range(1_000)]
        produce(running, topic, texts, acks=acks)
        messages = consume(running, topic, len(texts))
        assert [message.value().decode() for message in messages] == texts
        assert [message.offset() for message in messages] == list(range(1_000))

    def test_order_is_kept_inside_each_partition(self, running: Cluster, raw: RawClient) -> None:
        """A record sent later to a partition has a greater offset there and is read later."""
        topic, partitions, count = create_topic(raw, partitions=3), range(3), 3_000
        producer = Producer({"bootstrap.servers": running.bootstrap, "batch.num.messages": 50})
        for number in range(count):
            producer.produce(topic, value=str(number), partition=number % len(partitions))
        assert producer.flush(60) == 0
        consumer = Consumer({"bootstrap.servers": running.bootstrap, "group.id": "none", "enable.auto.commit": False})
        consumer.assign([TopicPartition(topic, partition, 0) for partition in partitions])
        read: dict[int, list[tuple[int, int]]] = {partition: [] for partition in partitions}
        while sum(map(len, read.values())) < count:
            message = consumer.poll(30)
            assert message is not None
            assert message.error() is None, message.error()
            read[message.partition()].append((message.offset(), int(message.value())))
        consumer.close()
        # Offsets count for each partition from 0.
        assert read == {
            partition: list(enumerate(range(partition, count, len(partitions)))) for partition in partitions
        }

    @pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
    def test_codecs(self, running: Cluster, raw: RawClient, codec: str) -> None:
        topic = create_topic(raw)
        texts = ["x" * 100] * 500
        assert produce(running, topic, texts, **{"compression.type": codec}) == list(range(500))
        assert len(consume(running, topic, 500)) == 500

    @pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd", "uncompressed"])
    def test_the_topic_decides_the_codec(self, running: Cluster, raw: RawClient, codec: str) -> None:
        topic = create_topic(raw, configs={"compression.type": codec})
        texts = [f"{number}-" + "x" * 1_000 for number in range(300)]
        produce(running, topic, texts, **{"linger.ms": 50, "compression.type": "gzip"})
        assert [message.value().decode() for message in consume(running, topic, 300)] == texts

    def test_idempotence(self, running: Cluster, raw: RawClient) -> None:
        topic = create_topic(raw)
        texts = [f"m{number}" for number in range(5_000)]
        offsets = produce(running, topic, texts, **{"enable.idempotence": True})
        assert offsets == list(range(5_000))
        assert [message.value().decode() for message in consume(running, topic, 5_000)] == texts

    def test_any_bytes_headers_and_nulls(self, running: Cluster, raw: RawClient) -> None:
        topic = create_topic(raw)
        headers = [("z", b"1"), ("a", b"\x00\xff"), ("z", None)]
        anything = bytes(range(256))
        producer = Producer({"bootstrap.servers": running.bootstrap})
        producer.produce(topic, key=anything, value=anything, headers=headers, partition=0)
        producer.produce(topic, key=None, value=None, partition=0)
        producer.produce(topic, key=b"", value=b"", partition=0)
        assert producer.flush(60) == 0
        first, second, third = consume(running, topic, 3)
        assert (first.key(), first.value(), first.headers()) == (anything, anything, headers)
        assert (second.key(), second.value(), second.headers()) == (None, None, None)
        assert (third.key(), third.value()) == (b"", b"")

    def test_reading_removes_nothing(self, running: Cluster, raw: RawClient) -> None:
        topic = create_topic(raw)
        for _ in range(2):
            produce(running, topic, ["a", "b"])
        readings = [[message.value() for message in consume(running, topic, 4)] for _ in range(2)]
        assert readings == [[b"a", b"b"] * 2] * 2

    def test_small_fetches_pass_large_messages(self, running: Cluster, raw: RawClient) -> None:
        topic = create_topic(raw)
        texts = ["x" * 50_000, "y" * 50_000]
        produce(running, topic, texts, **{"batch.num.messages": 1})
        messages = consume(
            running,
            topic,
            2,
            **{"fetch.message.max.bytes": 1_000, "fetch.max.bytes": 1_000, "message.max.bytes": 1_000},
        )
        assert [len(message.value()) for message in messages] == [50_000, 50_000]

    def test_too_large_is_refused(self, running: Cluster, raw: RawClient) -> None:
        topic = create_topic(raw, configs={"max.message.bytes": "1000"})
        with pytest.raises(KafkaException) as refused:
            produce(running, topic, ["x" * 2_000])
        assert refused.value.args[0].code() == KafkaError.MSG_SIZE_TOO_LARGE

    def test_timestamps_and_watermarks(self, running: Cluster, raw: RawClient) -> None:
        topic = create_topic(raw)
        producer = Producer({"bootstrap.servers": running.bootstrap})
        for number in range(10):
            producer.produce(topic, value="x", partition=0, timestamp=1_700_000_000_000 + number * 1_000)
        assert producer.flush(60) == 0
        consumer = Consumer({"bootstrap.servers": running.bootstrap, "group.id": "none"})
        try:
            assert consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=30) == (0, 10)
            wanted = [TopicPartition(topic, 0, 1_700_000_004_500)]
            assert consumer.offsets_for_times(wanted, timeout=30)[0].offset == 5
        finally:
            consumer.close()
        admin = AdminClient({"bootstrap.servers": running.bootstrap})
        futures = admin.list_offsets({TopicPartition(topic, 0): OffsetSpec.max_timestamp()})
        assert next(iter(futures.values())).result(timeout=30).offset == 9

    def test_delete_records(self, running: Cluster, raw: RawClient) -> None:
        topic = create_topic(raw)
        produce(running, topic, ["x"] * 10)
        admin = AdminClient({"bootstrap.servers": running.bootstrap})
        futures = admin.delete_records([TopicPartition(topic, 0, 7)])
        assert next(iter(futures.values())).result(timeout=30).low_watermark == 7
        messages = consume(running, topic, 3, **{"auto.offset.reset": "earliest"})
        assert [message.offset() for message in messages] == [7, 8, 9]

    def test_log_append_time(self, running: Cluster, raw: RawClient) -> None:
        topic = create_topic(raw, configs={"message.timestamp.type": "LogAppendTime"})
        producer = Producer({"bootstrap.servers": running.bootstrap})
        producer.produce(topic, value="x", partition=0, timestamp=1_000)
        assert producer.flush(60) == 0
        kind, timestamp = consume(running, topic, 1)[0].timestamp()
        assert kind == 2
        assert timestamp > 1_700_000_000_000


class TestAiokafka:
    @pytest.mark.parametrize("acks", [0, 1, "all"])
    def test_acks(self, running: Cluster, raw: RawClient, acks: int | str) -> None:
        topic = create_topic(raw)

        async def run() -> tuple[list[str], dict[Any, int]]:
            async with AIOKafkaProducer(bootstrap_servers=running.bootstrap, acks=acks) as producer:
                for number in range(200):
                    await producer.send(topic, f"m{number}".encode(), partition=0)
                await producer.flush()
            partition = AioTopicPartition(topic, 0)
            consumer = AIOKafkaConsumer(bootstrap_servers=running.bootstrap, group_id=None)
            async with consumer:
                consumer.assign([partition])
                await consumer.seek_to_beginning(partition)
                texts: list[str] = []
                while len(texts) < 200:
                    message = await asyncio.wait_for(consumer.getone(), 30)
                    texts.append(message.value.decode())
                return texts, await consumer.end_offsets([partition])

        texts, ends = asyncio.run(run())
        assert texts == [f"m{number}" for number in range(200)]
        assert list(ends.values()) == [200]

    def test_idempotence(self, running: Cluster, raw: RawClient) -> None:
        topic = create_topic(raw)

        async def run() -> list[int]:
            async with AIOKafkaProducer(bootstrap_servers=running.bootstrap, enable_idempotence=True) as producer:
                sent = [await producer.send(topic, b"x", partition=0) for _ in range(200)]
                return [(await future).offset for future in sent]

        assert asyncio.run(run()) == list(range(200))
