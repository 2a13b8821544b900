"""Produce and consume with three widely used Python clients: confluent-kafka, aiokafka and kafka-python."""

from __future__ import annotations

import asyncio
import uuid
import warnings

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka import TopicPartition as AioTopicPartition
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

import ottla.testing

with warnings.catch_warnings():
    # The library reads its schemas with a deprecated function of the standard library.
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka import KafkaConsumer, KafkaProducer
    from kafka import TopicPartition as PythonTopicPartition

MESSAGES = [(b"key-%d" % number, b"value-%d" % number * 20) for number in range(200)]


@pytest.fixture
def topic(shared_cluster: ottla.testing.Cluster) -> str:
    name = f"topic-{uuid.uuid4().hex[:8]}"
    admin = AdminClient({"bootstrap.servers": shared_cluster.bootstrap})
    admin.create_topics([NewTopic(name, num_partitions=3)])[name].result(30)
    return name


def consume_with_confluent(bootstrap: str, topic: str, partition: int, count: int) -> list[tuple[bytes, bytes]]:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "none", "enable.auto.commit": False})
    try:
        consumer.assign([TopicPartition(topic, partition, 0)])
        records: list[tuple[bytes, bytes]] = []
        while len(records) < count:
            messages = consumer.consume(count - len(records), timeout=30)
            assert messages, f"only {len(records)} of {count} records came"
            for message in messages:
                if message.error():
                    raise KafkaException(message.error())
                records.append((message.key(), message.value()))
        return records
    finally:
        consumer.close()


@pytest.mark.parametrize("acks", ["0", "1", "all"])
@pytest.mark.parametrize("compression", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_confluent_kafka(shared_cluster: ottla.testing.Cluster, topic: str, acks: str, compression: str) -> None:
    producer = Producer(
        {"bootstrap.servers": shared_cluster.bootstrap, "acks": acks, "compression.type": compression, "linger.ms": 5}
    )
    failures: list[object] = []
    for key, value in MESSAGES:
        producer.produce(topic, value, key, partition=1, on_delivery=lambda error, _: failures.append(error))
    assert producer.flush(60) == 0
    assert failures == [None] * len(MESSAGES)
    assert consume_with_confluent(shared_cluster.bootstrap, topic, 1, len(MESSAGES)) == MESSAGES


def test_confluent_kafka_with_idempotence(shared_cluster: ottla.testing.Cluster, topic: str) -> None:
    producer = Producer(
        {"bootstrap.servers": shared_cluster.bootstrap, "enable.idempotence": True, "batch.num.messages": 10}
    )
    for key, value in MESSAGES:
        producer.produce(topic, value, key, partition=0)
    assert producer.flush(60) == 0
    assert consume_with_confluent(shared_cluster.bootstrap, topic, 0, len(MESSAGES)) == MESSAGES


def test_a_topic_is_created_by_the_first_produce(shared_cluster: ottla.testing.Cluster) -> None:
    topic = f"auto-{uuid.uuid4().hex[:8]}"
    producer = Producer({"bootstrap.servers": shared_cluster.bootstrap})
    producer.produce(topic, b"first", b"one")
    assert producer.flush(60) == 0
    assert consume_with_confluent(shared_cluster.bootstrap, topic, 0, 1) == [(b"one", b"first")]


def test_aiokafka(shared_cluster: ottla.testing.Cluster, topic: str) -> None:
    async def produce_and_consume() -> list[tuple[bytes, bytes]]:
        async with AIOKafkaProducer(bootstrap_servers=shared_cluster.bootstrap, acks="all") as producer:
            for key, value in MESSAGES:
                await producer.send(topic, value, key, partition=2)
            await producer.flush()
        consumer = AIOKafkaConsumer(bootstrap_servers=shared_cluster.bootstrap, group_id=None)
        async with consumer:
            partition = AioTopicPartition(topic, 2)
            consumer.assign([partition])
            await consumer.seek_to_beginning(partition)
            records = []
            while len(records) < len(MESSAGES):
                record = await consumer.getone()
                records.append((record.key, record.value))
            return records

    assert asyncio.run(asyncio.wait_for(produce_and_consume(), 60)) == MESSAGES


def test_kafka_python(shared_cluster: ottla.testing.Cluster, topic: str) -> None:
    producer = KafkaProducer(bootstrap_servers=shared_cluster.bootstrap, acks="all", linger_ms=5)
    for key, value in MESSAGES:
        producer.send(topic, value, key, partition=0)
    producer.flush(60)
    producer.close()
    consumer = KafkaConsumer(bootstrap_servers=shared_cluster.bootstrap, group_id=None, consumer_timeout_ms=30_000)
    partition = PythonTopicPartition(topic, 0)
    consumer.assign([partition])
    consumer.seek_to_beginning(partition)
    records = []
    for record in consumer:
        records.append((record.key, record.value))
        if len(records) == len(MESSAGES):
            break
    assert consumer.end_offsets([partition]) == {partition: len(MESSAGES)}
    consumer.close()
    assert records == MESSAGES


def test_records_and_settings_survive_stop_and_crash() -> None:
    with ottla.testing.cluster() as cluster:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
        admin.create_topics([NewTopic("kept", num_partitions=1, config={"retention.ms": "123456789"})])["kept"].result(
            10
        )
        producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all"})
        for key, value in MESSAGES:
            producer.produce("kept", value, key)
        assert producer.flush(60) == 0
        cluster.node(1).stop()
        cluster.node(1).start()
        assert consume_with_confluent(cluster.bootstrap, "kept", 0, len(MESSAGES)) == MESSAGES
        producer.produce("kept", b"after", b"stop")
        assert producer.flush(60) == 0
        cluster.node(1).kill()
        cluster.node(1).start()
        everything = [*MESSAGES, (b"stop", b"after")]
        assert consume_with_confluent(cluster.bootstrap, "kept", 0, len(everything)) == everything
