"""`python -m bench.scale_cluster 1000 5000 20000`: three nodes with three replicas of each partition lose one node.

Every node has a replica of all partitions and leads a third of them. For each count: topics are created, a node that is
not the active controller is killed, its partitions get other leaders when its session ends, and it starts again.
Another connection to every other node repeats ApiVersions requests meanwhile: the longest wait shows the longest stall
of a loop, or other work of the machine. Three nodes and the client share the machine.
"""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

import ottla.testing
from bench.cases import Goal, Metrics
from bench.measure import cpu_seconds
from bench.metrics import Special
from bench.runner import OURS, PEER, Result, as_result
from bench.scale import TIMEOUT_S, TOPIC, TOPIC_PARTITIONS_MAX
from bench.witness import Witness
from ottla.records.build import build_batch
from ottla.records.record import Record
from ottla.wire.messages.describe_quorum import DescribeQuorumRequest, RequestPartitionData, RequestTopicData
from ottla.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from ottla.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.support.raw_client import RawClient

__all__ = ["SPECIALS", "main"]

GROUP = "many partitions on three nodes"
NAME = "20,000 x 3, a node is lost, beside what that may take"
SERVED = "served after the session's end s"
BUDGET = {SERVED: 2.0, "failover, longest wait ms": 100.0, "start of the peer, longest wait ms": 100.0}

SESSION_MS = 6_000
SETTINGS = {"broker.session.timeout.ms": str(SESSION_MS), "broker.heartbeat.interval.ms": "1000"}
# The controller notices the closed connections of a killed broker and ends its session after half of its time.
SESSION_LEFT_S = SESSION_MS / 2 / 1000


@contextlib.contextmanager
def watched(nodes: list[ottla.testing.Node], figures: dict[str, float], name: str) -> Iterator[None]:
    witnesses = [Witness(node.address) for node in nodes]
    with contextlib.ExitStack() as stack:
        for witness in witnesses:
            stack.enter_context(witness.watching())
        yield
    figures[f"{name}, longest wait ms"] = max(witness.longest_s for witness in witnesses) * 1000


def measure(count: int) -> dict[str, float]:
    figures: dict[str, float] = {"partitions": count}
    with ottla.testing.cluster(nodes=3, settings=SETTINGS) as cluster:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
        began = time.monotonic()
        with watched(cluster.nodes, figures, "creation"):
            for number, start in enumerate(range(0, count, TOPIC_PARTITIONS_MAX)):
                topic = NewTopic(f"{TOPIC}{number}", min(TOPIC_PARTITIONS_MAX, count - start), 3)
                admin.create_topics([topic], request_timeout=TIMEOUT_S)[topic.topic].result(TIMEOUT_S)
            wait_in_sync(admin, count)
            wait_for_logs(cluster, count)
        figures["creation s"] = time.monotonic() - began
        victim = next(node for node in cluster.nodes if node.address != active_controller(cluster))
        others = [node for node in cluster.nodes if node is not victim]
        led = led_by(admin, cluster.nodes.index(victim) + 1)
        addresses = {node_id: node.address for node_id, node in enumerate(cluster.nodes, 1) if node is not victim}
        cpu_s = sum(cpu_seconds(node.pid) for node in others)
        with watched(others, figures, "failover"):
            victim.kill()
            session_end = time.monotonic() + SESSION_LEFT_S
            time.sleep(SESSION_LEFT_S)
            produce_to(others[0].address, led, addresses)
            figures[SERVED] = time.monotonic() - session_end
        figures["failover CPU s of a node"] = (sum(cpu_seconds(node.pid) for node in others) - cpu_s) / 2
        began = time.monotonic()
        with watched(others, figures, "start of the peer"):
            victim.start()
            figures["start of the peer s"] = time.monotonic() - began
            wait_in_sync(admin, count)
        figures["in sync again s"] = time.monotonic() - began
    return figures


