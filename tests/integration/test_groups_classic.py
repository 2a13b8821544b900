"""Classic groups with the clients people use: alone, mixed in one group, and over a crash of the coordinator."""

from __future__ import annotations

import asyncio
import threading
import time
import uuid
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from aiokafka import AIOKafkaConsumer
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

import ottla.testing

with warnings.catch_warnings():
    # It reads its schemas in a way that the standard library would like to see changed.
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka import KafkaConsumer

PARTITIONS = 6
SECONDS_MAX = 30.0
# The three seconds an empty group waits for members are for people, not for tests.
SETTINGS = {"group.initial.rebalance.delay.ms": "0", "offsets.topic.num.partitions": "4"}


@pytest.fixture(scope="module")
def node() -> Iterator[ottla.testing.Cluster]:
    with ottla.testing.cluster(settings=SETTINGS) as cluster:
        yield cluster


@pytest.fixture
def topic(node: ottla.testing.Cluster) -> str:
    return create_topic(node.bootstrap)


def create_topic(bootstrap: str) -> str:
    name = f"topic-{uuid.uuid4().hex[:8]}"
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(name, num_partitions=PARTITIONS)])[name].result(10)
    return name


def produce(bootstrap: str, topic: str, first: int, last: int) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(first, last):
        producer.produce(topic, str(number), partition=number % PARTITIONS)
    assert producer.flush(20) == 0


def confluent(bootstrap: str, group_id: str, **settings: object) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group_id,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "session.timeout.ms": 6000,
            "heartbeat.interval.ms": 300,
            **settings,
        }
    )


def read(consumer: Consumer, count: int) -> list[int]:
    """So many records, each committed before the next."""
    found: list[int] = []
    deadline = time.monotonic() + SECONDS_MAX
    while len(found) < count:
        assert time.monotonic() < deadline, f"only {len(found)} of {count} records came"
        message = consumer.poll(0.5)
        if message is None:
            continue
        if message.error():
            raise KafkaException(message.error())
        found.append(int(message.value()))
        consumer.commit(message, asynchronous=False)
    return found


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + SECONDS_MAX
    while not condition():
        assert time.monotonic() < deadline, "it never came true"
        time.sleep(0.02)


def test_a_consumer_resumes_where_its_group_stopped(node: ottla.testing.Cluster, topic: str) -> None:
    produce(node.bootstrap, topic, 0, 60)
    group_id = f"resume-{topic}"
    found: list[int] = []
    for _ in range(3):
        consumer = confluent(node.bootstrap, group_id)
        consumer.subscribe([topic])
        found += read(consumer, 20)
        consumer.close()
    assert sorted(found) == list(range(60))


def test_a_standalone_consumer_commits_with_metadata(node: ottla.testing.Cluster, topic: str) -> None:
    consumer = confluent(node.bootstrap, f"alone-{topic}")
    place = TopicPartition(topic, 2, 17, metadata="up to here")
    consumer.commit(offsets=[place], asynchronous=False)
    first, second = consumer.committed([TopicPartition(topic, 2), TopicPartition(topic, 3)], timeout=10)
    assert (first.offset, first.metadata) == (17, "up to here")
    assert second.offset < 0
    consumer.close()


def test_metadata_that_is_too_long_is_refused(node: ottla.testing.Cluster, topic: str) -> None:
    consumer = confluent(node.bootstrap, f"long-{topic}")
    with pytest.raises(KafkaException, match="OFFSET_METADATA_TOO_LARGE"):
        consumer.commit(offsets=[TopicPartition(topic, 0, 1, metadata="x" * 4097)], asynchronous=False)
    consumer.close()


