"""One data directory, used by Ottla, then by Apache Kafka, then by Ottla again: nothing is lost on the way."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.java.conftest import require_java
from tests.support.brokers import OttlaFromFile, QuickKafka
from tests.support.reading import watermarks

KEPT = {"retention.ms": "-1"}


def create(bootstrap: str, *names: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    topics = [NewTopic(name, num_partitions=2, replication_factor=1, config=KEPT) for name in names]
    for created in admin.create_topics(topics).values():
        created.result(30)


def delete(bootstrap: str, name: str) -> None:
    # The client must outlive its answer.
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for deleted in admin.delete_topics([name]).values():
        deleted.result(30)


def produce(bootstrap: str, topic: str, *values: str) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "enable.idempotence": True})
    for number, value in enumerate(values):
        producer.produce(topic, value=value, partition=number % 2)
    assert producer.flush(60) == 0


def seen(bootstrap: str) -> dict[str, Any]:
    """The records of every partition, without those of internal topics."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "none", "enable.auto.commit": False})
    try:
        topics = consumer.list_topics(timeout=30).topics
        records: dict[str, Any] = {}
        for name in sorted(name for name in topics if not name.startswith("__")):
            for partition in sorted(topics[name].partitions):
                place = TopicPartition(name, partition, 0)
                low, high = watermarks(consumer, place)
                consumer.assign([place])
                messages = consumer.consume(high - low, timeout=30) if high > low else []
                records[f"{name}-{partition}"] = [(message.offset(), message.value()) for message in messages]
        return records
    finally:
        consumer.close()


@pytest.mark.slow
def test_there_and_back(tmp_path: Path) -> None:
    require_java()
    with OttlaFromFile(tmp_path) as ottla:
        create(ottla.bootstrap, "first", "deleted")
        produce(ottla.bootstrap, "first", "a", "b", "c", "d", "e")
        delete(ottla.bootstrap, "deleted")
        before = seen(ottla.bootstrap)
    assert sorted(before) == ["first-0", "first-1"]
    assert [value for _, value in before["first-0"]] == [b"a", b"c", b"e"]
    with QuickKafka(tmp_path, heap="512m") as kafka:
        assert seen(kafka.bootstrap) == before
        create(kafka.bootstrap, "second")
        produce(kafka.bootstrap, "first", "f", "g")
        produce(kafka.bootstrap, "second", "h")
        meanwhile = seen(kafka.bootstrap)
    assert [value for _, value in meanwhile["first-0"]] == [b"a", b"c", b"e", b"f"]
    with OttlaFromFile(tmp_path) as ottla:
        assert seen(ottla.bootstrap) == meanwhile
        produce(ottla.bootstrap, "second", "i")
        after = seen(ottla.bootstrap)
    assert [value for _, value in after["second-0"]] == [b"h", b"i"]
