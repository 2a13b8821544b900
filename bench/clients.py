"""The clients: Kafka's own ProducerPerformance and a Java consumer in one warm JVM, and librdkafka in this process.

Both brokers are measured with the same client in the same process with the same settings. Kafka's ConsumerPerformance
needs a consumer group; the Java consumer here assigns its partitions itself, which measures the fetch path alone.
"""

from __future__ import annotations

import contextlib
import os
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from tests.support.java import ToolServer

__all__ = [
    "Clients",
    "Outcome",
    "native_consume",
    "native_produce",
    "opened",
    "producer_arguments",
    "producer_outcome",
    "temporary_topic",
    "wait_for_first_ack",
]

TIMEOUT_S = 120.0
JAVA = Path(__file__).with_name("java")
# Clients of brokers; `BenchedStreams`, beside them, needs the jars of Kafka Streams.
PROGRAMS = ("AssignedConsumer", "GroupJoin", "GroupRebalance", "PacedProducer", "TransactionalProducer")
SUMMARY = re.compile(
    r"^(?P<count>\d+) records sent, (?P<rate>[\d.]+) records/sec .*, (?P<p50>\d+) ms 50th, .* (?P<p99>\d+) ms 99th"
    r"(?:, (?P<p999>\d+) ms 99\.9th)?",
    re.MULTILINE,
)


class Outcome(NamedTuple):
    """The figures of a client about one run."""

    records_per_s: float
    p50_ms: float | None = None
    p99_ms: float | None = None
    p999_ms: float | None = None


class Clients:
    """All clients; the JVM is started once and stays warm."""

    def __init__(self, java: ToolServer) -> None:
        self._java = java
        self.pids = (java.pid, os.getpid())

    def java_produce(
        self, bootstrap: str, topic: str, *, records: int, record_size: int, rate: int = -1, settings: dict[str, str]
    ) -> Outcome:
        arguments = producer_arguments(
            bootstrap, topic, records=records, record_size=record_size, rate=rate, settings=settings
        )
        result = self._java.run("ProducerPerformance", *arguments)
        assert result.status == 0, result.stdout + result.stderr
        return producer_outcome(result.stdout, records)

    def java_paced(
        self, bootstrap: str, topic: str, *, records: int, record_size: int, rate: int, settings: dict[str, str]
    ) -> Outcome:
        """As `java_produce` at a fixed rate, with percentiles in fractions of a millisecond."""
        properties = [f"{key}={value}" for key, value in settings.items()]
        result = self._java.run_class("PacedProducer", bootstrap, topic, records, record_size, rate, *properties)
        assert result.status == 0, result.stdout + result.stderr
        acknowledged, milliseconds, *percentiles = (float(word) for word in result.stdout.split())
        assert acknowledged == records, result.stdout + result.stderr
        return Outcome(acknowledged / milliseconds * 1000, *percentiles)

    def java_transactions(
        self,
        bootstrap: str,
        topic: str,
        *,
        transactional_id: str,
        records: int,
        record_size: int,
        transaction_ms: int,
        settings: dict[str, str],
        rate: int = 0,
    ) -> Outcome:
        """Records in transactions of the given duration; the percentiles are those of the commits."""
        properties = [f"{key}={value}" for key, value in settings.items()]
        sizes = [records, record_size, rate, transaction_ms]
        result = self._java.run_class("TransactionalProducer", bootstrap, topic, transactional_id, *sizes, *properties)
        assert result.status == 0, result.stdout + result.stderr
        sent, milliseconds, _, p50_ms, p99_ms = (float(word) for word in result.stdout.split())
        assert sent == records, result.stdout + result.stderr
        return Outcome(sent / milliseconds * 1000, p50_ms, p99_ms)

    def java_consume(self, bootstrap: str, topic: str, *, partitions: int, records: int) -> Outcome:
        result = self._java.run_class("AssignedConsumer", bootstrap, topic, partitions, records)
        assert result.status == 0, result.stderr
        seen, milliseconds = result.stdout.split()
        assert int(seen) >= records, f"{seen} of {records} records"
        return Outcome(int(seen) / float(milliseconds) * 1000)

    def java_join(self, bootstrap: str, topic: str, *, protocol: str, group: str, count: int) -> list[float]:
        """Creates groups of one member: milliseconds from the subscription to the first record of each."""
        result = self._java.run_class("GroupJoin", bootstrap, topic, protocol, group, count)
        assert result.status == 0, result.stderr
        return [float(word) for word in result.stdout.split()]

    def java_rebalance(
        self,
        bootstrap: str,
        topic: str,
        *,
        partitions: int,
        members: int,
        group: str,
        rounds: int,
        settings: dict[str, str],
    ) -> list[tuple[float, float]]:
        """Milliseconds until a group has settled: after its last member has joined, and after it has left again."""
        properties = [f"{key}={value}" for key, value in settings.items()]
        result = self._java.run_class(
            "GroupRebalance", bootstrap, topic, partitions, members, group, rounds, *properties
        )
        assert result.status == 0, result.stderr
        pairs = [line.split() for line in result.stdout.splitlines()]
        assert len(pairs) == rounds, result.stdout + result.stderr
        return [(float(joined), float(left)) for joined, left in pairs]

    def native_produce(
        self, bootstrap: str, topic: str, *, records: int, record_size: int, partitions: int, settings: dict[str, str]
    ) -> Outcome:
        return native_produce(
            bootstrap, topic, records=records, record_size=record_size, partitions=partitions, settings=settings
        )

    def native_consume(self, bootstrap: str, topic: str, *, partitions: int, records: int) -> Outcome:
        return native_consume(bootstrap, topic, partitions=partitions, records=records, settings={})