def test_a_static_member_is_back_without_a_rebalance(node: ottla.testing.Cluster, topic: str) -> None:
    group_id = f"static-{topic}"
    changes: list[str] = []

    def on_assign(consumer: Consumer, partitions: list[TopicPartition]) -> None:
        changes.append(f"assigned {len(partitions)}")

    def on_revoke(consumer: Consumer, partitions: list[TopicPartition]) -> None:
        changes.append(f"revoked {len(partitions)}")

    stays = confluent(node.bootstrap, group_id, **{"group.instance.id": "stays", "session.timeout.ms": 30000})
    stays.subscribe([topic], on_assign=on_assign, on_revoke=on_revoke)
    comes = confluent(node.bootstrap, group_id, **{"group.instance.id": "comes", "session.timeout.ms": 30000})
    comes.subscribe([topic])

    def both_share() -> bool:
        stays.poll(0.1)
        comes.poll(0.1)
        return len(stays.assignment()) == len(comes.assignment()) == PARTITIONS // 2

    wait_for(both_share)
    before = {partition.partition for partition in comes.assignment()}
    changes.clear()
    comes.close()
    again = confluent(node.bootstrap, group_id, **{"group.instance.id": "comes", "session.timeout.ms": 30000})
    again.subscribe([topic])

    def is_back() -> bool:
        stays.poll(0.05)
        again.poll(0.05)
        return bool(again.assignment())

    wait_for(is_back)
    assert {partition.partition for partition in again.assignment()} == before
    assert changes == []
    again.close()
    stays.close()


def test_administration_with_a_client(node: ottla.testing.Cluster, topic: str) -> None:
    group_id = f"admin-{topic}"
    admin = AdminClient({"bootstrap.servers": node.bootstrap})
    produce(node.bootstrap, topic, 0, 12)
    consumer = confluent(node.bootstrap, group_id, **{"client.id": "reader"})
    consumer.subscribe([topic])
    read(consumer, 12)
    listed = {group.group_id: group.state.name for group in admin.list_consumer_groups().result(10).valid}
    assert listed[group_id] == "STABLE"
    described = admin.describe_consumer_groups([group_id])[group_id].result(10)
    (member,) = described.members
    assert (described.partition_assignor, member.client_id) == ("range", "reader")
    assert len(member.assignment.topic_partitions) == PARTITIONS
    with pytest.raises(KafkaException, match="NON_EMPTY_GROUP"):
        admin.delete_consumer_groups([group_id])[group_id].result(10)
    consumer.close()
    moved = ConsumerGroupTopicPartitions(group_id, [TopicPartition(topic, 0, 1)])
    admin.alter_consumer_group_offsets([moved])[group_id].result(10)
    asked = ConsumerGroupTopicPartitions(group_id)
    found = admin.list_consumer_group_offsets([asked])[group_id].result(10).topic_partitions
    assert {each.partition: each.offset for each in found} == {0: 1, 1: 2, 2: 2, 3: 2, 4: 2, 5: 2}
    admin.delete_consumer_groups([group_id])[group_id].result(10)
    assert group_id not in {group.group_id for group in admin.list_consumer_groups().result(10).valid}


# Groups of different clients.


@contextmanager
def confluent_member(bootstrap: str, topic: str, group_id: str, seen: Counter[int]) -> Iterator[Callable[[], int]]:
    consumer = confluent(bootstrap, group_id, **{"partition.assignment.strategy": "range"})
    consumer.subscribe([topic])
    ends = threading.Event()
    owned: list[int] = [0]

    def run() -> None:
        while not ends.is_set():
            message = consumer.poll(0.1)
            owned[0] = len(consumer.assignment())
            if message is not None and not message.error():
                seen[int(message.value())] += 1
                consumer.commit(message, asynchronous=True)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield lambda: owned[0]
    finally:
        ends.set()
        thread.join()
        consumer.close()


@contextmanager
def python_member(bootstrap: str, topic: str, group_id: str, seen: Counter[int]) -> Iterator[Callable[[], int]]:
    consumer = KafkaConsumer(
        topic,
        bootstrap_servers=bootstrap,
        group_id=group_id,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        session_timeout_ms=6000,
        heartbeat_interval_ms=300,
    )
    ends = threading.Event()
    owned: list[int] = [0]

    def run() -> None:
        while not ends.is_set():
            batches = consumer.poll(timeout_ms=100)
            owned[0] = len(consumer.assignment())
            for messages in batches.values():
                for message in messages:
                    seen[int(message.value)] += 1
                consumer.commit_async()
        consumer.close()

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield lambda: owned[0]
    finally:
        ends.set()
        thread.join()


