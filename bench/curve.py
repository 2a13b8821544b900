"""How times grow with partitions: three brokers, three replicas of each, from hundreds to thousands.

At every point one topic is created, one node is restarted in order, and the active controller is killed; the rows of
all points form the curve. The client adds no waits of its own: librdkafka's administrator would keep using a dead
controller.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable

from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from bench.cases import Case, Goal, Metrics, topic_numbers
from bench.clients import Clients
from ottla.model.errors import ErrorCode
from ottla.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.wire.messages.describe_quorum import (
    DescribeQuorumRequest,
    RequestPartitionData,
    RequestTopicData,
    ResponsePartitionData,
)
from tests.support.broker_clusters import BrokerCluster
from tests.support.brokers import Broker
from tests.support.raw_client import ConnectionClosed, RawClient

__all__ = ["CURVE", "SESSION", "active_controller", "curve_cases", "done", "wait_in_sync"]

CURVE = (500, 1_000, 2_000, 5_000)
GOAL = Goal(ratio=1.0)
# Long enough for a loaded machine, short enough to be waited for; Kafka's default is 9 s.
SESSION = {"broker.session.timeout.ms": "2000", "broker.heartbeat.interval.ms": "500"}
# The limit of one wait; Apache Kafka on two cores starts a node of 5,000 replicas in half a minute.
WAIT_S = 120.0
# The interval between looks at the disks, which cost time too.
LOOK_S = 0.1
# A further round of a point is not started if it would end later than this: the figure then has fewer rounds.
POINT_S = 120.0


def curve_cases(points: tuple[int, ...] = CURVE) -> list[Case]:
    return [point_case(count, judged=count == max(points)) for count in points]


def point_case(count: int, *, judged: bool) -> Case:
    def run(broker: Broker, clients: Clients) -> Metrics:  # noqa: ARG001
        assert isinstance(broker, BrokerCluster)
        assert len(_quorum(broker).current_voters) > 1, "there is only one controller"
        name = f"bench-{next(topic_numbers)}"
        admin = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 0})
        started = time.monotonic()
        done(admin.create_topics([NewTopic(name, count, broker.replication_factor)], operation_timeout=WAIT_S))
        wait_in_sync(broker.bootstrap, name, count)
        # The metadata lists a new replica as in sync before its log exists.
        until(lambda: _logs(broker, name) == 3 * count, "every replica has its log", pause_s=LOOK_S)
        created_s = time.monotonic() - started
        restarted = _restarted(broker, name, count)
        failover_s = _without_controller(broker, name, count)
        # A new administrator, because the first one still uses the old controller.
        admin = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 0})
        done(admin.delete_topics([name, f"{name}-after"]))
        # The next case must not include the cost of the deletion.
        until(lambda: _logs(broker, name) == 0, "every log is deleted", pause_s=LOOK_S)
        return {"created s": created_s, **restarted, "controller failover s": failover_s}

    judged_metrics = ("created s", "all in sync s", "controller failover s")
    return Case(
        group="partitions of three replicas",
        name=f"{count:,}: created, one node restarted, the active controller killed",
        run=run,
        goals=dict.fromkeys(judged_metrics, GOAL) if judged else {},
        seconds=15.0 + count / 80,
        settings=SESSION,
        clustered=True,
        limit_s=POINT_S,
    )


def _restarted(cluster: BrokerCluster, name: str, count: int) -> Metrics:
    """A node that does not lead the quorum stops in order and starts again."""
    controller = active_controller(cluster)
    node = next(node_id for node_id in cluster.node_ids if node_id != controller)
    started = time.monotonic()
    cluster.stop_node(node)
    stopped_s = time.monotonic() - started
    started = time.monotonic()
    cluster.start_node(node)
    ready_s = time.monotonic() - started
    wait_in_sync(cluster.bootstrap, name, count)
    return {"node stop s": stopped_s, "node start s": ready_s, "all in sync s": time.monotonic() - started}


def _without_controller(cluster: BrokerCluster, name: str, count: int) -> float:
    """Seconds from the kill of the active controller to the first topic of its successor, as seen by brokers."""
    controller = active_controller(cluster)
    survivor = next(node_id for node_id in cluster.node_ids if node_id != controller)
    after = f"{name}-after"
    cluster.kill_node(controller)
    killed = time.monotonic()
    try:
        until(lambda: _is_created(cluster.address(survivor), after), "a topic is created by the next controller")
        return time.monotonic() - killed
    finally:
        # After a failure, too: the next round and the next point need all three nodes.
        cluster.start_node(controller)
        wait_in_sync(cluster.bootstrap, name, count)


def wait_in_sync(bootstrap: str, name: str, count: int) -> None:
    """Waits until every partition has a leader and three replicas in sync."""
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})

    def is_whole() -> bool:
        partitions = admin.list_topics(name, timeout=30).topics[name].partitions.values()
        return len(partitions) == count and all(
            partition.leader >= 0 and len(partition.isrs) == 3 for partition in partitions
        )

    until(is_whole, f"all partitions of {name} are in sync")


def active_controller(cluster: BrokerCluster) -> int:
    return int(_quorum(cluster).leader_id)


def _quorum(cluster: BrokerCluster) -> ResponsePartitionData:
    metadata_topic = RequestTopicData(
        topic_name="__cluster_metadata", partitions=[RequestPartitionData(partition_index=0)]
    )
    with RawClient(cluster.address(1)) as client:
        answer = client.call(DescribeQuorumRequest(topics=[metadata_topic]), 2)
    data: ResponsePartitionData = answer.topics[0].partitions[0]
    return data


def _is_created(address: str, name: str) -> bool:
    topic = CreatableTopic(name=name, num_partitions=1, replication_factor=1)
    try:
        with RawClient(address, timeout_seconds=2.0) as client:
            answer = client.call(CreateTopicsRequest(topics=[topic], timeout_ms=1_000), 7)
    except (ConnectionClosed, TimeoutError):
        return False
    # The answer may have been lost with the killed controller.
    return answer.topics[0].error_code in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS)


def _logs(cluster: BrokerCluster, name: str) -> int:
    """How many partitions of a topic there are on the disks of all nodes, those to be deleted included."""
    prefix = f"{name}-"
    return sum(entry.startswith(prefix) for directory in cluster.data_directories for entry in os.listdir(directory))


def until(condition: Callable[[], bool], expectation: str, *, pause_s: float = 0.02) -> None:
    deadline = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < deadline, f"in vain waited {WAIT_S:.0f} s until {expectation}"
        time.sleep(pause_s)


def done(futures: dict[str, object]) -> None:
    for future in futures.values():
        future.result(WAIT_S)  # type: ignore[attr-defined]
