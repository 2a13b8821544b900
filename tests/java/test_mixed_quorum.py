"""A quorum of both kinds: controllers of Apache Kafka and of Ottla elect each other and replicate each other's log."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ottla.host.local_cluster import HOST, free_ports
from ottla.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.wire.messages.metadata import MetadataRequest
from tests.integration.cluster_calls import wait_until
from tests.java.conftest import require_java
from tests.support.brokers import CLUSTER_ID, Broker, OttlaFromFile, QuickKafka
from tests.support.java import ToolServer
from tests.support.raw_client import RawClient

NODES = (1, 2, 3)


def settings(node_id: int, ports: list[int]) -> dict[str, str]:
    voters = ",".join(f"{node}@{HOST}:{ports[2 * node - 1]}" for node in NODES)
    listeners = f"PLAINTEXT://{HOST}:{ports[2 * node_id - 2]},CONTROLLER://{HOST}:{ports[2 * node_id - 1]}"
    return {
        "controller.quorum.voters": voters,
        "listeners": listeners,
        "advertised.listeners": f"PLAINTEXT://{HOST}:{ports[2 * node_id - 2]}",
    }


def formatted(directory: Path, node_id: int) -> Path:
    (directory / "log").mkdir(parents=True)
    directory_id = f"b3R0bGEtZGlyZWN0b3J5L{'AQgw'[node_id]}"
    identity = f"version=1\ncluster.id={CLUSTER_ID}\nnode.id={node_id}\ndirectory.id={directory_id}\n"
    (directory / "log" / "meta.properties").write_text(identity)
    return directory


def topics(address: str) -> set[str]:
    with RawClient(address) as client:
        return {topic.name for topic in client.call(MetadataRequest(topics=None), 9).topics}


def create(address: str, name: str) -> None:
    topic = CreatableTopic(name=name, num_partitions=1, replication_factor=2)
    with RawClient(address) as client:
        (answer,) = client.call(CreateTopicsRequest(topics=[topic], timeout_ms=20_000), 7).topics
    assert answer.error_code == 0, answer


def leader_id(java: ToolServer, bootstrap: str) -> int:
    text = java.run("MetadataQuorumCommand", "--bootstrap-server", bootstrap, "describe", "--status").stdout
    match = re.search(r"LeaderId:\s+(\d)", text)
    assert match is not None, text
    return int(match.group(1))


@pytest.mark.slow
@pytest.mark.faults
def test_leadership_passes_between_both_kinds(java: ToolServer, tmp_path: Path) -> None:
    require_java()
    ports = free_ports(6)
    addresses = {node_id: f"{HOST}:{ports[2 * node_id - 2]}" for node_id in NODES}
    kafka = QuickKafka(tmp_path / "1", settings(1, ports), node_id=1, heap="256m")
    kafka.prepare()
    kafka.begin_start()
    nodes: dict[int, Broker] = {1: kafka}
    try:
        for node_id in (2, 3):
            nodes[node_id] = OttlaFromFile(
                formatted(tmp_path / str(node_id), node_id), settings(node_id, ports), node_id=node_id
            )
            nodes[node_id].start()
        kafka.wait_until_started()
        create(addresses[2], "first")
        for address in addresses.values():
            wait_until(lambda address=address: "first" in topics(address), "every node knows the topic")
        # The leader is stopped until both kinds have led.
        led = {leader_id(java, addresses[2])}
        for round_number in range(4):
            leader = leader_id(java, ",".join(addresses.values()))
            led.add(leader)
            nodes[leader].kill()
            survivor = next(node_id for node_id in NODES if node_id != leader)
            create(addresses[survivor], f"round-{round_number}")
            nodes[leader].start()
            wait_until(lambda at=addresses[leader], name=f"round-{round_number}": name in topics(at), "it is back")
            if 1 in led and len(led) > 1:
                break
        assert led > {1}, f"only {led} have led"
        expected = topics(addresses[1])
        assert topics(addresses[2]) == topics(addresses[3]) == expected
    finally:
        for node in nodes.values():
            node.kill()
