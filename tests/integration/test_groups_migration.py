"""Groups whose members move between the classic and the consumer protocol, and patterns that the broker resolves."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from time import monotonic
from typing import Any

import pytest
from confluent_kafka import Consumer, ConsumerGroupType, Producer
from confluent_kafka.admin import AdminClient, NewTopic

import ottla.testing

SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "group.consumer.heartbeat.interval.ms": "100",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.assignment.interval.ms": "0",
    "offsets.topic.num.partitions": "3",
}
PARTITIONS = 6
DEADLINE_SECONDS = 60.0

# Not cooperative-sticky: after some rounds librdkafka stores its own user data in the assignment, and a group whose
# assignor does that cannot change its protocol, here as in Apache Kafka.
CLASSIC = {"partition.assignment.strategy": "range", "heartbeat.interval.ms": 100}
CONSUMER = {"group.protocol": "consumer"}


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    with ottla.testing.cluster(settings=SETTINGS) as running:
        yield running.bootstrap


class Reader:
    """A consumer that commits what it has read, record by record."""

    def __init__(self, bootstrap: str, group_id: str, *topics: str, **settings: Any) -> None:
        self.values: list[str] = []
        self.consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": group_id,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "topic.metadata.refresh.interval.ms": 500,
                **settings,
            }
        )
        self.consumer.subscribe(list(topics))

    @property
    def owned(self) -> set[int]:
        return {partition.partition for partition in self.consumer.assignment()}

    def poll(self) -> None:
        message = self.consumer.poll(0.02)
        if message is not None:
            assert message.error() is None, message.error()
            self.values.append(message.value().decode())
            self.consumer.commit(message, asynchronous=True)

    def close(self) -> None:
        self.consumer.close()


def drive(readers: list[Reader], is_done: Any) -> None:
    """Polls all readers in turn, which is when clients do their work, until the condition holds."""
    deadline = monotonic() + DEADLINE_SECONDS
    while not is_done():
        assert monotonic() < deadline, [(reader.owned, len(reader.values)) for reader in readers]
        for reader in readers:
            reader.poll()


def is_shared(readers: list[Reader]) -> bool:
    """Every partition has one owner, and every reader owns a partition."""
    owned = [reader.owned for reader in readers]
    return all(owned) and sum(map(len, owned)) == PARTITIONS and set().union(*owned) == set(range(PARTITIONS))


def topic_of(bootstrap: str, partitions: int = PARTITIONS, name: str | None = None) -> str:
    name = name or f"migration-{uuid.uuid4().hex[:8]}"
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(name, partitions, 1)])[name].result(20)
    return name


def fill(bootstrap: str, topic: str, texts: list[str]) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    for number, text in enumerate(texts):
        producer.produce(topic, value=text, partition=number % PARTITIONS)
    assert producer.flush(60) == 0


def kind_of(bootstrap: str, group_id: str) -> ConsumerGroupType:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    (listed,) = [group for group in admin.list_consumer_groups().result(20).valid if group.group_id == group_id]
    return listed.type


def test_a_group_moves_to_the_consumer_protocol_and_back_member_by_member(bootstrap: str) -> None:
    topic, group_id = topic_of(bootstrap), f"group-{uuid.uuid4().hex[:8]}"
    first, second = (Reader(bootstrap, group_id, topic, **CLASSIC) for _ in range(2))
    readers = [first, second]
    fill(bootstrap, topic, [f"a{number}" for number in range(60)])

    def read() -> set[str]:
        return {text for reader in readers for text in reader.values}

    drive([first, second], lambda: is_shared([first, second]) and len(read()) == 60)
    assert kind_of(bootstrap, group_id) is ConsumerGroupType.CLASSIC
    # Members are replaced in turn by members of the new protocol; for a while both kinds share the topic.
    third = Reader(bootstrap, group_id, topic, **CONSUMER)
    readers.append(third)
    drive([first, second, third], lambda: is_shared([first, second, third]))
    assert kind_of(bootstrap, group_id) is ConsumerGroupType.CONSUMER
    first.close()
    # A record that arrives while its partition is revoked may be read again, because its commit comes too late.
    drive([second, third], lambda: is_shared([second, third]))
    fill(bootstrap, topic, [f"b{number}" for number in range(60)])
    drive([second, third], lambda: is_shared([second, third]) and len(read()) == 120)
    second.close()
    drive([third], lambda: is_shared([third]))
    # Back to the classic protocol.
    fourth = Reader(bootstrap, group_id, topic, **CLASSIC)
    readers.append(fourth)
    drive([third, fourth], lambda: is_shared([third, fourth]))
    third.close()
    drive([fourth], lambda: is_shared([fourth]))
    fill(bootstrap, topic, [f"c{number}" for number in range(60)])
    drive([fourth], lambda: is_shared([fourth]) and len(read()) == 180)
    assert kind_of(bootstrap, group_id) is ConsumerGroupType.CLASSIC
    fourth.close()
    # No committed record was read again.
    texts = [text for reader in readers for text in reader.values]
    assert len(texts) == len(set(texts)) == 180
