"""Members of consumer groups for tests: real clients that record their callbacks.

`ConfluentMember` notes every callback in a journal that all members of a test share, so the journal shows the order of
events across members. `drive` polls members in turn until a condition holds: clients do their work in poll.
"""

from __future__ import annotations

import contextlib
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from ottla.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tests.support.raw_client import RawClient

__all__ = [
    "ConfluentMember",
    "Event",
    "closing",
    "create_topic",
    "drive",
    "fill",
    "places",
    "set_session_timeout",
    "shared",
    "unique",
]

DRIVE_SECONDS_MAX = 90.0
GROUP_RESOURCE = 32

Place = tuple[str, int]


class Event(NamedTuple):
    member: str
    kind: str
    partitions: frozenset[Place]


class ConfluentMember:
    """A librdkafka consumer. `journal` may be shared; `records` has the place of every record that it returned."""

    def __init__(
        self, bootstrap: str, name: str, group_id: str, *, journal: list[Event] | None = None, **settings: Any
    ) -> None:
        self.name = name
        self.journal = [] if journal is None else journal
        self.records: list[tuple[str, int, int]] = []
        self.values: list[bytes] = []
        self.errors: list[KafkaError] = []
        self.commit_results: list[Any] = []
        # Called in the callback of a revocation, before the partitions are given up.
        self.before_revoke: Callable[[list[TopicPartition]], None] | None = None
        # Returns the start offsets of assigned partitions, for tests that store offsets outside Kafka.
        self.positions: Callable[[list[TopicPartition]], list[TopicPartition]] | None = None
        configuration: dict[str, Any] = {
            "bootstrap.servers": bootstrap,
            "group.id": group_id,
            "client.id": name,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "topic.metadata.refresh.interval.ms": 500,
            "metadata.max.age.ms": 500,
            "on_commit": lambda error, partitions: self.commit_results.append((error, partitions)),
        }
        if settings.get("group.protocol") != "consumer":
            # Short enough to learn of a rebalance at once; under the consumer protocol the broker sets this interval.
            configuration |= {"heartbeat.interval.ms": 100, "session.timeout.ms": 6000}
        self.consumer = Consumer({**configuration, **settings})

    def subscribe(self, *topics: str) -> ConfluentMember:
        self.consumer.subscribe(
            list(topics), on_assign=self._on_assign, on_revoke=self._on_revoke, on_lost=self._on_lost
        )
        return self

    @property
    def owned(self) -> set[Place]:
        return {(partition.topic, partition.partition) for partition in self.consumer.assignment()}

    def events(self, kind: str | None = None) -> list[Event]:
        return [event for event in self.journal if event.member == self.name and kind in (None, event.kind)]

    def poll(self, timeout_seconds: float = 0.02) -> None:
        for message in self.consumer.consume(500, timeout=timeout_seconds):
            error = message.error()
            if error is not None:
                self.errors.append(error)
            else:
                self.records.append((message.topic(), message.partition(), message.offset()))
                self.values.append(message.value())

    def committed(self, *places: Place) -> dict[Place, int]:
        answers = self.consumer.committed([TopicPartition(*place) for place in places], timeout=30)
        return {(answer.topic, answer.partition): answer.offset for answer in answers}

    def close(self) -> None:
        self.consumer.close()

    def _on_assign(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self._note("assigned", partitions)
        if self.positions is not None:
            consumer.assign(self.positions(partitions))

    def _on_revoke(self, _consumer: Consumer, partitions: list[TopicPartition]) -> None:
        if self.before_revoke is not None:
            self.before_revoke(partitions)
        self._note("revoked", partitions)

    def _on_lost(self, _consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self._note("lost", partitions)

    def _note(self, kind: str, partitions: list[TopicPartition]) -> None:
        self.journal.append(
            Event(self.name, kind, frozenset((partition.topic, partition.partition) for partition in partitions))
        )


@contextlib.contextmanager
def closing(*members: ConfluentMember) -> Iterator[None]:
    """Closes members that a test has not closed itself."""
    try:
        yield
    finally:
        for member in members:
            # The client raises this error only if it is closed a second time.
            with contextlib.suppress(RuntimeError):
                member.close()


def drive(members: Sequence[ConfluentMember], condition: Callable[[], bool], description: str) -> None:
    deadline = time.monotonic() + DRIVE_SECONDS_MAX
    while not condition():
        assert time.monotonic() < deadline, f"in vain waited until {description}: {[m.owned for m in members]}"
        for member in members:
            member.poll()


def unique(prefix: str) -> str:
    return f"{prefix}-{uuid.uuid4().hex[:8]}"


def create_topic(bootstrap: str, partitions: int, *, name: str | None = None, replicas: int = 1) -> str:
    name = unique("topic") if name is None else name
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(name, num_partitions=partitions, replication_factor=replicas)])[name].result(60)
    return name


def fill(bootstrap: str, topic: str, counts: Sequence[int], *, start: int = 0) -> None:
    """Writes `counts[p]` records to partition p, with values "p:number" from `start` on."""
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all"})
    failures: list[object] = []

    def note(error: KafkaError | None, _message: object) -> None:
        if error is not None:
            failures.append(error)

    for partition, count in enumerate(counts):
        for number in range(start, start + count):
            producer.produce(topic, b"%d:%d" % (partition, number), partition=partition, on_delivery=note)
    if producer.flush(60) or failures:
        raise KafkaException(KafkaError(KafkaError._FAIL), f"records were not written: {failures[:3]}")


def set_session_timeout(bootstrap: str, group: str, timeout_ms: int) -> None:
    """Under the consumer protocol the session timeout is a setting of the group, kept by the cluster."""
    setting = AlterableConfig(name="consumer.session.timeout.ms", config_operation=0, value=str(timeout_ms))
    resource = AlterConfigsResource(resource_type=GROUP_RESOURCE, resource_name=group, configs=[setting])
    with RawClient(bootstrap) as client:
        answer = client.call(IncrementalAlterConfigsRequest(resources=[resource]), 1).responses[0]
    assert answer.error_code == 0, answer.error_message


def places(topic: str, count: int) -> set[tuple[str, int]]:
    return {(topic, partition) for partition in range(count)}


def shared(members: list[ConfluentMember], topic: str, count: int) -> bool:
    """True if every partition has one owner, and the members' shares differ by at most one partition."""
    owned = [member.owned for member in members]
    sizes = sorted(len(partitions) for partitions in owned)
    return (
        sum(sizes) == count and set().union(*owned) == places(topic, count) and (not sizes or sizes[-1] - sizes[0] <= 1)
    )
