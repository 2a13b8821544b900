"""A cluster gains a broker and then loses one while clients write and read: no client is disturbed.

Three nodes, each a controller too, under load of librdkafka and of Kafka's Java clients. A fourth broker joins;
kafka-reassign-partitions moves the partitions of one topic to it, `ottla reassign` those of the other; then one of the
first three brokers hands over all its replicas, the coordinator of the Java reader's group included, stops and is
unregistered.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Self

import pytest
from confluent_kafka import Consumer

import ottla.testing
from ottla.wire.messages.describe_cluster import DescribeClusterRequest
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest
from ottla.wire.messages.metadata import MetadataRequest
from tests.integration.cluster_calls import ask, broker_ids, create_topic, partitions_of
from tests.java.conftest import require_java
from tests.support import jars
from tests.support.fault_workload import FAULT_SETTINGS, JavaWriter, NativeWriter, Writer, check, wait_until
from tests.support.java import PROGRAMS, ToolServer, java_command

PARTITIONS = 4
BEFORE = [1, 2, 3]
# The brokers at the end; the third node leaves.
LEAVING = 3
AFTER = [1, 2, 4]

Plan = dict[str, list[list[int]]]


class Reader:
    """Reads a topic as the only member of its group from the first record on; a context manager."""

    def __init__(self, topic: str) -> None:
        # The number of reads of each offset of each partition.
        self.read: Counter[tuple[int, int]] = Counter()
        # Failed commits; the client retries those with a retriable error.
        self.failed_commits: list[str] = []
        self._topic = topic
        self._thread = threading.Thread(target=self._run)

    def check(self, writer: Writer) -> None:
        """Every acknowledged record has been read exactly once."""
        acknowledged = {(partition, offset) for partition, offsets in writer.acknowledged.items() for offset in offsets}
        wait_until(lambda: acknowledged.issubset(self.read), f"everything of {self._topic} is read")
        twice = [place for place, count in list(self.read.items()) if count > 1]
        assert twice == [], f"{len(twice)} records of {self._topic} were read twice: {twice[:5]}"
        assert self.failed_commits == []

    def stop(self) -> None:
        raise NotImplementedError

    def _run(self) -> None:
        raise NotImplementedError

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        self._thread.join()


class NativeReader(Reader):
    """librdkafka."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        super().__init__(topic)
        self._is_stopped = False
        settings = {"group.id": f"{topic}-readers", "auto.offset.reset": "earliest", "log_level": 0}
        self._consumer = Consumer({"bootstrap.servers": bootstrap, **settings})
        self._consumer.subscribe([topic])

    def stop(self) -> None:
        self._is_stopped = True

    def _run(self) -> None:
        while not self._is_stopped:
            for message in self._consumer.consume(1_000, timeout=0.1):
                if message.error() is None:
                    partition, offset = message.partition(), message.offset()
                    assert partition is not None
                    assert offset is not None
                    self.read[partition, offset] += 1
        self._consumer.close()


