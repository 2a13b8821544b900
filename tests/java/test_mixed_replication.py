"""Replicas of one partition on Apache Kafka and on Ottla: both hold the same bytes, with a leader of either kind."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.integration.cluster_calls import wait_until
from tests.java.conftest import require_java
from tests.java.test_mixed_cluster import KINDS, formatted, joining
from tests.support.brokers import Broker
from tests.support.reading import records_of, watermarks

TOPIC = "both"
CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]


def log_bytes(broker: Broker, index: int) -> bytes:
    directory = broker.log_directory / f"{TOPIC}-{index}"
    # Kafka preallocates nothing here: a segment's file is its records.
    return b"".join(path.read_bytes() for path in sorted(directory.glob("*.log")))


def partitions(bootstrap: str) -> dict[int, tuple[int, list[int]]]:
    metadata = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0}).list_topics(TOPIC, timeout=30)
    return {
        number: (partition.leader, sorted(partition.isrs))
        for number, partition in metadata.topics[TOPIC].partitions.items()
    }


def produce(bootstrap: str, label: str, count: int) -> None:
    """Writes records in every codec, acknowledged by both replicas."""
    errors: list[Any] = []
    for codec in CODECS:
        producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "acks": "all",
                "enable.idempotence": True,
                "compression.type": codec,
                "log_level": 0,
            }
        )
        for number in range(count):
            producer.produce(
                TOPIC,
                f"{label} {codec} {number}",
                partition=number % 2,
                on_delivery=lambda error, _: errors.append(error) if error is not None else None,
            )
        assert producer.flush(60) == 0
        assert errors == []


def read(bootstrap: str, index: int) -> list[bytes]:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "none", "log_level": 0})
    try:
        place = TopicPartition(TOPIC, index, 0)
        _, end = watermarks(consumer, place)
        consumer.assign([place])
        values: list[bytes] = []

        def is_complete() -> bool:
            values.extend(message.value() or b"" for message in records_of(consumer.consume(1_000, timeout=0.05)))
            return len(values) >= end

        wait_until(is_complete, f"{end} records are read")
        return values
    finally:
        consumer.close()


@pytest.mark.slow
@pytest.mark.parametrize(("controller", "other"), [("kafka", "ottla"), ("ottla", "kafka")])
def test_both_kinds_follow_and_lead_each_other(tmp_path: Path, controller: str, other: str) -> None:
    require_java()
    first_directory = tmp_path / "first"
    if controller == "ottla":
        formatted(first_directory)
    with KINDS[controller](first_directory, node_id=1) as first:
        second = KINDS[other](tmp_path / "second", joining(first), node_id=2)
        second.start()
        try:
            own = second.settings["listeners"].partition("://")[2]
            bootstrap = f"{first.bootstrap},{own}"
            admin = AdminClient({"bootstrap.servers": first.bootstrap, "log_level": 0})
            wait_until(lambda: len(admin.list_topics(timeout=30).brokers) == 2, "both are in the cluster")
            topic = NewTopic(TOPIC, 2, replica_assignment=[[1, 2], [2, 1]], config={"segment.bytes": str(1 << 20)})
            admin.create_topics([topic])[TOPIC].result(30)
            wait_until(lambda: partitions(own) == {0: (1, [1, 2]), 1: (2, [1, 2])}, "each leads one")
            produce(bootstrap, "both there", 1_000)
            for index in range(2):
                wait_until(
                    lambda index=index: log_bytes(first, index) == log_bytes(second, index), "the replicas are equal"
                )
            # The second broker stops in order, misses records, and returns as follower of both partitions.
            second.stop()
            wait_until(lambda: partitions(first.bootstrap) == {0: (1, [1]), 1: (1, [1])}, "the first leads alone")
            produce(first.bootstrap, "one there", 100)
            second.start()
            wait_until(lambda: [isr for _, isr in partitions(first.bootstrap).values()] == [[1, 2]] * 2, "it is back")
            produce(bootstrap, "both again", 100)
            for index in range(2):
                wait_until(
                    lambda index=index: log_bytes(first, index) == log_bytes(second, index), "the replicas are equal"
                )
                assert len(read(bootstrap, index)) == (1_000 + 100 + 100) * len(CODECS) // 2
        finally:
            second.stop()
