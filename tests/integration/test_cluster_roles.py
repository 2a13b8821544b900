"""Nodes from properties files as users write them: a separate controller, and brokers that find it by name."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

import ottla.testing
from ottla.host.local_cluster import free_ports
from ottla.testing.clusters import node_environment
from tests.integration.cluster_calls import wait_until

START_SECONDS_MAX = 60.0


class Processes:
    """Runs `ottla node --config` for every file; all processes end with the test."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.running: list[subprocess.Popen[str]] = []

    def write(self, name: str, **properties: object) -> Path:
        path = self.directory / f"{name}.properties"
        lines = [f"{key.replace('_', '.')}={value}" for key, value in properties.items()]
        lines += ["controller.listener.names=CONTROLLER", f"log.dirs={self.directory / name}"]
        path.write_text("\n".join(lines))
        return path

    def start(self, name: str, **properties: object) -> subprocess.Popen[str]:
        path = self.write(name, **properties)
        process = subprocess.Popen(
            [sys.executable, "-m", "ottla.cli.main", "node", "--config", str(path)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=node_environment(),
        )
        self.running.append(process)
        return process

    def end(self) -> None:
        for process in self.running:
            process.kill()
            process.wait()
            assert process.stdout is not None
            process.stdout.close()


@pytest.fixture
def processes(tmp_path: Path) -> Iterator[Processes]:
    started = Processes(tmp_path)
    try:
        yield started
    finally:
        started.end()


def address_of(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line.startswith("ready "), line
    return line.split()[1]


def test_a_controller_of_its_own_and_brokers_that_find_it_by_name(processes: Processes) -> None:
    (port,) = free_ports(1)
    brokers = [
        processes.start(
            f"broker-{node_id}",
            process_roles="broker",
            node_id=node_id,
            listeners="PLAINTEXT://127.0.0.1:0",
            controller_quorum_bootstrap_servers=f"localhost:{port}",
            broker_rack=f"rack-{node_id}",
        )
        for node_id in (7, 8)
    ]
    # The brokers were started first, and wait for the controller.
    controller = processes.start(
        "controller",
        process_roles="controller",
        node_id=100,
        listeners=f"CONTROLLER://127.0.0.1:{port}",
        controller_quorum_voters=f"100@127.0.0.1:{port}",
        num_partitions=3,
        default_replication_factor=2,
    )
    assert address_of(controller) == f"127.0.0.1:{port}"
    addresses = [address_of(broker) for broker in brokers]
    admin = AdminClient({"bootstrap.servers": addresses[1]})
    admin.create_topics([NewTopic("orders", 2, 2)])["orders"].result(30)
    # The controller has created the topic; this broker replays the change a moment later.
    wait_until(lambda: "orders" in admin.list_topics(timeout=30).topics, "the topic is known")
    metadata = admin.list_topics(timeout=30)
    assert {broker.id: f"{broker.host}:{broker.port}" for broker in metadata.brokers.values()} == {
        7: addresses[0],
        8: addresses[1],
    }
    assert {tuple(sorted(partition.replicas)) for partition in metadata.topics["orders"].partitions.values()} == {
        (7, 8)
    }
    check_automatic_creation(addresses[0])
    for process in (*brokers, controller):
        process.terminate()
        assert process.wait(START_SECONDS_MAX) == 0


def check_automatic_creation(address: str) -> None:
    """A broker without its own defaults uses the controller's, as in Apache Kafka."""
    client = AdminClient({"bootstrap.servers": address, "allow.auto.create.topics": True})
    wait_until(lambda: client.list_topics("automatic", timeout=30).topics["automatic"].partitions, "it is created")
    partitions = client.list_topics("automatic", timeout=30).topics["automatic"].partitions.values()
    assert [sorted(partition.replicas) for partition in partitions] == [[7, 8]] * 3


@pytest.mark.parametrize(
    ("limit", "sentence"),
    [
        (
            "initial.broker.registration.timeout.ms=300",
            "The controller at 127.0.0.1:{port} could not be reached within 300 ms.",
        ),
        ("server.max.startup.time.ms=200", "The node was not ready within server.max.startup.time.ms, 200 ms."),
    ],
)
def test_a_broker_whose_controller_never_comes_gives_up_with_one_sentence(
    tmp_path: Path, limit: str, sentence: str
) -> None:
    (port,) = free_ports(1)
    path = tmp_path / "alone.properties"
    path.write_text(
        "process.roles=broker\nnode.id=7\nlisteners=PLAINTEXT://127.0.0.1:0\ncontroller.listener.names=CONTROLLER\n"
        f"controller.quorum.voters=1@127.0.0.1:{port}\nlog.dirs={tmp_path / 'data'}\n{limit}\n"
    )
    command = [sys.executable, "-m", "ottla.cli.main", "node", "--config", str(path)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=START_SECONDS_MAX, check=False)
    assert ended.returncode == 1
    assert f"ottla: {sentence.format(port=port)}" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_a_start_in_time_is_not_given_up() -> None:
    with ottla.testing.cluster(settings={"server.max.startup.time.ms": "600000"}) as cluster:
        assert cluster.node(1).running
