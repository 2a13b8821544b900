"""The cases as values: every case has a name, a function that runs it once on a broker, and its goals.

A run returns metric -> number. Goals are ratios, Ottla to Apache Kafka; `at_most` where less is better.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from bench.clients import TIMEOUT_S, Clients, Outcome, temporary_topic
from bench.floor import FLOOR, NATIVE_FLOOR
from bench.measure import Meter, touch_memory
from tests.support.brokers import Broker

__all__ = [
    "CPU_PER_GB",
    "KIB",
    "LATENCY",
    "Case",
    "Goal",
    "Metrics",
    "at_fixed_rate",
    "full_cases",
    "latencies",
    "paced",
    "per_gigabyte",
    "quick_cases",
    "records_for",
    "topic",
    "topic_numbers",
    "wait_for_directories",
    "write_to_each",
]

Metrics = dict[str, float]
KIB = 1024
GB = 1e9
CPU_PER_GB = "broker CPU s/GB"
SETTLE_S = 0.3


@dataclass(frozen=True, slots=True, kw_only=True)
class Goal:
    """The ratio that a metric must reach; `at_most` for metrics where less is better."""

    ratio: float
    at_most: bool = True

    def met_by(self, ratio: float) -> bool:
        return ratio <= self.ratio if self.at_most else ratio >= self.ratio

    def __str__(self) -> str:
        return f"{'<=' if self.at_most else '>='} {self.ratio:g}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    group: str
    name: str
    run: Callable[[Broker, Clients], Metrics]
    goals: dict[str, Goal] = field(default_factory=dict)
    # Warm-up runs on each broker.
    warm_up_runs: int = 0
    # The approximate duration of one run with its preparation; for planning only.
    seconds: float = 3.0
    # Additional settings of its brokers; cases with equal settings share a pair of brokers.
    settings: Mapping[str, str] = field(default_factory=dict)
    # Whether it needs a cluster of three brokers.
    clustered: bool = False
    # Rounds that would end later than this are omitted, except for the first.
    limit_s: float | None = None
    # A metric that is also measured on minimal servers, and which servers: see `bench.floor`.
    floor_metric: str | None = None
    floors: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        return f"{self.group}: {self.name}"


CPU_PRODUCE = Goal(ratio=0.4)
CPU_CONSUME = Goal(ratio=0.7)
THROUGHPUT = Goal(ratio=1.0, at_most=False)
LATENCY = Goal(ratio=1.0)
PARTITIONS = Goal(ratio=1.0)

# The bytes that the largest run writes to one broker, rounded up.
TOUCHED_BYTES = 350_000_000

topic_numbers = itertools.count()


def quick_cases() -> list[Case]:
    """Covers every axis of the matrix, not every combination."""
    produce = [
        produce_case(size, batch, partitions, "1", "none")
        for size, batch, partitions in [(100, 16, 1), (100, 16, 6), (100, 128, 1), (1024, 16, 6), (1024, 128, 1)]
    ]
    produce += [produce_case(100, 16, 6, "all", "none"), produce_case(1024, 128, 1, "all", "none")]
    produce += [produce_case(1024, 128, 6, "1", codec) for codec in ("lz4", "zstd", "gzip")]
    return [
        *produce,
        native_produce_case(100, 16, 6),
        consume_case("java", 1024, 128, 6),
        consume_case("librdkafka", 100, 16, 1),
        single_record_case("java"),
        fixed_rate_case("1"),
        fixed_rate_case("all"),
        many_partitions_case(),
    ]


def full_cases() -> list[Case]:
    matrix = itertools.product((100, 1024), (16, 128), (1, 6), ("1", "all"), ("none", "lz4", "zstd", "gzip"))
    shapes = list(itertools.product((100, 1024), (16, 128), (1, 6)))
    return [
        *(produce_case(*point) for point in matrix),
        *(native_produce_case(*shape) for shape in shapes),
        *(consume_case(client, *shape) for client in ("java", "librdkafka") for shape in shapes),
        single_record_case("java"),
        single_record_case("librdkafka"),
        fixed_rate_case("1"),
        fixed_rate_case("all"),
        many_partitions_case(),
    ]


def produce_case(record_size: int, batch_kib: int, partitions: int, acks: str, codec: str) -> Case:
    records = records_for(record_size)
    settings = {"acks": acks, "batch.size": str(batch_kib * KIB), "linger.ms": "5", "compression.type": codec}
    # Since 3.0 the Java producer is idempotent when acks=all, and only then.
    settings["enable.idempotence"] = "true" if acks == "all" else "false"

    def run(broker: Broker, clients: Clients) -> Metrics:
        with topic(broker, partitions) as name, Meter(broker.pids, clients.pids) as meter:
            outcome = clients.java_produce(
                broker.bootstrap, name, records=records, record_size=record_size, settings=settings
            )
        cpu = per_gigabyte(meter, records * record_size)
        return {**cpu, "records/s": outcome.records_per_s}

    idempotent = " idempotent" if acks == "all" else ""
    return Case(
        group="produce",
        name=f"{record_size} B, {batch_kib} KiB batches, {partitions} p, acks={acks}{idempotent}, {codec}",
        run=run,
        goals={CPU_PER_GB: CPU_PRODUCE, "records/s": THROUGHPUT},
        seconds=6.0 if codec == "gzip" else 2.5,
        floor_metric=CPU_PER_GB,
        # The minimal servers decompress no batch. Ottla does so only if a topic's settings require it; Apache Kafka
        # does.
        floors=(FLOOR, NATIVE_FLOOR),
    )


def native_produce_case(record_size: int, batch_kib: int, partitions: int) -> Case:
    records = records_for(record_size)
    settings = {"acks": "1", "batch.size": str(batch_kib * KIB), "linger.ms": "5"}

    def run(broker: Broker, clients: Clients) -> Metrics:
        with topic(broker, partitions) as name, Meter(broker.pids, clients.pids) as meter:
            outcome = clients.native_produce(
                broker.bootstrap,
                name,
                records=records,
                record_size=record_size,
                partitions=partitions,
                settings=settings,
            )
        cpu = per_gigabyte(meter, records * record_size)
        return {**cpu, "records/s": outcome.records_per_s}

    return Case(
        group="produce (librdkafka)",
        name=f"{record_size} B, {batch_kib} KiB batches, {partitions} p, acks=1, none",
        run=run,
        goals={CPU_PER_GB: CPU_PRODUCE, "records/s": THROUGHPUT},
        floor_metric=CPU_PER_GB,
        floors=(FLOOR, NATIVE_FLOOR),
    )


def consume_case(client: str, record_size: int, batch_kib: int, partitions: int) -> Case:
    records = 2 * records_for(record_size)
    filling = {"acks": "1", "batch.size": str(batch_kib * KIB), "linger.ms": "5"}

    def run(broker: Broker, clients: Clients) -> Metrics:
        consume = clients.java_consume if client == "java" else clients.native_consume
        with topic(broker, partitions) as name:
            clients.java_produce(broker.bootstrap, name, records=records, record_size=record_size, settings=filling)
            with Meter(broker.pids, clients.pids) as meter:
                outcome = consume(broker.bootstrap, name, partitions=partitions, records=records)
        return {**per_gigabyte(meter, records * record_size), "records/s": outcome.records_per_s}

    return Case(
        group=f"consume ({client})",
        name=f"{record_size} B, {batch_kib} KiB batches, {partitions} p",
        run=run,
        goals={CPU_PER_GB: CPU_CONSUME, "records/s": THROUGHPUT},
        seconds=4.0,
        floor_metric=CPU_PER_GB,
        floors=(FLOOR,),
    )


def single_record_case(client: str) -> Case:
    """One record per request: the fixed cost of a request."""
    records = 30_000

    def run(broker: Broker, clients: Clients) -> Metrics:
        with topic(broker, 1) as name, Meter(broker.pids, clients.pids) as meter:
            if client == "java":
                settings = {"acks": "1", "batch.size": "1", "linger.ms": "0", "enable.idempotence": "false"}
                outcome = clients.java_produce(
                    broker.bootstrap, name, records=records, record_size=100, settings=settings
                )
            else:
                settings = {"acks": "1", "batch.num.messages": "1", "linger.ms": "0"}
                outcome = clients.native_produce(
                    broker.bootstrap, name, records=records, record_size=100, partitions=1, settings=settings
                )
        cpu = {"broker CPU us/request": meter.broker_cpu_s / records * 1e6, "others": meter.others_share}
        return {**cpu, "records/s": outcome.records_per_s}

    return Case(
        group=f"one record per request ({client})",
        name="100 B, acks=1",
        run=run,
        goals={"broker CPU us/request": CPU_PRODUCE, "records/s": THROUGHPUT},
    )


def fixed_rate_case(acks: str) -> Case:
    rate, seconds = 10_000, 5
    idempotence = "true" if acks == "all" else "false"
    settings = {"acks": acks, "linger.ms": "0", "enable.idempotence": idempotence}

    def run(broker: Broker, clients: Clients) -> Metrics:
        with topic(broker, 1) as name, Meter(broker.pids, clients.pids) as meter:
            outcome = paced(broker, clients, name, rate=rate, seconds=seconds, settings=settings)
        return at_fixed_rate(outcome, meter, rate * seconds)

    return Case(
        group="latency at a fixed rate",
        name=f"{rate:,} records/s, 100 B, acks={acks}",
        run=run,
        goals={"p99 ms": LATENCY},
        seconds=6.0,
        warm_up_runs=1,
    )


def many_partitions_case() -> Case:
    count = 1000

    def run(broker: Broker, clients: Clients) -> Metrics:
        name = f"bench-{next(topic_numbers)}"
        admin = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 3})
        with Meter(broker.pids, clients.pids) as meter:
            for future in admin.create_topics([NewTopic(name, count, 1)]).values():
                future.result(TIMEOUT_S)
            wait_for_directories(broker.log_directory, name, count)
        write_to_each(broker.bootstrap, name, count)
        for future in admin.delete_topics([name]).values():
            future.result(TIMEOUT_S)
        return {"s": meter.wall_s, "broker CPU s": meter.broker_cpu_s, "others": meter.others_share}

    return Case(
        group="1,000 partitions",
        name="created, until every log is on disk",
        run=run,
        goals={"s": PARTITIONS},
        warm_up_runs=1,
        seconds=5.0,
    )


def paced(broker: Broker, clients: Clients, name: str, *, rate: int, seconds: int, settings: dict[str, str]) -> Outcome:
    """Records of 100 bytes at a fixed rate."""
    return clients.java_produce(
        broker.bootstrap, name, records=rate * seconds, record_size=100, rate=rate, settings=settings
    )


def at_fixed_rate(outcome: Outcome, meter: Meter, records: int) -> Metrics:
    return {
        **latencies(outcome),
        "broker CPU us/record": meter.broker_cpu_s / records * 1e6,
        "others": meter.others_share,
    }


def latencies(outcome: Outcome) -> Metrics:
    """The tool reports whole milliseconds; 0 is taken as half a millisecond, so that a ratio exists."""
    assert outcome.p50_ms is not None
    assert outcome.p99_ms is not None
    return {"p50 ms": max(outcome.p50_ms, 0.5), "p99 ms": max(outcome.p99_ms, 0.5)}


def records_for(record_size: int) -> int:
    """About 60 MB of small records or 150 MB of large ones: seconds, not minutes, and thousands of clock ticks."""
    return 600_000 if record_size <= 100 else 150_000


def per_gigabyte(meter: Meter, payload_bytes: int) -> Metrics:
    return {CPU_PER_GB: meter.broker_cpu_s / (payload_bytes / GB), "others": meter.others_share}


@contextmanager
def topic(broker: Broker, partitions: int) -> Iterator[str]:
    """Creates a topic and waits for all its logs. Apache Kafka answers the creation earlier, and the second batch of an
    idempotent producer may then be accepted after the first was refused, which the producer cannot recover from.
    """
    touch_memory(broker.directory, TOUCHED_BYTES * broker.replication_factor)
    name = f"bench-{next(topic_numbers)}"
    with temporary_topic(broker.bootstrap, name, partitions, replication_factor=broker.replication_factor):
        wait_for_directories(broker.log_directory, name, partitions)
        time.sleep(SETTLE_S)
        yield name
    broker.topic_removed()


def wait_for_directories(directory: Path, name: str, count: int) -> None:
    deadline = time.monotonic() + TIMEOUT_S
    while sum(1 for _ in directory.glob(f"{name}-*")) < count:
        assert time.monotonic() < deadline, "not every partition has a log"
        time.sleep(0.002)


def write_to_each(bootstrap: str, name: str, count: int) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    for partition in range(count):
        producer.produce(name, b"here", partition=partition)
    assert producer.flush(TIMEOUT_S) == 0
