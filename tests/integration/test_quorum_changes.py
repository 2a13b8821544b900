"""Controllers separate from brokers, formatted as users do it, in a quorum that changes while it runs (KIP-853)."""

from __future__ import annotations

import json
import random
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ottla.cli.app import run as run_command
from ottla.cli.commands.storage import storage
from ottla.host.local_cluster import HOST, free_ports
from ottla.model.ids import Uuid
from ottla.wire.messages import describe_quorum as d
from ottla.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from tests.integration.cluster_calls import wait_until
from tests.integration.test_cluster_roles import Processes, address_of
from tests.support.raw_client import RawClient

CONTROLLERS = (1, 2, 3)
BROKERS = (7, 8)


class Quorum:
    """Three controllers and two brokers, with a file and a directory per node."""

    def __init__(self, processes: Processes) -> None:
        self.processes = processes
        self.ports = dict(zip((*CONTROLLERS, 4), free_ports(4), strict=True))
        self.cluster_id = str(Uuid.random(random.SystemRandom()))
        self.running: dict[int, subprocess.Popen[str]] = {}
        self.address = ""

    @property
    def bootstrap(self) -> str:
        return ",".join(f"{HOST}:{self.ports[controller]}" for controller in CONTROLLERS)

    def properties(self, node_id: int, **overrides: str) -> dict[str, str]:
        listener = "PLAINTEXT://127.0.0.1:0"
        if node_id in self.ports:
            listener = f"CONTROLLER://{HOST}:{self.ports[node_id]}"
        return {
            "process_roles": "controller" if node_id in self.ports else "broker",
            "node_id": str(node_id),
            "listeners": listener,
            "controller_quorum_bootstrap_servers": self.bootstrap,
            **overrides,
        }

    def format(self, node_id: int, *flags: str) -> None:
        path = self.processes.write(str(node_id), **self.properties(node_id))
        assert storage(["format", "-t", self.cluster_id, "-c", str(path), *flags], standalone_mode=False) == 0

    def start(self, node_id: int, **overrides: str) -> None:
        self.running[node_id] = self.processes.start(str(node_id), **self.properties(node_id, **overrides))

    def kill(self, node_id: int) -> None:
        process = self.running.pop(node_id)
        process.kill()
        process.wait()

    def describe(self) -> Any:
        request = d.DescribeQuorumRequest(
            topics=[
                d.RequestTopicData(
                    topic_name="__cluster_metadata", partitions=[d.RequestPartitionData(partition_index=0)]
                )
            ]
        )
        with RawClient(self.address) as client:
            return client.call(request, 2)

    @property
    def leader_id(self) -> int:
        return int(self.describe().topics[0].partitions[0].leader_id)

    @property
    def voters(self) -> dict[int, Any]:
        """Replica states of the voters by node id."""
        return {
            current_voter.replica_id: current_voter
            for current_voter in self.describe().topics[0].partitions[0].current_voters
        }

    @property
    def voter_ports(self) -> dict[int, int]:
        return {node.node_id: node.listeners[0].port for node in self.describe().nodes}

    def create(self, name: str) -> None:
        topic = CreatableTopic(name=name, num_partitions=1, replication_factor=2)
        with RawClient(self.address) as client:
            (answer,) = client.call(CreateTopicsRequest(topics=[topic], timeout_ms=30_000), 7).topics
        assert answer.error_code == 0, answer


@pytest.fixture
def quorum(tmp_path: Path) -> Iterator[Quorum]:
    processes = Processes(tmp_path)
    made = Quorum(processes)
    directories = [str(Uuid.random(random.SystemRandom())) for _ in CONTROLLERS]
    voters = ",".join(
        f"{node_id}@{HOST}:{made.ports[node_id]}:{directory}"
        for node_id, directory in zip(CONTROLLERS, directories, strict=True)
    )
    try:
        for node_id in CONTROLLERS:
            made.format(node_id, "--initial-controllers", voters)
        for node_id in (*CONTROLLERS, *BROKERS):
            made.start(node_id)
        for process in made.running.values():
            made.address = address_of(process)
        yield made
    finally:
        processes.end()


def test_controllers_of_their_own_replace_each_other(quorum: Quorum) -> None:
    assert set(quorum.voters) == set(CONTROLLERS)
    quorum.create("before")
    first = quorum.leader_id
    quorum.kill(first)
    quorum.create("after")
    assert quorum.leader_id != first
    quorum.start(first)
    wait_until(lambda: quorum.voters[first].log_end_offset == quorum.voters[quorum.leader_id].log_end_offset, "is back")


def test_a_new_controller_joins_by_itself_where_it_may(quorum: Quorum) -> None:
    quorum.format(4, "--no-initial-controllers")
    quorum.start(4, controller_quorum_auto_join_enable="true", controller_quorum_fetch_timeout_ms="500")
    wait_until(lambda: set(quorum.voters) == {1, 2, 3, 4}, "it votes")
    quorum.create("with-four")


def test_a_voter_that_moved_tells_where_it_is_now(quorum: Quorum) -> None:
    moving = next(controller for controller in CONTROLLERS if controller != quorum.leader_id)
    quorum.kill(moving)
    (quorum.ports[moving],) = free_ports(1)
    quorum.start(moving, controller_quorum_fetch_timeout_ms="500")
    wait_until(lambda: quorum.voter_ports.get(moving) == quorum.ports[moving], "the others know its new address")
    # The other voters need the new address: without the moved voter there is no majority.
    quorum.kill(quorum.leader_id)
    quorum.create("afterwards")


def test_a_controller_is_added_and_removed_with_the_command(quorum: Quorum, capsys: pytest.CaptureFixture[str]) -> None:
    quorum.format(4, "--no-initial-controllers")
    quorum.start(4, controller_quorum_fetch_timeout_ms="500")
    path = str(quorum.processes.write("4", **quorum.properties(4)))
    through_broker, through_controller = ["-b", quorum.address], ["--bootstrap-controller", quorum.bootstrap]
    assert run_command(["quorum", "add-controller", "-c", path, "--dry-run", *through_broker]) == 0
    assert set(quorum.voters) == {1, 2, 3}
    # Kafka's form of the command: the address comes first, and the file option has another name.
    wait_until(
        lambda: run_command(["quorum", *through_broker, "--command-config", path, "add-controller"]) == 0, "is in"
    )
    assert set(quorum.voters) == {1, 2, 3, 4}
    capsys.readouterr()
    assert run_command(["quorum", "describe", "--replication", "--json", *through_controller]) == 0
    replicas = {replica["nodeId"]: replica for replica in json.loads(capsys.readouterr().out)}
    assert {4, *CONTROLLERS} == {node_id for node_id, replica in replicas.items() if replica["status"] != "observer"}
    removing = ["quorum", "remove-controller", "--controller-id", "4", *through_controller]
    assert run_command(removing) == 1
    assert "--yes" in capsys.readouterr().err
    assert run_command([*removing, "--controller-directory-id", replicas[3]["directoryId"], "--yes"]) == 1
    assert run_command([*removing, "--controller-directory-id", replicas[4]["directoryId"], "--yes"]) == 0
    assert set(quorum.voters) == {1, 2, 3}