class JavaReader(Reader):
    """Kafka's VerifiableConsumer, which prints a line for every record and for every synchronous commit."""

    def __init__(self, bootstrap: str, topic: str, group_id: str) -> None:
        super().__init__(topic)
        command = [java_command(), "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
        command += [f"-Dlog4j2.configurationFile={PROGRAMS / 'log4j2.properties'}", "-cp", jars.class_path(jars.TOOLS)]
        command += ["org.apache.kafka.tools.VerifiableConsumer", "--bootstrap-server", bootstrap, "--topic", topic]
        command += ["--group-id", group_id, "--reset-policy", "earliest", "--verbose"]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)

    def stop(self) -> None:
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(60)
        finally:
            self._process.kill()

    def _run(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as lines:
            for line in lines:
                event = json.loads(line) if line.startswith("{") else {"name": ""}
                if event["name"] == "record_data":
                    self.read[event["partition"], event["offset"]] += 1
                elif event["name"] == "offsets_committed" and not event["success"]:
                    self.failed_commits.append(line)


@pytest.fixture
def nodes() -> Iterator[ottla.testing.Cluster]:
    require_java()
    # No node is killed here, and a busy machine must not end a session.
    calm = {"broker.session.timeout.ms": "20000", "replica.lag.time.max.ms": "20000"}
    settings = {**FAULT_SETTINGS, **calm, "offsets.topic.num.partitions": "4", "group.initial.rebalance.delay.ms": "0"}
    with ottla.testing.cluster(nodes=3, settings=settings) as cluster:
        for node in cluster.nodes:
            wait_until(lambda node=node: broker_ids(node) == BEFORE, "every node knows all three")
        yield cluster


def group_of(nodes: ottla.testing.Cluster, node_id: int) -> str:
    """The id of a group that this node coordinates now."""
    groups = [f"readers-{number}" for number in range(30)]

    def coordinated() -> list[str]:
        request = FindCoordinatorRequest(key_type=0, coordinator_keys=groups)
        return [
            coordinator.key
            for coordinator in ask(nodes.node(1), request, 4).coordinators
            if coordinator.node_id == node_id
        ]

    wait_until(lambda: bool(coordinated()), f"node {node_id} coordinates groups")
    return coordinated()[0]


def replicas(nodes: ottla.testing.Cluster, topic: str) -> list[list[int]]:
    partitions = partitions_of(nodes.node(1), topic)
    return [partitions[index].replica_nodes for index in sorted(partitions)]


def leaders(nodes: ottla.testing.Cluster, topic: str) -> list[int]:
    partitions = partitions_of(nodes.node(1), topic)
    return [partitions[index].leader_id for index in sorted(partitions)]


def written(path: Path, plan: Plan) -> Path:
    entries = [
        {"topic": topic, "partition": index, "replicas": brokers}
        for topic, partitions in plan.items()
        for index, brokers in enumerate(partitions)
    ]
    path.write_text(json.dumps({"version": 1, "partitions": entries}))
    return path


def wait_until_moved(nodes: ottla.testing.Cluster, plan: Plan) -> None:
    """Waits until every partition has exactly the replicas of the plan, all of them in sync."""

    def is_moved() -> bool:
        for topic, partitions in plan.items():
            images = partitions_of(nodes.node(1), topic)
            for index, brokers in enumerate(partitions):
                if images[index].replica_nodes != brokers or sorted(images[index].isr_nodes) != sorted(brokers):
                    return False
        return True

    wait_until(is_moved, "all replicas have moved")


def our_command(nodes: ottla.testing.Cluster, *arguments: str | Path) -> str:
    command = [sys.executable, "-m", "ottla.cli.main", *map(str, arguments), "-b", nodes.bootstrap]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def kafkas_command(java: ToolServer, nodes: ottla.testing.Cluster, tool: str, *arguments: str | Path) -> str:
    done = java.run(tool, *map(str, arguments), "--bootstrap-server", nodes.bootstrap)
    assert done.status == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_broker_joins_and_another_leaves_under_load(
    nodes: ottla.testing.Cluster, java: ToolServer, tmp_path: Path
) -> None:
    for topic in ("native", "java"):
        create_topic(nodes.node(1), topic, partitions=PARTITIONS, replication_factor=3)
    with ExitStack() as stack:
        readers: dict[str, Reader] = {
            "native": stack.enter_context(NativeReader(nodes.bootstrap, "native")),
            "java": stack.enter_context(JavaReader(nodes.bootstrap, "java", group_of(nodes, LEAVING))),
        }
        writers: dict[str, Writer] = {
            "native": stack.enter_context(NativeWriter(nodes.bootstrap, "native", PARTITIONS)),
            "java": stack.enter_context(JavaWriter(nodes.bootstrap, "java", tmp_path)),
        }

        def go_on() -> None:
            """Waits until every writer has written records after the previous change."""
            for writer in writers.values():
                writer.wait_for(200)

        go_on()
        wait_until(lambda: all(reader.read for reader in readers.values()), "both readers have begun")
        grow(nodes, java, tmp_path, go_on)
        shrink(nodes, java, tmp_path, go_on)
        for topic, writer in writers.items():
            writer.stop()
            check(nodes.bootstrap, topic, writer)
            readers[topic].check(writer)


def grow(nodes: ottla.testing.Cluster, java: ToolServer, directory: Path, go_on: Callable[[], object]) -> None:
    nodes.add_node()
    wait_until(lambda: all(broker_ids(node) == [1, 2, 3, 4] for node in nodes.nodes), "all know the fourth")
    go_on()
    # Kafka's tool: the fourth broker takes a place in every partition and is the preferred leader of half of them.
    plan = {"java": [[4, 1, 2], [1, 4, 3], [4, 2, 3], [2, 3, 4]]}
    file = written(directory / "java.json", plan)
    kafkas_command(java, nodes, "ReassignPartitionsCommand", "--execute", "--reassignment-json-file", file)
    wait_until_moved(nodes, plan)
    verify = ("ReassignPartitionsCommand", "--verify", "--reassignment-json-file", file)
    wait_until(lambda: kafkas_command(java, nodes, *verify).count("is completed.") == PARTITIONS, "Kafka says so, too")
    # Our command generates a plan, which is executed.
    output = our_command(nodes, "reassign", "generate", "--topic", "native", "--broker-list", "1,2,3,4")
    entries = json.loads(output.strip().splitlines()[-1])["partitions"]
    plan = {"native": [entry["replicas"] for entry in sorted(entries, key=lambda entry: int(entry["partition"]))]}
    assert any(4 in brokers for brokers in plan["native"]), plan
    file = written(directory / "native.json", plan)
    our_command(nodes, "reassign", "execute", "--reassignment-json-file", file, "--yes")
    wait_until_moved(nodes, plan)
    output = our_command(nodes, "reassign", "verify", "--reassignment-json-file", file)
    assert output.count(" done") == PARTITIONS, output
    elect = ("LeaderElectionCommand", "--election-type", "PREFERRED", "--all-topic-partitions")
    # The command fails if any preferred leader cannot lead at the moment.
    bootstrap = ("--bootstrap-server", nodes.bootstrap)
    wait_until(lambda: java.run(*elect, *bootstrap).status == 0, "leaders are elected")
    wait_until(lambda: leaders(nodes, "java") == [4, 1, 4, 2], "the fourth broker leads its share")
    go_on()


def shrink(nodes: ottla.testing.Cluster, java: ToolServer, directory: Path, go_on: Callable[[], object]) -> None:
    """Moves all replicas off the broker, then stops and unregisters it."""
    topics = [topic.name for topic in ask(nodes.node(1), MetadataRequest(topics=None), 12).topics]
    assert "__consumer_offsets" in topics
    plan: Plan = {}
    for topic in topics:
        # The new replica is not yet a replica of the partition.
        plan[topic] = [
            [
                next(candidate for candidate in AFTER if candidate not in brokers) if broker == LEAVING else broker
                for broker in brokers
            ]
            for brokers in replicas(nodes, topic)
        ]
    file = written(directory / "drain.json", plan)
    kafkas_command(java, nodes, "ReassignPartitionsCommand", "--execute", "--reassignment-json-file", file)
    wait_until_moved(nodes, plan)
    go_on()
    leaving = nodes.node(LEAVING)
    wait_until(lambda: not any(leaving.directory.glob("data/[!_]*-[0-9]/*.log")), "its logs are deleted")
    leaving.stop()
    wait_until(lambda: broker_ids(nodes.node(1)) == AFTER, "the others go on alone")
    kafkas_command(java, nodes, "ClusterTool", "unregister", "--id", str(LEAVING))
    fenced_too = DescribeClusterRequest(include_fenced_brokers=True)
    wait_until(
        lambda: [broker.broker_id for broker in ask(nodes.node(1), fenced_too, 2).brokers] == AFTER,
        "no node lists it any more",
    )
    go_on()
