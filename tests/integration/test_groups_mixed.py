"""One group of three clients: confluent-kafka, aiokafka and kafka-python share the partitions of a topic.

The clients have only the classic protocol and the assignor in common.
"""

from __future__ import annotations

import asyncio
import threading
import warnings
from collections.abc import Iterator
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer
from aiokafka.coordinator.assignors.range import RangePartitionAssignor as AioRange
from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor as AioRoundRobin

import ottla.testing
from tests.integration.cluster_calls import wait_until
from tests.integration.group_members import ConfluentMember, create_topic, fill, unique

with warnings.catch_warnings():
    # The library reads its schemas with a deprecated function of the standard library.
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka import KafkaConsumer
    from kafka.coordinator.assignors.range import RangePartitionAssignor as PythonRange
    from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor as PythonRoundRobin

EACH = 40
PARTITIONS = 6


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    settings = {"group.initial.rebalance.delay.ms": "0", "group.min.session.timeout.ms": "1000"}
    with ottla.testing.cluster(settings=settings) as running:
        yield running.bootstrap


class ThreadedMember:
    """A client that polls in its own thread until `leave`; `values` has the values that it read."""

    def __init__(self) -> None:
        self.values: list[bytes] = []
        self.owned: set[int] = set()
        self.failure: BaseException | None = None
        self._leaves = threading.Event()
        self._thread = threading.Thread(target=self._live, daemon=True)

    def start(self) -> None:
        self._thread.start()

    @property
    def alive(self) -> bool:
        if self.failure is not None:
            raise self.failure
        return self._thread.is_alive()

    def leave(self) -> None:
        self._leaves.set()
        self._thread.join(90)
        assert not self._thread.is_alive()
        self.owned = set()
        if self.failure is not None:
            raise self.failure

    def _live(self) -> None:
        try:
            self.live()
        except BaseException as error:  # noqa: BLE001
            self.failure = error

    def live(self) -> None:
        raise NotImplementedError


class Confluent(ThreadedMember):
    def __init__(self, bootstrap: str, group: str, topic: str, strategy: str) -> None:
        super().__init__()
        settings: dict[str, Any] = {"partition.assignment.strategy": strategy, "enable.auto.commit": True}
        self._member = ConfluentMember(bootstrap, "confluent", group, **settings).subscribe(topic)

    def live(self) -> None:
        while not self._leaves.is_set():
            self._member.poll(0.05)
            self.owned = {partition for _, partition in self._member.owned}
            self.values = list(self._member.values)
        self._member.close()


class Python(ThreadedMember):
    def __init__(self, bootstrap: str, group: str, topic: str, strategy: str) -> None:
        super().__init__()
        assignor = {"range": PythonRange, "roundrobin": PythonRoundRobin}[strategy]
        self._consumer = KafkaConsumer(
            topic,
            bootstrap_servers=bootstrap,
            group_id=group,
            auto_offset_reset="earliest",
            partition_assignment_strategy=[assignor],
            heartbeat_interval_ms=100,
            session_timeout_ms=30_000,
        )

    def live(self) -> None:
        while not self._leaves.is_set():
            for records in self._consumer.poll(timeout_ms=50).values():
                self.values.extend(record.value for record in records)
            self.owned = {partition.partition for partition in self._consumer.assignment()}
        self._consumer.close()


class Aio(ThreadedMember):
    def __init__(self, bootstrap: str, group: str, topic: str, strategy: str) -> None:
        super().__init__()
        self._settings: dict[str, Any] = {
            "bootstrap_servers": bootstrap,
            "group_id": group,
            "auto_offset_reset": "earliest",
            "partition_assignment_strategy": [{"range": AioRange, "roundrobin": AioRoundRobin}[strategy]],
            "heartbeat_interval_ms": 100,
            "session_timeout_ms": 30_000,
        }
        self._topic = topic

    def live(self) -> None:
        asyncio.run(self._consume())

    async def _consume(self) -> None:
        async with AIOKafkaConsumer(self._topic, **self._settings) as consumer:
            while not self._leaves.is_set():
                for records in (await consumer.getmany(timeout_ms=50)).values():
                    self.values.extend(record.value for record in records)
                self.owned = {partition.partition for partition in consumer.assignment()}


def is_shared(members: list[ThreadedMember]) -> bool:
    owned = [index for member in members if member.alive for index in member.owned]
    return sorted(owned) == list(range(PARTITIONS)) and all(member.owned for member in members)


@pytest.mark.parametrize("strategy", ["range", "roundrobin"])
def test_three_clients_share_a_topic(bootstrap: str, strategy: str) -> None:
    topic, group = create_topic(bootstrap, PARTITIONS), unique("mixed")
    wanted = {b"%d:%d" % (partition, number) for partition in range(PARTITIONS) for number in range(EACH)}
    fill(bootstrap, topic, [EACH] * PARTITIONS)
    members: list[ThreadedMember] = []

    def all_read() -> bool:
        return wanted <= {value for member in everyone for value in member.values}

    everyone: list[ThreadedMember] = []
    try:
        for kind in (Confluent, Aio, Python):
            members.append(kind(bootstrap, group, topic, strategy))
            everyone.append(members[-1])
            members[-1].start()
            wait_until(lambda: is_shared(members), f"{kind.__name__} has its share")
        wait_until(all_read, "everything is read")
        # The members leave in turn, and the remaining members read the records that are written meanwhile.
        for start in (EACH, 2 * EACH):
            members.pop(0).leave()
            wait_until(lambda: is_shared(members), "those who stay share")
            fill(bootstrap, topic, [EACH] * PARTITIONS, start=start)
            wanted |= {b"%d:%d" % (index, start + number) for index in range(PARTITIONS) for number in range(EACH)}
            wait_until(all_read, "what is new is read")
    finally:
        for member in members:
            member.leave()
    # All members committed when they left, so no record is left to read.
    last = ConfluentMember(bootstrap, "last", group)
    try:
        places = [(topic, index) for index in range(PARTITIONS)]
        assert last.committed(*places) == dict.fromkeys(places, 3 * EACH)
    finally:
        last.close()
