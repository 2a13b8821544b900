"""Every client reads the compressed batches of the others: Java, librdkafka, kafka-python, aiokafka, with each codec.

All writers write to one topic for each codec, so that a reader meets the batches of all of them in a row.
kafka-python takes part in what it can do without further libraries.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import textwrap
from typing import Any

import aiokafka
import confluent_kafka
import pytest

from tests.java.conftest import Tool
from tests.support.brokers import Broker

COUNT = 40
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


def texts(writer: str) -> list[str]:
    # Repetitive enough that every codec really compresses, and not so short that clients would send it as it is.
    return [f"{writer} {number} " + "ottla " * 50 for number in range(COUNT)]


def write_with_java(run: Tool, topic: str, codec: str) -> None:
    stdin = "".join(f"{text}\n" for text in texts("java"))
    run("ConsoleProducer", "--topic", topic, "--compression-codec", codec, stdin=stdin)


def write_with_librdkafka(bootstrap: str, topic: str, codec: str) -> None:
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": bootstrap, "compression.type": codec, "linger.ms": 20, "enable.idempotence": True}
    )
    for text in texts("librdkafka"):
        producer.produce(topic, text)
    assert producer.flush(60) == 0


def write_with_kafka_python(bootstrap: str, topic: str, codec: str) -> None:
    python(
        """
        compression = None if codec == "none" else codec
        producer = kafka.KafkaProducer(bootstrap_servers=bootstrap, compression_type=compression, linger_ms=20)
        for sent in [producer.send(topic, text.encode()) for text in texts]:
            sent.get(60)
        producer.close()
        """,
        bootstrap=bootstrap,
        topic=topic,
        codec=codec,
        texts=texts("kafka-python"),
    )


async def write_with_aiokafka(bootstrap: str, topic: str, codec: str) -> None:
    compression = None if codec == "none" else codec
    producer = aiokafka.AIOKafkaProducer(bootstrap_servers=bootstrap, compression_type=compression, linger_ms=20)
    await producer.start()
    for sent in [await producer.send(topic, text.encode()) for text in texts("aiokafka")]:
        await sent
    await producer.stop()


def read_with_java(run: Tool, topic: str, count: int) -> list[str]:
    place = ["--partition", 0, "--offset", "earliest", "--max-messages", count, "--timeout-ms", 60000]
    return run("ConsoleConsumer", "--topic", topic, *place).stdout.splitlines()


def read_with_librdkafka(bootstrap: str, topic: str, count: int) -> list[str]:
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "none", "enable.auto.commit": False, "check.crcs": True}
    )
    consumer.assign([confluent_kafka.TopicPartition(topic, 0, 0)])
    read: list[str] = []
    while len(read) < count:
        message = consumer.poll(60)
        assert message is not None
        assert message.error() is None
        read.append((message.value() or b"").decode())
    consumer.close()
    return read


def read_with_kafka_python(bootstrap: str, topic: str, count: int) -> Any:
    return python(
        """
        consumer = kafka.KafkaConsumer(bootstrap_servers=bootstrap, group_id=None, consumer_timeout_ms=60000)
        place = kafka.TopicPartition(topic, 0)
        consumer.assign([place])
        consumer.seek(place, 0)
        print(json.dumps([next(consumer).value.decode() for _ in range(count)]))
        consumer.close()
        """,
        bootstrap=bootstrap,
        topic=topic,
        count=count,
    )


def python(program: str, **variables: Any) -> Any:
    """Runs kafka-python in a process of its own: it sometimes leaves sockets open, which would count as ours."""
    start = "import json, sys, kafka\nglobals().update(json.load(sys.stdin))\n"
    command = [sys.executable, "-W", "ignore", "-c", start + textwrap.dedent(program)]
    ran = subprocess.run(command, input=json.dumps(variables), capture_output=True, text=True, check=False, timeout=120)
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout) if ran.stdout else None


async def read_with_aiokafka(bootstrap: str, topic: str, count: int) -> list[str]:
    consumer = aiokafka.AIOKafkaConsumer(bootstrap_servers=bootstrap, check_crcs=True)
    await consumer.start()
    place = aiokafka.TopicPartition(topic, 0)
    consumer.assign([place])
    consumer.seek(place, 0)
    read = [(await asyncio.wait_for(consumer.getone(), 60)).value.decode() for _ in range(count)]
    await consumer.stop()
    return read


@pytest.mark.parametrize("stored", ["producer", "lz4"])
@pytest.mark.parametrize("codec", CODECS)
def test_every_client_reads_the_records_of_every_client(
    run: Tool, broker: Broker, topic: str, codec: str, stored: str
) -> None:
    run("TopicCommand", "--create", "--topic", topic, "--config", f"compression.type={stored}")
    bootstrap = broker.bootstrap
    write_with_java(run, topic, codec)
    write_with_librdkafka(bootstrap, topic, codec)
    asyncio.run(write_with_aiokafka(bootstrap, topic, codec))
    writers = ["java", "librdkafka", "aiokafka"]
    with_kafka_python = {codec, stored} <= {"none", "gzip", "producer"}
    if with_kafka_python:
        write_with_kafka_python(bootstrap, topic, codec)
        writers.append("kafka-python")
    expected = [text for writer in writers for text in texts(writer)]
    count = len(expected)
    assert read_with_java(run, topic, count) == expected
    assert read_with_librdkafka(bootstrap, topic, count) == expected
    if with_kafka_python:
        assert read_with_kafka_python(bootstrap, topic, count) == expected
    assert asyncio.run(read_with_aiokafka(bootstrap, topic, count)) == expected
