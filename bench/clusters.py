"""Three brokers: cost of replication, latency of acknowledgements, and failover time after the kill of a leader.

`curve` measures the growth of times with partitions. Both sides are three processes on one machine with the same
timeouts. CPU is the sum of all three.
"""

from __future__ import annotations

import time

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from bench.cases import (
    KIB,
    LATENCY,
    Case,
    Goal,
    Metrics,
    at_fixed_rate,
    paced,
    per_gigabyte,
    records_for,
    topic,
    topic_numbers,
)
from bench.clients import TIMEOUT_S, Clients
from bench.curve import CURVE, SESSION, active_controller, curve_cases, done, wait_in_sync
from bench.measure import Meter
from tests.support.broker_clusters import BrokerCluster
from tests.support.brokers import Broker

__all__ = ["cluster_cases"]

CPU_REPLICATION = Goal(ratio=0.5)
THROUGHPUT = Goal(ratio=1.0, at_most=False)
FAILOVER = Goal(ratio=1.0)


def cluster_cases(points: tuple[int, ...] = CURVE) -> list[Case]:
    shapes = [(1024, 16, 6), (1024, 128, 6), (100, 16, 6)]
    return [
        *(replicated_produce_case(*shape) for shape in shapes),
        *(replicated_latency_case(rate) for rate in (1_000, 10_000)),
        killed_leader_case(),
        *curve_cases(points),
    ]


def replicated_produce_case(record_size: int, batch_kib: int, partitions: int) -> Case:
    records = records_for(record_size)
    settings = {"acks": "all", "enable.idempotence": "true", "batch.size": str(batch_kib * KIB), "linger.ms": "5"}

    def run(broker: Broker, clients: Clients) -> Metrics:
        with topic(broker, partitions) as name:
            wait_in_sync(broker.bootstrap, name, partitions)
            with Meter(broker.pids, clients.pids) as meter:
                outcome = clients.java_produce(
                    broker.bootstrap, name, records=records, record_size=record_size, settings=settings
                )
        return {**per_gigabyte(meter, records * record_size), "records/s": outcome.records_per_s}

    return Case(
        group="replication",
        name=f"3 replicas, {record_size} B, {batch_kib} KiB batches, {partitions} p, acks=all idempotent",
        run=run,
        goals={"broker CPU s/GB": CPU_REPLICATION, "records/s": THROUGHPUT},
        seconds=12.0,
        warm_up_runs=1,
        clustered=True,
    )


def replicated_latency_case(rate: int) -> Case:
    seconds = 5
    settings = {"acks": "all", "enable.idempotence": "true", "linger.ms": "0"}

    def run(broker: Broker, clients: Clients) -> Metrics:
        with topic(broker, 6) as name:
            wait_in_sync(broker.bootstrap, name, 6)
            with Meter(broker.pids, clients.pids) as meter:
                outcome = paced(broker, clients, name, rate=rate, seconds=seconds, settings=settings)
        return at_fixed_rate(outcome, meter, rate * seconds)

    return Case(
        group="latency at a fixed rate",
        name=f"3 replicas, {rate:,} records/s, 100 B, 6 p, acks=all idempotent",
        run=run,
        goals={"p99 ms": LATENCY},
        seconds=8.0,
        warm_up_runs=2,
        clustered=True,
    )


def killed_leader_case() -> Case:
    def run(broker: Broker, clients: Clients) -> Metrics:  # noqa: ARG001
        assert isinstance(broker, BrokerCluster)
        controller = active_controller(broker)
        leader, *followers = [node_id for node_id in broker.node_ids if node_id != controller]
        name = f"bench-{next(topic_numbers)}"
        admin = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 0})
        done(admin.create_topics([NewTopic(name, 1, replica_assignment=[[leader, controller, *followers]])]))
        wait_in_sync(broker.bootstrap, name, 1)
        producer = impatient_producer(broker.bootstrap)
        acknowledge(producer, name)
        broker.kill_node(leader)
        killed = time.monotonic()
        acknowledge(producer, name)
        seconds = time.monotonic() - killed
        broker.start_node(leader)
        wait_in_sync(broker.bootstrap, name, 1)
        done(admin.delete_topics([name]))
        return {"s": seconds}

    return Case(
        group="failover",
        name="kill -9 of a leader to the first acknowledged record, acks=all",
        run=run,
        goals={"s": FAILOVER},
        seconds=15.0,
        settings=SESSION,
        clustered=True,
    )


def impatient_producer(bootstrap: str) -> Producer:
    """A producer whose own timeouts add nothing to the failover time."""
    return Producer(
        {
            "bootstrap.servers": bootstrap,
            "acks": "all",
            "enable.idempotence": True,
            "linger.ms": 0,
            "retry.backoff.ms": 10,
            "retry.backoff.max.ms": 20,
            "reconnect.backoff.ms": 10,
            "reconnect.backoff.max.ms": 20,
            "topic.metadata.refresh.fast.interval.ms": 20,
            "log_level": 0,
        }
    )


def acknowledge(producer: Producer, name: str) -> None:
    errors: list[object] = []
    producer.produce(name, b"x", on_delivery=lambda error, _: errors.append(error) if error else None)
    assert producer.flush(TIMEOUT_S) == 0, "a record was not acknowledged"
    assert errors == []