@contextmanager
def aio_member(bootstrap: str, topic: str, group_id: str, seen: Counter[int]) -> Iterator[Callable[[], int]]:
    ends = threading.Event()
    owned: list[int] = [0]

    async def run() -> None:
        consumer = AIOKafkaConsumer(
            topic,
            bootstrap_servers=bootstrap,
            group_id=group_id,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            session_timeout_ms=6000,
            heartbeat_interval_ms=300,
            partition_assignment_strategy=[RangePartitionAssignor],
        )
        await consumer.start()
        try:
            while not ends.is_set():
                batches = await consumer.getmany(timeout_ms=100)
                owned[0] = len(consumer.assignment())
                for messages in batches.values():
                    for message in messages:
                        seen[int(message.value)] += 1
        finally:
            await consumer.stop()

    thread = threading.Thread(target=lambda: asyncio.run(run()))
    thread.start()
    try:
        yield lambda: owned[0]
    finally:
        ends.set()
        thread.join()


def test_three_clients_share_one_group(node: ottla.testing.Cluster, topic: str) -> None:
    group_id, seen = f"mixed-{topic}", Counter[int]()
    with (
        confluent_member(node.bootstrap, topic, group_id, seen) as first,
        python_member(node.bootstrap, topic, group_id, seen) as second,
        aio_member(node.bootstrap, topic, group_id, seen) as third,
    ):
        wait_for(lambda: [first(), second(), third()] == [PARTITIONS // 3] * 3)
        produce(node.bootstrap, topic, 0, 300)
        wait_for(lambda: len(seen) == 300)
    assert sorted(seen) == list(range(300))


# Crashes.


def test_groups_survive_a_crash_of_the_coordinator() -> None:
    with ottla.testing.cluster(settings=SETTINGS) as cluster:
        topic = create_topic(cluster.bootstrap)
        produce(cluster.bootstrap, topic, 0, 60)
        consumer = confluent(cluster.bootstrap, "g")
        consumer.subscribe([topic])
        found = read(consumer, 30)
        committed = {each.partition: each.offset for each in consumer.committed(consumer.assignment(), timeout=10)}
        cluster.node(1).kill()
        cluster.node(1).start()
        after = confluent(cluster.bootstrap, "g").committed(consumer.assignment(), timeout=20)
        assert {each.partition: each.offset for each in after} == committed
        # The member is still one, and goes on.
        found += read(consumer, 30)
        consumer.close()
        assert sorted(found) == list(range(60))


def test_a_group_goes_on_when_its_coordinator_dies() -> None:
    quick = {"broker.session.timeout.ms": "2000", "broker.heartbeat.interval.ms": "200"}
    with ottla.testing.cluster(nodes=3, settings={**SETTINGS, **quick}) as cluster:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
        admin.create_topics([NewTopic("t", num_partitions=PARTITIONS, replication_factor=3)])["t"].result(10)
        produce(cluster.bootstrap, "t", 0, 60)
        # Node 1 is the controller: the group should have another coordinator.
        group_id, coordinator = next(
            (name, node_id)
            for name in (f"group-{number}" for number in range(50))
            if (node_id := coordinator_of(admin, cluster.bootstrap, name)) != 1
        )
        consumer = confluent(cluster.bootstrap, group_id)
        consumer.subscribe(["t"])
        found = read(consumer, 30)
        cluster.node(coordinator).kill()
        found += read(consumer, 30)
        assert sorted(found) == list(range(60)), "nothing twice: every commit was there"
        assert coordinator_of(admin, cluster.bootstrap, group_id) != coordinator
        consumer.close()


def coordinator_of(admin: AdminClient, bootstrap: str, group_id: str) -> int:
    standalone = confluent(bootstrap, group_id)
    standalone.committed([TopicPartition("t", 0)], timeout=20)
    standalone.close()
    return int(admin.describe_consumer_groups([group_id])[group_id].result(10).coordinator.id)