def active_controller(cluster: ottla.testing.Cluster) -> str:
    metadata_topic = RequestTopicData(
        topic_name="__cluster_metadata", partitions=[RequestPartitionData(partition_index=0)]
    )
    with RawClient(cluster.node(1).address) as client:
        answer = client.call(DescribeQuorumRequest(topics=[metadata_topic]), 2)
    return cluster.node(answer.topics[0].partitions[0].leader_id).address


def wait_in_sync(admin: AdminClient, count: int) -> None:
    deadline = time.monotonic() + TIMEOUT_S
    while time.monotonic() < deadline:
        topics = [topic for name, topic in admin.list_topics(timeout=60).topics.items() if name.startswith(TOPIC)]
        partitions = [partition for topic in topics for partition in topic.partitions.values()]
        if len(partitions) == count and all(len(partition.isrs) == 3 for partition in partitions):
            return
        time.sleep(0.5)
    raise TimeoutError("the partitions are not in sync")


def wait_for_logs(cluster: ottla.testing.Cluster, count: int) -> None:
    """New replicas are in sync before their logs exist, and the nodes are still busy with creating them."""
    deadline = time.monotonic() + TIMEOUT_S
    for node in cluster.nodes:
        while sum(1 for _ in (node.directory / "data").glob(f"{TOPIC}*-*")) < count:
            assert time.monotonic() < deadline, "the logs are not created"
            time.sleep(0.1)


def led_by(admin: AdminClient, node_id: int) -> set[tuple[str, int]]:
    return {
        (name, partition.id)
        for name, topic in admin.list_topics(timeout=60).topics.items()
        if name.startswith(TOPIC)
        for partition in topic.partitions.values()
        if partition.leader == node_id
    }


def produce_to(address: str, led: set[tuple[str, int]], addresses: dict[int, str]) -> None:
    """Asks for the leaders of the partitions and writes a record to each, until all have acknowledged one.

    One request has all partitions of a leader, so that the client takes little of the time.
    """
    batch = memoryview(build_batch([Record(value=b"x", timestamp=int(time.time() * 1000))]))
    names = sorted({name for name, _ in led})
    deadline = time.monotonic() + TIMEOUT_S
    while led:
        assert time.monotonic() < deadline, f"{len(led)} partitions are not served"
        with RawClient(address, timeout_seconds=TIMEOUT_S) as client:
            answer = client.call(MetadataRequest(topics=[MetadataRequestTopic(name=name) for name in names]), 12)
        partitions_by_leader: dict[int, dict[str, list[int]]] = {}
        for topic in answer.topics:
            for partition in topic.partitions:
                if (topic.name, partition.partition_index) in led and partition.leader_id in addresses:
                    by_topic = partitions_by_leader.setdefault(partition.leader_id, {})
                    by_topic.setdefault(topic.name, []).append(partition.partition_index)
        for leader_id, by_topic in partitions_by_leader.items():
            data = [
                TopicProduceData(
                    name=name, partition_data=[PartitionProduceData(index=index, records=batch) for index in indexes]
                )
                for name, indexes in by_topic.items()
            ]
            with RawClient(addresses[leader_id], timeout_seconds=TIMEOUT_S) as client:
                produced = client.call(ProduceRequest(acks=-1, timeout_ms=60_000, topic_data=data), 11)
            led -= {
                (topic.name, partition.index)
                for topic in produced.responses
                for partition in topic.partition_responses
                if partition.error_code == 0
            }
        time.sleep(0.01)


def measure_special(package: Path, directory: Path, runs: int) -> Result:  # noqa: ARG001
    rounds: list[Metrics] = [measure(20_000) for _ in range(runs)]
    goals = dict.fromkeys(BUDGET, Goal(ratio=1.0))
    return as_result(GROUP, NAME, goals, {PEER: [dict(BUDGET) for _ in rounds], OURS: rounds})


SPECIALS: tuple[Special, ...] = ((f"{GROUP}: {NAME}", 120.0, measure_special),)


def main(arguments: list[str]) -> None:
    for count in map(int, arguments or ["1000", "5000", "20000"]):
        print("  ".join(f"{name} {value:.2f}" for name, value in measure(count).items()), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