def producer_arguments(
    bootstrap: str, topic: str, *, records: int, record_size: int, rate: int, settings: dict[str, str]
) -> list[str]:
    size = ["--num-records", str(records), "--record-size", str(record_size), "--throughput", str(rate)]
    properties = [f"{key}={value}" for key, value in settings.items()]
    return ["--bootstrap-server", bootstrap, "--topic", topic, *size, "--command-property", *properties]


def producer_outcome(output: str, records: int) -> Outcome:
    """The last summary in the output of ProducerPerformance."""
    summaries = list(SUMMARY.finditer(output))
    assert summaries, output
    last = summaries[-1]
    assert int(last["count"]) == records, output
    return Outcome(float(last["rate"]), float(last["p50"]), float(last["p99"]), float(last["p999"] or 0))


def native_produce(
    bootstrap: str, topic: str, *, records: int, record_size: int, partitions: int, settings: dict[str, str]
) -> Outcome:
    producer = Producer({"bootstrap.servers": bootstrap, "queue.buffering.max.messages": 1_000_000, **settings})
    payload = os.urandom(record_size)
    start = time.monotonic()
    for number in range(records):
        while True:
            try:
                producer.produce(topic, payload, partition=number % partitions)
                break
            except BufferError:
                producer.poll(0.01)
        if number % 1000 == 0:
            producer.poll(0)
    left = producer.flush(TIMEOUT_S)
    assert left == 0, f"{left} of {records} records were not acknowledged"
    return Outcome(records / (time.monotonic() - start))


def native_consume(bootstrap: str, topic: str, *, partitions: int, records: int, settings: dict[str, str]) -> Outcome:
    own = {"bootstrap.servers": bootstrap, "group.id": "unused", "enable.auto.commit": False}
    # By default librdkafka pauses for a whole second when 100,000 messages are queued, which happens with any
    # broker that is faster than Python consumes them.
    consumer = Consumer({**own, **settings, "fetch.queue.backoff.ms": 2})
    try:
        start = time.monotonic()
        consumer.assign([TopicPartition(topic, partition, 0) for partition in range(partitions)])
        seen = 0
        while seen < records:
            messages = consumer.consume(10_000, timeout=1.0)
            seen += sum(message.error() is None for message in messages)
            assert time.monotonic() < start + TIMEOUT_S, f"{seen} of {records} records"
        return Outcome(seen / (time.monotonic() - start))
    finally:
        consumer.close()


@contextlib.contextmanager
def opened() -> Iterator[Clients]:
    programs = [JAVA / f"{name}.java" for name in PROGRAMS]
    with ToolServer(programs=programs, heap_megabytes=1024, options=["-Xms1024m"]) as java:
        yield Clients(java)


@contextlib.contextmanager
def temporary_topic(bootstrap: str, name: str, partitions: int, *, replication_factor: int = 1) -> Iterator[str]:
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 3})
    for future in admin.create_topics([NewTopic(name, partitions, replication_factor)]).values():
        try:
            future.result(TIMEOUT_S)
        except KafkaException as error:
            # Names are unique: a request that is retried after a lost answer finds its own topic.
            if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise
    try:
        yield name
    finally:
        for future in admin.delete_topics([name]).values():
            future.result(TIMEOUT_S)


def wait_for_first_ack(bootstrap: str, topic: str) -> None:
    """Writes one record to a topic that does not exist yet; returns when the broker has acknowledged it."""
    settings = {
        "bootstrap.servers": bootstrap,
        "linger.ms": 0,
        "topic.metadata.refresh.fast.interval.ms": 10,
        "reconnect.backoff.ms": 10,
        "retry.backoff.ms": 5,
        "allow.auto.create.topics": True,
    }
    failures: list[object] = []
    producer = Producer(settings)
    producer.produce(topic, b"first", on_delivery=lambda error, _: failures.append(error) if error else None)
    if producer.flush(TIMEOUT_S) or failures:
        raise KafkaException(f"no acknowledgement from {bootstrap}: {failures}")
