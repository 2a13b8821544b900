"""Producers with the first version of transactions: they add partitions themselves, and keep their epoch."""

from __future__ import annotations

import asyncio
import warnings

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

import ottla.testing
from tests.integration.cluster_calls import create_topic

with warnings.catch_warnings():
    # The library reads its own data with a deprecated function of Python.
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka import KafkaProducer

TIMEOUT_S = 60


async def _with_aiokafka(bootstrap: str, topic: str) -> None:
    producer = AIOKafkaProducer(bootstrap_servers=bootstrap, transactional_id=topic)
    await producer.start()
    try:
        for number in range(6):
            await producer.begin_transaction()
            await producer.send_and_wait(topic, b"%d" % number)
            if number % 2:
                await producer.abort_transaction()
            else:
                await producer.commit_transaction()
    finally:
        await producer.stop()


def _with_kafka_python(bootstrap: str, topic: str) -> None:
    producer = KafkaProducer(bootstrap_servers=bootstrap, transactional_id=topic)
    try:
        producer.init_transactions()
        for number in range(6):
            producer.begin_transaction()
            producer.send(topic, b"%d" % number).get(TIMEOUT_S)
            if number % 2:
                producer.abort_transaction()
            else:
                producer.commit_transaction()
    finally:
        producer.close(TIMEOUT_S)


async def _committed(bootstrap: str, topic: str) -> list[bytes]:
    consumer = AIOKafkaConsumer(
        topic, bootstrap_servers=bootstrap, isolation_level="read_committed", auto_offset_reset="earliest"
    )
    await consumer.start()
    try:
        return [(await asyncio.wait_for(consumer.getone(), TIMEOUT_S)).value for _ in range(3)]
    finally:
        await consumer.stop()


def test_producers_of_the_first_version() -> None:
    with ottla.testing.cluster() as cluster:
        for topic in ("aiokafka", "kafka-python"):
            create_topic(cluster.node(1), topic)
        asyncio.run(_with_aiokafka(cluster.bootstrap, "aiokafka"))
        _with_kafka_python(cluster.bootstrap, "kafka-python")
        for topic in ("aiokafka", "kafka-python"):
            assert asyncio.run(_committed(cluster.bootstrap, topic)) == [b"0", b"2", b"4"]
