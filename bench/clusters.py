"""Three brokers: what replication costs, how long a killed leader is missed, and how times grow with partitions.

Both sides are three processes on one machine with the same timeouts. CPU is that of all three together.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from bench.cases import KIB, Case, Goal, Metrics, per_gigabyte, records_for, topic, topic_numbers
from bench.clients import TIMEOUT_S, Clients
from bench.measure import Meter
from ottla.wire.messages.describe_quorum import (
    DescribeQuorumRequest,
    RequestPartitionData,
    RequestTopicData,
    ResponsePartitionData,
)
from tests.support.broker_clusters import BrokerCluster
from tests.support.brokers import Broker
from tests.support.raw_client import RawClient

__all__ = ["active_controller", "cluster_cases"]

CPU_REPLICATION = Goal(ratio=0.5)
THROUGHPUT = Goal(ratio=1.0, at_most=False)
FAILOVER = Goal(ratio=1.0)

# Long enough for a loaded machine, short enough to be waited for; Kafka's default is 9 s.
SESSION = {"broker.session.timeout.ms": "2000", "broker.heartbeat.interval.ms": "500"}
CURVE = (500, 1_000, 2_000, 5_000)
LONG_S = 600.0


def cluster_cases() -> list[Case]:
    shapes = [(1024, 16, 6), (1024, 128, 6), (100, 16, 6)]
    return [
        *(replicated_produce_case(*shape) for shape in shapes),
        killed_leader_case(),
        *(partitions_case(count) for count in CURVE),
        *(killed_controller_case(count) for count in CURVE),
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


def killed_leader_case() -> Case:
    def run(broker: Broker, clients: Clients) -> Metrics:  # noqa: ARG001
        assert isinstance(broker, BrokerCluster)
        controller = active_controller(broker)
        leader, *others = [node_id for node_id in broker.node_ids if node_id != controller]
        name = f"bench-{next(topic_numbers)}"
        admin = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 0})
        _done(admin.create_topics([NewTopic(name, 1, replica_assignment=[[leader, controller, *others]])]))
        wait_in_sync(broker.bootstrap, name, 1)
        producer = impatient_producer(broker.bootstrap)
        acknowledge(producer, name)
        broker.kill_node(leader)
        killed = time.monotonic()
        acknowledge(producer, name)
        seconds = time.monotonic() - killed
        broker.start_node(leader)
        wait_in_sync(broker.bootstrap, name, 1)
        _done(admin.delete_topics([name]))
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


def partitions_case(count: int) -> Case:
    def run(broker: Broker, clients: Clients) -> Metrics:  # noqa: ARG001
        assert isinstance(broker, BrokerCluster)
        name = f"bench-{next(topic_numbers)}"
        admin = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 0})
        started = time.monotonic()
        _done(admin.create_topics([NewTopic(name, count, broker.replication_factor)], operation_timeout=LONG_S))
        wait_in_sync(broker.bootstrap, name, count)
        created_s = time.monotonic() - started
        restarted = _other_than(active_controller(broker), broker)
        started = time.monotonic()
        broker.stop_node(restarted)
        stopped_s = time.monotonic() - started
        started = time.monotonic()
        broker.start_node(restarted)
        ready_s = time.monotonic() - started
        wait_in_sync(broker.bootstrap, name, count)
        in_sync_s = time.monotonic() - started
        _done(admin.delete_topics([name]))
        return {"created s": created_s, "node stop s": stopped_s, "node start s": ready_s, "all in sync s": in_sync_s}

    return Case(
        group="partitions of three replicas",
        name=f"{count:,}: created, one node restarted",
        run=run,
        goals={"created s": FAILOVER, "all in sync s": FAILOVER} if count == CURVE[-1] else {},
        seconds=10.0 + count / 100,
        settings=SESSION,
        clustered=True,
    )


def killed_controller_case(count: int) -> Case:
    """From the death of the active controller to the first topic that its successor has created."""

    def run(broker: Broker, clients: Clients) -> Metrics:  # noqa: ARG001
        assert isinstance(broker, BrokerCluster)
        assert len(_voters(broker)) > 1, "there is only one controller"
        name = f"bench-{next(topic_numbers)}"
        admin = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 0})
        _done(admin.create_topics([NewTopic(name, count, broker.replication_factor)], operation_timeout=LONG_S))
        wait_in_sync(broker.bootstrap, name, count)
        controller = active_controller(broker)
        broker.kill_node(controller)
        killed = time.monotonic()
        made = f"{name}-after"
        _until(lambda: _can_create(admin, made), "a topic is created by the next controller")
        seconds = time.monotonic() - killed
        broker.start_node(controller)
        wait_in_sync(broker.bootstrap, name, count)
        _done(admin.delete_topics([name, made]))
        return {"s": seconds}

    return Case(
        group="controller failover",
        name=f"{count:,} partitions of three replicas: kill -9 of the active controller to the next topic",
        run=run,
        goals={"s": FAILOVER} if count == CURVE[-1] else {},
        seconds=20.0 + count / 100,
        settings=SESSION,
        clustered=True,
    )


def impatient_producer(bootstrap: str) -> Producer:
    """One that loses no time of its own."""
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


def wait_in_sync(bootstrap: str, name: str, count: int) -> None:
    """Until every partition has a leader and three replicas in sync."""
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})

    def is_whole() -> bool:
        partitions = admin.list_topics(name, timeout=30).topics[name].partitions.values()
        return len(partitions) == count and all(each.leader >= 0 and len(each.isrs) == 3 for each in partitions)

    _until(is_whole, f"all partitions of {name} are in sync")


def active_controller(cluster: BrokerCluster) -> int:
    return int(_quorum(cluster).leader_id)


def _voters(cluster: BrokerCluster) -> list[int]:
    return [voter.replica_id for voter in _quorum(cluster).current_voters]


def _quorum(cluster: BrokerCluster) -> ResponsePartitionData:
    wanted = RequestTopicData(topic_name="__cluster_metadata", partitions=[RequestPartitionData(partition_index=0)])
    with RawClient(cluster.address(1)) as client:
        answer = client.call(DescribeQuorumRequest(topics=[wanted]), 2)
    found: ResponsePartitionData = answer.topics[0].partitions[0]
    return found


def _other_than(node_id: int, cluster: BrokerCluster) -> int:
    return next(other for other in cluster.node_ids if other != node_id)


def _can_create(admin: AdminClient, name: str) -> bool:
    (future,) = admin.create_topics([NewTopic(name, 1, 1)], operation_timeout=1, request_timeout=1).values()
    return future.exception(10) is None or "ALREADY_EXISTS" in str(future.exception())


def _until(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + LONG_S
    while not condition():
        assert time.monotonic() < deadline, f"in vain waited until {what}"
        time.sleep(0.02)


def _done(futures: dict[str, object]) -> None:
    for future in futures.values():
        future.result(LONG_S)  # type: ignore[attr-defined]
