"""kafka-metadata-quorum and kafka-features on quorums of several controllers."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import ottla.testing
from ottla.host.local_cluster import HOST, free_ports
from tests.integration.cluster_calls import wait_until
from tests.support.brokers import OttlaFromFile
from tests.support.java import ToolServer

# A busy machine must not cause elections here.
CALM = {"controller.quorum.request.timeout.ms": "10000", "controller.quorum.fetch.timeout.ms": "10000"}


@pytest.fixture(scope="module")
def three() -> Iterator[ottla.testing.Cluster]:
    with ottla.testing.cluster(nodes=3, controllers=3, settings=CALM) as running:
        yield running


def quorum(java: ToolServer, bootstrap: str, *words: str, status: int = 0) -> str:
    result = java.run("MetadataQuorumCommand", "--bootstrap-server", bootstrap, *words)
    assert result.status == status, result.stdout + result.stderr
    return result.stdout + result.stderr


def replication(text: str) -> dict[int, list[str]]:
    """Node id -> the columns of its line."""
    rows = [line.split() for line in text.splitlines()]
    return {int(row[0]): row for row in rows if row and row[0].isdecimal()}


def test_status_and_replication_are_described(java: ToolServer, three: ottla.testing.Cluster) -> None:
    status = quorum(java, three.bootstrap, "describe", "--status")
    leader = re.search(r"LeaderId:\s+(\d)", status)
    assert leader is not None
    assert int(leader.group(1)) in (1, 2, 3)
    assert len(re.findall(r'"id": [123]', status)) == 3
    rows: dict[int, list[str]] = {}

    def are_close() -> bool:
        rows.update(replication(quorum(java, three.bootstrap, "describe", "--replication")))
        return all(int(row[3]) <= 5 for row in rows.values())

    # A busy machine may hold a follower up for a moment.
    wait_until(are_close, "no voter lags")
    assert sorted(rows) == [1, 2, 3]
    assert sorted(row[-1] for row in rows.values()) == ["Follower", "Follower", "Leader"]
    assert rows[int(leader.group(1))][-1] == "Leader"


def test_a_quorum_given_by_configuration_goes_over_to_one_that_can_change(
    java: ToolServer, three: ottla.testing.Cluster
) -> None:
    refused = quorum(java, three.bootstrap, "remove-controller", "--controller-id", "3", "--controller-directory-id",
                     "AAAAAAAAAAAAAAAAAAAAAQ", status=1)  # fmt: skip
    assert "UnsupportedVersionException" in refused
    upgraded = java.run("FeatureCommand", "--bootstrap-server", three.bootstrap, "upgrade", "--release-version", "4.3")
    assert upgraded.status == 0, upgraded.stdout + upgraded.stderr
    describe = ("FeatureCommand", "--bootstrap-server", three.bootstrap, "describe")
    # Any node may answer the request, and the nodes learn of the change at different times.
    wait_until(
        lambda: bool(re.search(r"Feature: kraft.version\s.*FinalizedVersionLevel: 1", java.run(*describe).stdout)),
        "the quorum can change",
    )
    status = quorum(java, three.bootstrap, "describe", "--status")
    directories = dict(re.findall(r'"id": (\d), "directoryId": "?([\w-]+)', status))
    assert sorted(directories) == ["1", "2", "3"]
    leader = re.search(r"LeaderId:\s+(\d)", status)
    assert leader is not None
    removed_id = next(directory for directory in directories if directory != leader.group(1))
    quorum(java, three.bootstrap, "remove-controller", "--controller-id", removed_id, "--controller-directory-id",
           directories[removed_id])  # fmt: skip
    described = ("describe", "--replication")
    wait_until(
        lambda: replication(quorum(java, three.bootstrap, *described)).get(int(removed_id), [""])[-1] == "Observer",
        "it observes",
    )


def test_a_controller_is_added_to_one_that_began_alone(java: ToolServer, tmp_path: Path) -> None:
    ports = free_ports(4)
    bootstrap = f"{HOST}:{ports[0]}"

    def settings(number: int) -> dict[str, str]:
        port, controller_port = ports[2 * number : 2 * number + 2]
        return {
            "controller.quorum.voters": "",
            "controller.quorum.bootstrap.servers": f"{HOST}:{ports[1]}",
            "listeners": f"PLAINTEXT://{HOST}:{port},CONTROLLER://{HOST}:{controller_port}",
        }

    with OttlaFromFile(tmp_path / "first", settings(0), node_id=1):
        second = OttlaFromFile(tmp_path / "second", settings(1), node_id=2)
        second.start()
        try:
            rows = replication(quorum(java, bootstrap, "describe", "--replication"))
            assert {number: row[-1] for number, row in rows.items()} == {1: "Leader", 2: "Observer"}
            config = second.directory / "server.properties"
            added = java.run(
                "MetadataQuorumCommand",
                "--command-config",
                str(config),
                "--bootstrap-controller",
                f"{HOST}:{ports[1]}",
                "add-controller",
            )
            assert added.status == 0, added.stdout + added.stderr
            wait_until(
                lambda: replication(quorum(java, bootstrap, "describe", "--replication"))[2][-1] == "Follower",
                "it votes",
            )
        finally:
            second.stop()
