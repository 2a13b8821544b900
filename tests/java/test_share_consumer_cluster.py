"""Our share consumer with three brokers of Apache Kafka, while the leaders of its partitions change."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from ottla.client.admin import AdminClient
from ottla.client.admin.configs import ConfigChange, ConfigResource, ResourceType
from ottla.client.admin.partitions import ElectionType
from ottla.client.admin.topics import NewTopic
from ottla.client.producer import Producer
from ottla.client.share import Acknowledge, ShareConsumer
from ottla.model.errors import KafkaError
from ottla.model.ids import TopicPartition
from tests.java.conftest import require_java
from tests.support.broker_clusters import KafkaCluster

pytestmark = pytest.mark.faults

TOPIC, GROUP = "shared", "workers"
PARTITIONS = 3
RECORDS = 150


@pytest.fixture
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaCluster]:
    require_java()
    settings = {
        "share.coordinator.state.topic.num.partitions": "3",
        "share.coordinator.state.topic.replication.factor": "3",
        "share.coordinator.state.topic.min.isr": "1",
        "offsets.topic.num.partitions": "3",
        "group.share.min.record.lock.duration.ms": "1000",
        "group.share.record.lock.duration.ms": "5000",
        "group.share.min.heartbeat.interval.ms": "200",
        "group.share.heartbeat.interval.ms": "200",
        "broker.session.timeout.ms": "3000",
        "broker.heartbeat.interval.ms": "500",
    }
    with KafkaCluster(tmp_path_factory.mktemp("kafka"), settings, heap="256m") as cluster:
        yield cluster


class Workers:
    """Members of the group that accept every record. `accepted` has those that the brokers have confirmed."""

    def __init__(self, where: dict[str, Any]) -> None:
        self._config = {**where, "group.id": GROUP, "share.acknowledgement.mode": "explicit"}
        self.accepted: Counter[tuple[TopicPartition, int]] = Counter()

    def _on_acknowledged(self, partition: TopicPartition, offsets: list[int], error: KafkaError | None) -> None:
        if error is None:
            self.accepted.update((partition, offset) for offset in offsets)

    async def work(self) -> None:
        async with ShareConsumer(self._config) as consumer:
            consumer.set_acknowledgement_callback(self._on_acknowledged)
            await consumer.subscribe([TOPIC])
            while True:
                for record in await consumer.poll(500):
                    assert not self.accepted[TopicPartition(TOPIC, record.partition), record.offset], record
                    consumer.acknowledge(record, Acknowledge.ACCEPT)
                await consumer.commit()

    async def until(self, count: int) -> None:
        while len(self.accepted) < count:
            await asyncio.sleep(0.1)


async def fill(where: dict[str, Any], first: int) -> None:
    async with Producer({**where, "acks": "all"}) as producer:
        for number in range(first, first + RECORDS):
            await producer.send(TOPIC, b"%d" % number, partition=number % PARTITIONS)


async def leaders(admin: AdminClient) -> dict[int, int]:
    description = (await admin.topics.describe([TOPIC]))[TOPIC]
    assert not isinstance(description, KafkaError)
    return {number: partition.leader for number, partition in enumerate(description.partitions)}


def test_nothing_is_lost_or_accepted_twice_while_leaders_change(kafka: KafkaCluster) -> None:
    where = {"bootstrap.servers": kafka.bootstrap, "metadata.max.age.ms": 1_000}

    async def scenario() -> None:
        async with asyncio.timeout(300), AdminClient(where) as admin, asyncio.TaskGroup() as tasks:
            await admin.topics.create([NewTopic(name=TOPIC, partitions=PARTITIONS, replication_factor=3)])
            group = ConfigResource(ResourceType.GROUP, GROUP)
            await admin.configs.alter({group: [ConfigChange("share.auto.offset.reset", "earliest")]})
            workers = Workers(where)
            members = [tasks.create_task(workers.work()) for _ in range(2)]
            await fill(where, 0)
            await workers.until(RECORDS)
            before = await leaders(admin)
            assert len(set(before.values())) == 3, "every broker leads a partition"
            # The leader of every partition moves to the next broker; no broker stops.
            await move_leaders(admin, before)
            await fill(where, RECORDS)
            await workers.until(2 * RECORDS)
            await asyncio.to_thread(kafka.kill_node, (await leaders(admin))[0])
            await fill(where, 2 * RECORDS)
            await workers.until(3 * RECORDS)
            assert set(workers.accepted.values()) == {1}
            for member in members:
                member.cancel()

    asyncio.run(scenario())


async def move_leaders(admin: AdminClient, before: dict[int, int]) -> None:
    moved = {number: leader % 3 + 1 for number, leader in before.items()}
    replicas = {
        TopicPartition(TOPIC, number): [leader, leader % 3 + 1, (leader + 1) % 3 + 1]
        for number, leader in moved.items()
    }
    await admin.partitions.reassign(replicas)
    while await admin.partitions.reassignments():
        await asyncio.sleep(0.1)
    await admin.partitions.elect(ElectionType.PREFERRED, list(replicas))
    while await leaders(admin) != moved:
        await asyncio.sleep(0.1)
