"""Groups of three kinds of members: `ottla.client`, librdkafka and Java, under both protocols."""

from __future__ import annotations

import asyncio
import json
import logging
import threading
from collections import Counter
from typing import Any

import pytest
from confluent_kafka import Consumer as ConfluentConsumer

from ottla.client.admin import AdminClient
from ottla.client.admin.topics import NewTopic
from ottla.client.consumer import Consumer
from ottla.client.producer import Producer
from ottla.model.ids import TopicPartition
from tests.support.brokers import Broker
from tests.support.java import ToolResult, ToolServer

PARTITIONS = 6
EACH = 50


class Confluent(threading.Thread):
    """A member of librdkafka in a thread of its own."""

    def __init__(self, config: dict[str, Any], topic: str) -> None:
        super().__init__()
        # Shown when the test fails: what librdkafka does with assignments and positions.
        logger = logging.getLogger("librdkafka")
        logger.setLevel(logging.DEBUG)
        self._consumer = ConfluentConsumer({**config, "debug": "cgrp,consumer"}, logger=logger)
        self._consumer.subscribe([topic])
        self.records: list[tuple[int, int]] = []
        self.assigned = 0
        self.stopped = False

    def run(self) -> None:
        while not self.stopped:
            message = self._consumer.poll(0.05)
            self.assigned = len(self._consumer.assignment())
            if message is not None and message.error() is None:
                self.records.append((message.partition(), message.offset()))
        self._consumer.close()


class Java(threading.Thread):
    """Kafka's VerifiableConsumer, which ends after a number of records."""

    def __init__(self, java: ToolServer, *arguments: str | int) -> None:
        super().__init__()
        self._java = java
        self._arguments = arguments
        self.result: ToolResult | None = None

    def run(self) -> None:
        self.result = self._java.run("VerifiableConsumer", *self._arguments)

    @property
    def records(self) -> list[tuple[int, int]]:
        assert self.result is not None
        events = [json.loads(line) for line in self.result.stdout.splitlines() if line.startswith("{")]
        return [
            (part["partition"], offset)
            for event in events
            if event["name"] == "records_consumed"
            for part in event["partitions"]
            for offset in range(part["minOffset"], part["maxOffset"] + 1)
        ]


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_three_kinds_of_members_share_a_topic(java: ToolServer, broker: Broker, protocol: str) -> None:
    topic = group = f"mixed-{protocol}"
    where = {"bootstrap.servers": broker.bootstrap}
    own: list[tuple[int, int]] = []

    async def share(consumer: Consumer, others: Confluent, last: Java) -> None:
        async def read(holds: Any) -> None:
            while not holds():
                own.extend((record.partition, record.offset) for record in await consumer.poll(50))

        await consumer.subscribe([topic])
        await read(lambda: len(consumer.assignment) == 2 and others.assigned == 2)
        async with Producer(where) as producer:
            for number in range(PARTITIONS * EACH):
                await producer.send(topic, b"%d" % number, partition=number % PARTITIONS)
        # Java's member leaves after its share; the others take over its partitions.
        await read(lambda: not last.is_alive() and len(consumer.assignment) + others.assigned == PARTITIONS)
        await read(lambda: len({*own, *others.records, *last.records}) == PARTITIONS * EACH)

    async def scenario() -> None:
        async with AdminClient(where) as admin:
            await admin.topics.create([NewTopic(name=topic, partitions=PARTITIONS, replication_factor=1)])
        common = {**where, "group.id": group, "group.protocol": protocol, "auto.offset.reset": "earliest"}
        confluent = Confluent({**common, "enable.auto.commit": True}, topic)
        words: list[str | int] = ["--bootstrap-server", broker.bootstrap, "--topic", topic, "--group-id", group]
        words += ["--group-protocol", protocol, "--reset-policy", "earliest", "--max-messages", 2 * EACH]
        member = Java(java, *words, "--enable-autocommit")
        try:
            confluent.start()
            member.start()
            quick = {"heartbeat.interval.ms": 100} if protocol == "classic" else {}
            async with asyncio.timeout(60), Consumer({**common, **quick}) as consumer:
                await share(consumer, confluent, member)
        finally:
            confluent.stopped = True
            confluent.join()
        assert member.result is not None
        assert member.result.status == 0, member.result.stderr
        readers = {"ottla": own, "librdkafka": confluent.records, "Java": member.records}
        counts = Counter(place for places in readers.values() for place in places)
        assert len(counts) == PARTITIONS * EACH
        doubled = {place: [reader for reader, places in readers.items() if place in places] for place in counts}
        assert {place: doubled[place] for place, count in counts.items() if count > 1} == {}
        assert len(member.records) == 2 * EACH

    asyncio.run(scenario())


def test_sticky_members_of_both_kinds_keep_what_they_have(java: ToolServer, broker: Broker) -> None:
    topic = group = "mixed-sticky"
    where = {"bootstrap.servers": broker.bootstrap}
    sticky = "org.apache.kafka.clients.consumer.StickyAssignor"

    async def scenario() -> None:
        async with AdminClient(where) as admin:
            await admin.topics.create([NewTopic(name=topic, partitions=PARTITIONS, replication_factor=1)])
        config = {**where, "group.id": group, "partition.assignment.strategy": sticky, "heartbeat.interval.ms": 100}
        async with asyncio.timeout(60), Consumer(config) as consumer, Consumer(config) as other:
            await consumer.subscribe([topic])
            await other.subscribe([topic])
            while len(consumer.assignment) != 3 or len(other.assignment) != 3:
                await asyncio.gather(consumer.poll(50), other.poll(50))
            before = set(consumer.assignment)
            words: list[str | int] = ["--bootstrap-server", broker.bootstrap, "--topic", topic, "--group-id", group]
            member = Java(java, *words, "--assignment-strategy", sticky, "--max-messages", 1)
            member.start()
            while len(consumer.assignment) != 2 or len(other.assignment) != 2:
                await asyncio.gather(consumer.poll(50), other.poll(50))
            # Two of the three partitions stay where they were.
            assert set(consumer.assignment) < before
            async with Producer(where) as producer:
                for number in range(PARTITIONS):
                    await producer.send(topic, b"x", partition=number)
            while len(consumer.assignment) != 3 or len(other.assignment) != 3:
                await asyncio.gather(consumer.poll(50), other.poll(50))
            member.join()
            assert {TopicPartition(topic, number) for number in range(PARTITIONS)} == {
                *consumer.assignment,
                *other.assignment,
            }

    asyncio.run(scenario())
