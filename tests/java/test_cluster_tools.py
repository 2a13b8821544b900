"""kafka-reassign-partitions, kafka-leader-election and kafka-topics, unchanged, on a cluster of three nodes."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

import ottla.testing
from ottla.model.errors import ErrorCode
from ottla.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from ottla.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from tests.integration.cluster_calls import ask, broker_ids, create_topic, partitions_of, wait_until
from tests.java.conftest import require_java
from tests.support.all_brokers import until_all_know
from tests.support.java import ToolResult, ToolServer

Run = Callable[..., ToolResult]

SETTINGS = {
    # Leadership returns only on request. Brokers stop in order here, which the controller notices at once, so long
    # sessions only protect the brokers of a busy machine.
    "broker.session.timeout.ms": "20000",
    "controller.quorum.request.timeout.ms": "10000",
    "controller.quorum.fetch.timeout.ms": "10000",
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
        # Every broker that the tool may ask has seen the earlier changes.
        until_all_know([node.address for node in nodes.nodes if node.running])
        result = java.run(name, "--bootstrap-server", nodes.bootstrap, *map(str, arguments))
        assert result.status == status, result.stdout + result.stderr
        return result

    return run


def replicas_and_isr(nodes: ottla.testing.Cluster, topic: str, partition: int = 0) -> tuple[list[int], list[int], int]:
    image = partitions_of(nodes.node(1), topic)[partition]
    return image.replica_nodes, sorted(image.isr_nodes), image.leader_id


def fill(nodes: ottla.testing.Cluster, topic: str, count: int = 500) -> None:
    producer = Producer({"bootstrap.servers": nodes.bootstrap, "acks": "all"})
    for number in range(count):
        producer.produce(topic, f"record {number}".encode() * 20, partition=0)
    assert producer.flush(60) == 0


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
    plan_file = plan(tmp_path / "plan.json", "moving", (0, [3, 2]))
    output = tool("ReassignPartitionsCommand", "--execute", "--reassignment-json-file", plan_file).stdout
    assert "Successfully started partition reassignment for moving-0" in output
    wait_until(lambda: replicas_and_isr(nodes, "moving") == ([3, 2], [2, 3], 3), "the partition is on 3 and 2")
    output = tool("ReassignPartitionsCommand", "--verify", "--reassignment-json-file", plan_file).stdout
    assert "Reassignment of partition moving-0 is completed." in output
    wait_until(lambda: not log_exists(nodes, 1, "moving"), "the former replica's log is gone")
    assert replicas_and_isr(nodes, "moving", 1) == ([2, 1], [1, 2], 2)


def test_a_reassignment_is_listed_and_cancelled(nodes: ottla.testing.Cluster, tool: Run, tmp_path: Path) -> None:
    create_topic(nodes.node(1), "cancelled", assignments={0: [1, 2]})
    fill(nodes, "cancelled")
    plan_file = plan(tmp_path / "plan.json", "cancelled", (0, [2, 3]))
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
        output = tool("TopicCommand", "--describe", "--topic", "cancelled").stdout
        assert re.search(r"Partition: 0.*Adding Replicas: 3\tRemoving Replicas: 1", output), output
        # Throttles are cleared at the brokers themselves, of which one is away.
        options = ("--reassignment-json-file", plan_file, "--preserve-throttles")
        output = tool("ReassignPartitionsCommand", "--verify", *options).stdout
        assert "Reassignment of partition cancelled-0 is still in progress." in output
        output = tool("ReassignPartitionsCommand", "--cancel", *options).stdout
        assert "Successfully cancelled partition reassignment for: cancelled-0" in output
        assert "No partition reassignments found." in tool("ReassignPartitionsCommand", "--list").stdout
        wait_until(lambda: replicas_and_isr(nodes, "cancelled")[:2] == ([2, 1], [1, 2]), "it is where it was")
    finally:
        nodes.node(3).start()
        wait_until(lambda: broker_ids(nodes.node(1)) == [1, 2, 3], "broker 3 is back")


def test_a_throttled_reassignment_sets_and_clears_its_throttles(
    nodes: ottla.testing.Cluster, tool: Run, tmp_path: Path
) -> None:
    create_topic(nodes.node(1), "throttled", assignments={0: [1, 2]})
    fill(nodes, "throttled")
    plan_file = plan(tmp_path / "plan.json", "throttled", (0, [3, 2]))
    options = ("--reassignment-json-file", plan_file)
    output = tool("ReassignPartitionsCommand", "--execute", *options, "--throttle", 100_000_000).stdout
    assert "The inter-broker throttle limit was set to 100000000 B/s" in output
    rates = tool("ConfigCommand", "--entity-type", "brokers", "--entity-name", 3, "--describe").stdout
    assert "follower.replication.throttled.rate=100000000" in rates
    replicas = tool("ConfigCommand", "--entity-type", "topics", "--entity-name", "throttled", "--describe").stdout
    assert "leader.replication.throttled.replicas=0:1,0:2" in replicas
    assert "follower.replication.throttled.replicas=0:3" in replicas
    wait_until(lambda: replicas_and_isr(nodes, "throttled") == ([3, 2], [2, 3], 3), "the partition has moved")
    output = tool("ReassignPartitionsCommand", "--verify", *options).stdout
    assert "Clearing topic-level throttles on topic throttled" in output
    rates = tool("ConfigCommand", "--entity-type", "brokers", "--entity-name", 3, "--describe").stdout
    assert "throttled" not in rates
    for name in ("leader.replication.throttled.rate", "follower.replication.throttled.rate"):
        refused = tool(
            "ConfigCommand", "--entity-type", "brokers", "--entity-name", 3, "--alter", "--add-config", f"{name}=-1",
            status=1,
        )  # fmt: skip
        assert "InvalidRequestException" in refused.stdout + refused.stderr
    refused = tool(
        "ConfigCommand", "--entity-type", "topics", "--entity-name", "throttled", "--alter",
        "--add-config", "leader.replication.throttled.replicas=0", status=1,
    )  # fmt: skip
    assert "InvalidConfigurationException" in refused.stdout + refused.stderr


def test_leaders_are_elected_with_the_tool(nodes: ottla.testing.Cluster, tool: Run, tmp_path: Path) -> None:
    create_topic(nodes.node(1), "elected", assignments={0: [2, 3], 1: [3, 2]}, configs={"min.insync.replicas": "1"})
    nodes.node(2).stop()
    wait_until(lambda: replicas_and_isr(nodes, "elected")[2] == 3, "3 leads")
    nodes.node(2).start()
    wait_until(lambda: replicas_and_isr(nodes, "elected")[:2] == ([2, 3], [2, 3]), "2 is in sync again")
    output = tool(
        "LeaderElectionCommand", "--election-type", "preferred", "--topic", "elected", "--partition", 0
    ).stdout
    assert "Successfully completed leader election (PREFERRED) for partitions elected-0" in output
    wait_until(lambda: replicas_and_isr(nodes, "elected")[2] == 2, "the first node has heard of it")
    # This includes topics of other tests, where replica 2 returns to the in-sync set at other times.
    behind = ("TopicCommand", "--describe", "--under-replicated-partitions")
    wait_until(lambda: not tool(*behind).stdout.strip(), "every replica is in sync")
    tool("LeaderElectionCommand", "--election-type", "preferred", "--all-topic-partitions")
    named = tmp_path / "partitions.json"
    named.write_text(json.dumps({"partitions": [{"topic": "elected", "partition": 0}]}))
    output = tool("LeaderElectionCommand", "--election-type", "unclean", "--path-to-json-file", named).stdout
    assert "Valid replica already elected for partitions elected-0" in output


def test_topics_are_described_through_every_filter_while_a_broker_is_away(
    nodes: ottla.testing.Cluster, tool: Run
) -> None:
    create_topic(nodes.node(1), "whole", assignments={0: [1, 2]}, configs={"min.insync.replicas": "1"})
    create_topic(nodes.node(1), "shrunk", assignments={0: [1, 3]}, configs={"min.insync.replicas": "1"})
    create_topic(nodes.node(1), "short", assignments={0: [1, 3]}, configs={"min.insync.replicas": "2"})
    create_topic(nodes.node(1), "gone", assignments={0: [3]})

    def described(*options: str) -> set[str]:
        lines = tool("TopicCommand", "--describe", "--exclude-internal", *options).stdout.splitlines()
        topics = {match.group(1) for line in lines if (match := re.search(r"Topic: (\S+)", line))}
        return topics & {"whole", "shrunk", "short", "gone"}

    all_topics = {"whole", "shrunk", "short", "gone"}
    assert described() == all_topics
    assert described("--under-replicated-partitions") == set()
    assert described("--unavailable-partitions") == set()
    nodes.node(3).stop()
    wait_until(lambda: replicas_and_isr(nodes, "gone")[2] == -1, "the broker is known to be away")
    try:
        assert described("--under-replicated-partitions") == {"shrunk", "short", "gone"}
        assert described("--unavailable-partitions") == {"gone"}
        assert described("--under-min-isr-partitions") == {"short", "gone"}
        assert described("--at-min-isr-partitions") == {"shrunk"}
        # With eligible leaders every topic inherits a setting that counts as an override, as on Apache Kafka.
        assert described("--topics-with-overrides") == all_topics
        text = tool("TopicCommand", "--describe", "--topics-with-overrides").stdout
        assert "Partition: 0" not in text
        text = tool("TopicCommand", "--describe", "--topic", "short").stdout
        assert re.search(r"Leader: 1\tReplicas: 1,3\tIsr: 1\tElr: 3\tLastKnownElr: \n", text), text
        text = tool("TopicCommand", "--describe", "--topic", "gone").stdout
        assert re.search(r"Leader: none\tReplicas: 3\tIsr: \tElr: 3\tLastKnownElr: 3\n", text), text
    finally:
        nodes.node(3).start()
    wait_until(lambda: replicas_and_isr(nodes, "gone")[2] == 3, "it leads again what only it has")
    wait_until(lambda: replicas_and_isr(nodes, "short")[1] == [1, 3], "and is in sync")


def test_a_broker_whose_directories_are_cordoned_gets_no_new_replicas(nodes: ottla.testing.Cluster, tool: Run) -> None:
    create_topic(nodes.node(1), "before-cordon", assignments={0: [3, 1]})
    broker = ("ConfigCommand", "--entity-type", "brokers", "--entity-name", 3, "--alter")
    tool(*broker, "--add-config", "cordoned.log.dirs=*")

    def refused() -> bool:
        topic = CreatableTopic(name="on-all", num_partitions=1, replication_factor=3)
        request = CreateTopicsRequest(topics=[topic], timeout_ms=10_000, validate_only=True)
        return ask(nodes.node(1), request, 7).topics[0].error_code == ErrorCode.INVALID_REPLICATION_FACTOR

    wait_until(refused, "the controller has heard of it")
    create_topic(nodes.node(1), "around", partitions=12, replication_factor=2)
    assert all(
        sorted(partition.replica_nodes) == [1, 2] for partition in partitions_of(nodes.node(1), "around").values()
    )
    assert replicas_and_isr(nodes, "before-cordon") == ([3, 1], [1, 3], 3)
    tool(*broker, "--delete-config", "cordoned.log.dirs")
    wait_until(lambda: not refused(), "the broker takes replicas again")


def test_features_are_described_lowered_raised_and_disabled(tool: Run, java: ToolServer) -> None:
    def level(name: str) -> str:
        match = re.search(
            rf"Feature: {name}\s.*FinalizedVersionLevel: (\S+)", tool("FeatureCommand", "describe").stdout
        )
        assert match is not None
        return match.group(1)

    assert level("metadata.version") == "4.3-IV0"
    # Share groups are not there yet, so that a new cluster begins without them.
    assert level("share.version") == level("streams.version") == "0"
    tool("FeatureCommand", "upgrade", "--feature", "share.version=1")
    tool("FeatureCommand", "downgrade", "--feature", "share.version=0", "--dry-run")
    assert level("share.version") == "1"
    tool("FeatureCommand", "downgrade", "--feature", "share.version=0")
    assert level("share.version") == "0"
    tool("FeatureCommand", "upgrade", "--feature", "share.version=1")
    assert level("share.version") == "1"
    tool("FeatureCommand", "disable", "--feature", "share.version")
    assert level("share.version") == "0"
    # A level that is there already is no obstacle.
    tool("FeatureCommand", "upgrade", "--feature", "share.version=1", "--metadata", "4.3-IV0")
    assert level("share.version") == "1"
    refused = tool("FeatureCommand", "downgrade", "--metadata", "4.2-IV1", status=1)
    assert "metadata.version" in refused.stdout + refused.stderr
    refused = tool("FeatureCommand", "upgrade", "--feature", "share.version=7", status=1)
    assert "share.version" in refused.stdout + refused.stderr
    mapping = java.run("FeatureCommand", "--bootstrap-server", "none:1", "version-mapping", "--release-version", "4.3")
    assert "metadata.version=30 (4.3)" in mapping.stdout
