"""kafka-reassign-partitions, kafka-leader-election and kafka-topics, unchanged, on a cluster of three nodes."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

import ottla.testing
from ottla.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from tests.integration.cluster_calls import ask, broker_ids, create_topic, partitions_of, wait_until
from tests.java.conftest import require_java
from tests.support.java import ToolResult, ToolServer

Run = Callable[..., ToolResult]

SETTINGS = {
    # A broker that stops is noticed soon, and leadership goes back only when it is asked for.
    "broker.session.timeout.ms": "3000",
    "auto.leader.rebalance.enable": "false",
    "log.segment.delete.delay.ms": "0",
}


@pytest.fixture(scope="module")
def nodes() -> Iterator[ottla.testing.Cluster]:
    require_java()
    with ottla.testing.cluster(nodes=3, settings=SETTINGS) as cluster:
        for node in cluster.nodes:
            wait_until(lambda node=node: broker_ids(node) == [1, 2, 3], "every node knows all three")
        yield cluster


@pytest.fixture
def tool(java: ToolServer, nodes: ottla.testing.Cluster) -> Run:
    def run(name: str, *arguments: str | int | Path, status: int = 0) -> ToolResult:
        result = java.run(name, "--bootstrap-server", nodes.bootstrap, *map(str, arguments))
        assert result.status == status, result.stdout + result.stderr
        return result

    return run


def replicas_and_isr(nodes: ottla.testing.Cluster, topic: str, partition: int = 0) -> tuple[list[int], list[int], int]:
    found = partitions_of(nodes.node(1), topic)[partition]
    return found.replica_nodes, sorted(found.isr_nodes), found.leader_id


def fill(nodes: ottla.testing.Cluster, topic: str, count: int = 500) -> None:
    producer = Producer({"bootstrap.servers": nodes.bootstrap, "acks": "all"})
    for number in range(count):
        producer.produce(topic, f"record {number}".encode() * 20, partition=0)
    assert producer.flush(30) == 0


def plan(path: Path, topic: str, *partitions: tuple[int, list[int]]) -> Path:
    entries = [{"topic": topic, "partition": index, "replicas": replicas} for index, replicas in partitions]
    path.write_text(json.dumps({"version": 1, "partitions": entries}))
    return path


def log_exists(nodes: ottla.testing.Cluster, node_id: int, topic: str) -> bool:
    return any(nodes.node(node_id).directory.rglob(f"{topic}-0"))


def test_a_partition_moves_and_its_former_log_is_deleted(
    nodes: ottla.testing.Cluster, tool: Run, tmp_path: Path
) -> None:
    create_topic(nodes.node(1), "moving", assignments={0: [1, 2], 1: [2, 1]})
    fill(nodes, "moving")
    topics = tmp_path / "topics.json"
    topics.write_text(json.dumps({"topics": [{"topic": "moving"}], "version": 1}))
    generated = tool(
        "ReassignPartitionsCommand", "--generate", "--topics-to-move-json-file", topics, "--broker-list", "2,3"
    ).stdout
    assert "Current partition replica assignment" in generated
    assert "Proposed partition reassignment configuration" in generated
    wanted = plan(tmp_path / "plan.json", "moving", (0, [3, 2]))
    said = tool("ReassignPartitionsCommand", "--execute", "--reassignment-json-file", wanted).stdout
    assert "Successfully started partition reassignment for moving-0" in said
    wait_until(lambda: replicas_and_isr(nodes, "moving") == ([3, 2], [2, 3], 3), "the partition is on 3 and 2")
    said = tool("ReassignPartitionsCommand", "--verify", "--reassignment-json-file", wanted).stdout
    assert "Reassignment of partition moving-0 is completed." in said
    wait_until(lambda: not log_exists(nodes, 1, "moving"), "the former replica's log is gone")
    assert replicas_and_isr(nodes, "moving", 1) == ([2, 1], [1, 2], 2)


def test_a_reassignment_is_listed_and_cancelled(nodes: ottla.testing.Cluster, tool: Run, tmp_path: Path) -> None:
    create_topic(nodes.node(1), "cancelled", assignments={0: [1, 2]})
    fill(nodes, "cancelled")
    wanted = plan(tmp_path / "plan.json", "cancelled", (0, [2, 3]))
    # With a broker away the new replica cannot be filled, and the reassignment stays under way.
    nodes.node(3).stop()
    wait_until(lambda: broker_ids(nodes.node(1)) == [1, 2], "broker 3 is gone")
    try:
        # The tool would refuse a broker that is away; the controller does not.
        change = ReassignableTopic(
            name="cancelled", partitions=[ReassignablePartition(partition_index=0, replicas=[2, 3])]
        )
        assert ask(nodes.node(2), AlterPartitionReassignmentsRequest(topics=[change]), 1).error_code == 0
        listed = tool("ReassignPartitionsCommand", "--list").stdout
        assert re.search(r"cancelled-0: replicas: 2,3,1\. adding: 3\. removing: 1\.", listed), listed
        said = tool("TopicCommand", "--describe", "--topic", "cancelled").stdout
        assert re.search(r"Partition: 0.*Adding Replicas: 3\tRemoving Replicas: 1", said), said
        # Throttles are cleared at the brokers themselves, of which one is away.
        options = ("--reassignment-json-file", wanted, "--preserve-throttles")
        said = tool("ReassignPartitionsCommand", "--verify", *options).stdout
        assert "Reassignment of partition cancelled-0 is still in progress." in said
        said = tool("ReassignPartitionsCommand", "--cancel", *options).stdout
        assert "Successfully cancelled partition reassignment for: cancelled-0" in said
        assert "No partition reassignments found." in tool("ReassignPartitionsCommand", "--list").stdout
        wait_until(lambda: replicas_and_isr(nodes, "cancelled")[:2] == ([2, 1], [1, 2]), "it is where it was")
    finally:
        nodes.node(3).start()
        wait_until(lambda: broker_ids(nodes.node(1)) == [1, 2, 3], "broker 3 is back")
