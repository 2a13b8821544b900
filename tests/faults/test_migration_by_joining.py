"""Nodes of Ottla join a node of Apache Kafka under load and take over; then a node of Kafka takes over from them."""

from __future__ import annotations

import shlex
import subprocess
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from tests.faults.test_migration_in_place import OTTLA, PARTITIONS, Load, assert_exact, pid_of, read_all
from tests.integration.cluster_calls import wait_until
from tests.integration.group_members import create_topic
from tests.java.conftest import require_java
from tests.support.brokers import CLUSTER_ID, QuickKafka, free_ports

pytestmark = [pytest.mark.faults, pytest.mark.java, pytest.mark.timeout(1200)]

HEAP = "320m"


class GrowingKafka(QuickKafka):
    """A node whose quorum can change; `format` begins a cluster with it, and otherwise it joins one."""

    def format(self) -> None:
        self.write()
        command = [*self._java("-Xmx128m", "-XX:TieredStopAtLevel=1"), "kafka.tools.StorageTool", "format"]
        command += ["-t", CLUSTER_ID, "-c", str(self.properties_file), "--standalone"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr

    def write(self) -> None:
        lines = {"log.dirs": str(self.log_directory), **self.settings}
        self.properties_file.write_text("".join(f"{key}={value}\n" for key, value in lines.items()))

    def prepare(self) -> None:
        """The configuration file and the directory exist already."""


def settings_of(node_id: int, ports: list[int]) -> dict[str, str]:
    client, controller = ports[2 * node_id - 2], ports[2 * node_id - 1]
    return {
        "process.roles": "broker,controller",
        "node.id": str(node_id),
        "listeners": f"PLAINTEXT://127.0.0.1:{client},CONTROLLER://127.0.0.1:{controller}",
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.bootstrap.servers": ",".join(f"127.0.0.1:{port}" for port in ports[1::2]),
        "offsets.topic.replication.factor": "1",
        "offsets.topic.num.partitions": "4",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.num.partitions": "4",
        "transaction.state.log.min.isr": "1",
        "share.coordinator.state.topic.replication.factor": "1",
        "share.coordinator.state.topic.min.isr": "1",
    }


def migrate(*arguments: str, log: Path) -> None:
    done = subprocess.run(
        [*OTTLA, "migrate", *arguments, "--yes"], capture_output=True, text=True, timeout=600, check=False
    )
    print(done.stdout)
    log_end = log.read_text(errors="replace")[-3000:] if log.exists() else ""
    assert done.returncode == 0, done.stdout + done.stderr + log_end


def brokers_of(bootstrap: str, topic: str) -> tuple[set[int], set[int]]:
    """All brokers, and those that have replicas of the topic."""
    described = AdminClient({"bootstrap.servers": bootstrap}).list_topics(timeout=30)
    partitions = described.topics[topic].partitions.values()
    return set(described.brokers), {replica for partition in partitions for replica in partition.replicas}


def test_nodes_join_and_leave_under_load(tmp_path: Path) -> None:
    require_java()
    ports = free_ports(8)
    addresses = {node_id: f"127.0.0.1:{ports[2 * node_id - 2]}" for node_id in (1, 2, 3, 4)}
    bootstrap = ",".join(addresses.values())
    kafka = {
        node_id: GrowingKafka(tmp_path / f"{node_id}", settings_of(node_id, ports), heap=HEAP) for node_id in (1, 4)
    }
    logs = {node_id: tmp_path / f"{node_id}.log" for node_id in addresses}
    load = None
    try:
        kafka[1].format()
        kafka[1].start()
        topic = create_topic(addresses[1], PARTITIONS, replicas=1)
        load = Load(bootstrap, topic)
        load.start()
        wait_until(lambda: len(load.acknowledged) > 100, "records are acknowledged")
        for node_id in (2, 3):
            file = tmp_path / f"{node_id}.properties"
            lines = {"log.dirs": str(tmp_path / f"{node_id}"), **settings_of(node_id, ports)}
            file.write_text("".join(f"{key}={value}\n" for key, value in lines.items()))
            start = shlex.join([*OTTLA, "node", "--config", str(file)])
            command = ["join", "-c", str(file), "-b", addresses[1], "--start", in_background(start, logs[node_id])]
            migrate(*command, log=logs[node_id])
        migrate("leave", "1", "-b", f"{addresses[1]},{addresses[2]}", "--stop", f"kill {kafka[1].pid}", log=logs[1])
        kafka[1].kill()
        assert brokers_of(addresses[2], topic) == ({2, 3}, {2, 3})
        now = len(load.acknowledged)
        wait_until(lambda: len(load.acknowledged) > now + 100, "it goes on without Apache Kafka")
        print(f"now Ottla; longest pause so far {load.longest_pause:.1f} s, {len(load.acknowledged)} acknowledged")
        # And back.
        kafka[4].write()
        command = ["join", "-c", str(kafka[4].properties_file), "-b", addresses[2], "--to", "kafka"]
        migrate(*command, "--start", in_background(shlex.join(kafka[4].command()), logs[4]), log=logs[4])
        for node_id in (2, 3):
            pid = pid_of(f"node --config {tmp_path}/{node_id}.properties")
            migrate("leave", str(node_id), "-b", f"{addresses[3]},{addresses[4]}", "--stop", f"kill {pid}", log=logs[4])
        load.end()
        print(f"Kafka again; longest pause {load.longest_pause:.1f} s, {len(load.acknowledged)} acknowledged")
        assert brokers_of(addresses[4], topic) == ({4}, {4})
        assert_exact(read_all(addresses[4], topic), load)
    finally:
        if load is not None:
            load.end()
        kafka[1].kill()
        subprocess.run(["pkill", "-KILL", "-f", str(tmp_path)], check=False)


def in_background(command: str, log: Path) -> str:
    return f"nohup {command} >> {log} 2>&1 &"
