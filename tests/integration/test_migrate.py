"""`ottla migrate`: checks and steps. Here both brokers are Ottla; tests/faults migrates nodes of Apache Kafka."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from ottla.host.free_ports import free_ports
from ottla.testing.clusters import Cluster, Node, cluster, node_environment
from ottla.wire.messages.describe_cluster import DescribeClusterRequest
from ottla.wire.messages.metadata import MetadataRequest
from tests.integration.cluster_calls import ask, wait_until
from tests.integration.group_members import create_topic
from tests.support.all_brokers import until_all_know

COMMAND = [sys.executable, "-m", "ottla.cli.main", "migrate"]


@pytest.fixture(scope="module")
def running() -> Iterator[Cluster]:
    with cluster(nodes=3) as three_nodes:
        create_topic(three_nodes.bootstrap, 6, replicas=3)
        yield three_nodes


@pytest.fixture
def three(running: Cluster) -> Cluster:
    """The cluster with all replicas in sync: a node that another test has just started may still copy records."""
    wait_until(lambda: all(map(is_well, running.nodes)), "every node knows that all replicas are in sync")
    return running


def is_well(node: Node) -> bool:
    """True if the node knows three brokers and a topic, and all replicas are in sync."""
    answer = ask(node, MetadataRequest(topics=None), 12)
    partitions = [partition for topic in answer.topics for partition in topic.partitions]
    in_sync = [set(partition.isr_nodes) == set(partition.replica_nodes) for partition in partitions]
    return len(answer.brokers) == 3 and bool(in_sync) and all(in_sync)


def ottla(*arguments: str, code: int = 0) -> subprocess.CompletedProcess[str]:
    result = subprocess.run(
        [*COMMAND, *arguments], capture_output=True, text=True, timeout=300, check=False, env=node_environment()
    )
    assert result.returncode == code, result.stdout + result.stderr
    return result


def file_of(node: Node) -> str:
    return str(node.directory / "node.properties")


def start_command(node: Node) -> str:
    run = f"{sys.executable} -m ottla.cli.main node --config {file_of(node)}"
    return f"{run} >> {node.directory}/again.log 2>&1 &"


def test_a_node_is_stopped_started_and_waited_for(three: Cluster) -> None:
    node = three.node(2)
    common = ("-c", file_of(node), "-b", three.node(1).address)
    ottla("check", *common)
    steps = ("--stop", f"kill {node.pid}", "--start", start_command(node), "--yes", "--wait", "60")
    assert "Nothing" in ottla("node", *common, *steps, "--dry-run").stderr
    assert node.running
    output = ottla("node", *common, *steps).stdout
    assert "Node 2 has stopped." in output
    assert "Node 2 is back" in output
    assert not node.running, "another process runs the node now"
    # Back to a process that the fixture ends, after the other process is stopped by hand.
    subprocess.run(["pkill", "-f", f"node --config {file_of(node)}"], check=True)
    three.node(2).start()


def test_a_cluster_that_is_not_well_is_left_alone(three: Cluster) -> None:
    three.node(3).stop()
    try:
        node = three.node(1)
        findings = json.loads(ottla("check", "-c", file_of(node), "-b", node.address, "--json", code=1).stdout)
        assert any("3" in finding["what"] for finding in findings["findings"])
        steps = ("--stop", "exit 7", "--start", "exit 7", "--yes", "--wait", "1")
        assert "left alone" in ottla("node", "-c", file_of(node), "-b", node.address, *steps, code=1).stderr
        assert node.running
    finally:
        three.node(3).start()


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ("zookeeper.connect=localhost:2181\nbroker.id=1\n", "ZooKeeper"),
        ("node.id=2\n", "belongs to node 1"),
        ("remote.log.storage.system.enable=true\n", "remote.log.storage.system.enable"),
    ],
)
def test_what_stands_in_the_way_is_said(three: Cluster, tmp_path: Path, changes: str, said: str) -> None:
    file = tmp_path / "server.properties"
    content = (three.node(1).directory / "node.properties").read_text()
    file.write_text(changes if changes.startswith("zoo") else content + changes)
    result = ottla("check", "-c", str(file), "-b", three.node(1).address, code=1)
    assert said in result.stdout


def test_a_broker_joins_takes_replicas_and_leaves(three: Cluster, tmp_path: Path) -> None:
    controller = (three.node(1).directory / "node.properties").read_text()
    voters = re.search(r"^controller\.quorum\.voters\s*=\s*(.+)$", controller, re.MULTILINE)
    assert voters is not None
    (port,) = free_ports(1)
    file = tmp_path / "new.properties"
    lines = {
        "process.roles": "broker",
        "node.id": "4",
        "listeners": f"PLAINTEXT://127.0.0.1:{port}",
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.voters": voters[1],
        "log.dirs": str(tmp_path / "data"),
    }
    file.write_text("".join(f"{key}={value}\n" for key, value in lines.items()))
    start = f"{sys.executable} -m ottla.cli.main node --config {file} >> {tmp_path}/log 2>&1 & echo $! > {tmp_path}/pid"
    stop = f"kill $(cat {tmp_path}/pid)"
    join = ("join", "-c", str(file), "-b", three.bootstrap, "--start", start, "--yes")
    leave = ("leave", "4", "-b", three.bootstrap, "--stop", stop, "--yes")
    try:
        ottla(*join, "--dry-run")
        assert not (tmp_path / "data").exists()
        assert "Node 4 is in the cluster." in ottla(*join).stdout
        assert "Node 4 runs already." in ottla(*join).stdout
        topic = create_topic(f"127.0.0.1:{port}", 8, replicas=2)
        # The brokers that answer below may not have replayed the topic yet.
        until_all_know([f"127.0.0.1:{port}", *(node.address for node in three.nodes)])
        assert 4 in brokers_of(three, topic)
        assert "go to other brokers" in ottla(*leave, "--dry-run").stdout
        assert "Broker 4 has no replicas." in ottla(*leave).stdout
        assert brokers_of(three, topic) == {1, 2, 3}
        fenced_too = DescribeClusterRequest(include_fenced_brokers=True)
        for node in three.nodes:
            wait_until(
                lambda node=node: len(ask(node, fenced_too, 2).brokers) == 3, "every node knows that it has gone"
            )
        assert "There is no broker or voter 4; there are 1, 2, 3." in ottla(*leave, code=1).stderr
    finally:
        subprocess.run(["pkill", "-KILL", "-f", f"node --config {file}"], check=False)


def test_controllers_of_a_fixed_quorum_neither_join_nor_leave(three: Cluster, tmp_path: Path) -> None:
    output = ottla("leave", "1", "-b", three.bootstrap, "--stop", "exit 7", "--yes", code=1).stdout
    assert "fixed by controller.quorum.voters" in " ".join(output.split())
    file = tmp_path / "new.properties"
    content = (three.node(1).directory / "node.properties").read_text()
    file.write_text(content + f"\nnode.id=3\nlog.dirs={tmp_path}/data\nmetadata.log.dir={tmp_path}/data\n")
    result = ottla("join", "-c", str(file), "-b", three.bootstrap, "--start", "exit 7", "--yes", code=1)
    assert "has a node 3 already" in result.stdout


def brokers_of(nodes: Cluster, topic: str) -> set[int]:
    partitions = AdminClient({"bootstrap.servers": nodes.bootstrap}).list_topics(topic, timeout=30).topics[topic]
    return {replica for partition in partitions.partitions.values() for replica in partition.replicas}
