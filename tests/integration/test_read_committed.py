"""The view of readers on transactions, with librdkafka on both sides."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

import ottla.testing
from ottla.testing import Cluster


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with ottla.testing.cluster() as running:
        yield running


@pytest.fixture
def topic(cluster: Cluster, request: pytest.FixtureRequest) -> str:
    name = str(request.node.name)
    # The client must stay alive until its answer has arrived.
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    for created in admin.create_topics([NewTopic(name, 2, 1)]).values():
        created.result(30)
    return name


def producer(cluster: Cluster, name: str | None = None) -> Producer:
    settings: dict[str, str | int] = {"bootstrap.servers": cluster.bootstrap, "linger.ms": 0}
    if name is None:
        return Producer(settings)
    transactional = Producer({**settings, "transactional.id": name})
    transactional.init_transactions(30)
    return transactional


def read(cluster: Cluster, topic: str, *, index: int, count: int, level: str = "read_committed") -> list[str]:
    """Reads `count` values of a partition from its beginning; no more may arrive soon after."""
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "none", "isolation.level": level})
    try:
        consumer.assign([TopicPartition(topic, index, 0)])
        values: list[str] = []
        deadline = time.monotonic() + 60
        while len(values) < count and time.monotonic() < deadline:
            values += [
                str(message.value() or b"", "utf-8") for message in consumer.consume(100, 0.1) if not message.error()
            ]
        return values + [
            str(message.value() or b"", "utf-8") for message in consumer.consume(1, 0.2) if not message.error()
        ]
    finally:
        consumer.close()


def test_aborted_records_stay_in_the_log(cluster: Cluster, topic: str) -> None:
    writer = producer(cluster, topic)
    for value, commits in (("kept", True), ("gone", False), ("kept too", True)):
        writer.begin_transaction()
        writer.produce(topic, value, partition=0)
        writer.flush(30)
        if commits:
            writer.commit_transaction(30)
        else:
            writer.abort_transaction(30)
    assert read(cluster, topic, index=0, count=2) == ["kept", "kept too"]
    assert read(cluster, topic, index=0, count=3, level="read_uncommitted") == ["kept", "gone", "kept too"]


def test_nothing_is_read_past_an_open_transaction(cluster: Cluster, topic: str) -> None:
    writer, plain = producer(cluster, topic), producer(cluster)
    plain.produce(topic, "before", partition=0)
    plain.flush(30)
    writer.begin_transaction()
    writer.produce(topic, "in it", partition=0)
    writer.flush(30)
    plain.produce(topic, "after", partition=0)
    plain.flush(30)
    assert read(cluster, topic, index=0, count=1) == ["before"]
    assert read(cluster, topic, index=0, count=3, level="read_uncommitted") == ["before", "in it", "after"]
    writer.commit_transaction(30)
    assert read(cluster, topic, index=0, count=3) == ["before", "in it", "after"]


def test_a_reader_of_one_partition_sees_its_part_of_a_transaction(cluster: Cluster, topic: str) -> None:
    writer = producer(cluster, topic)
    writer.begin_transaction()
    for index in (0, 1):
        for number in range(3):
            writer.produce(topic, f"{index}-{number}", partition=index)
    writer.commit_transaction(30)
    assert read(cluster, topic, index=1, count=3) == ["1-0", "1-1", "1-2"]
