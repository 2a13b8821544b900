"""Clusters with nodes of Apache Kafka and of Ottla: a node of one kind joins a controller of the other kind."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic

from tests.integration.cluster_calls import wait_until
from tests.java.conftest import require_java
from tests.support.brokers import CLUSTER_ID, Broker, OttlaFromFile, QuickKafka, free_ports

KINDS: dict[str, Callable[..., Broker]] = {"kafka": QuickKafka, "ottla": OttlaFromFile}


def formatted(directory: Path) -> Path:
    """A node's directory whose storage belongs to the cluster that Apache Kafka is formatted for."""
    (directory / "log").mkdir(parents=True)
    text = f"version=1\ncluster.id={CLUSTER_ID}\nnode.id=1\ndirectory.id=b3R0bGEtZGlyZWN0b3J5LQ\n"
    (directory / "log" / "meta.properties").write_text(text)
    return directory


def joining(controller: Broker) -> dict[str, str]:
    """The settings of a broker without the controller role."""
    properties = (controller.directory / "server.properties").read_text()
    match = re.search(r"^controller\.quorum\.voters=(.+)$", properties, re.MULTILINE)
    assert match is not None
    (port,) = free_ports(1)
    return {
        "process.roles": "broker",
        "controller.quorum.voters": match.group(1),
        "listeners": f"PLAINTEXT://127.0.0.1:{port}",
        "broker.rack": "second",
    }


def seen(bootstrap: str, topic: str) -> tuple[list[int], dict[int, Any]]:
    """Brokers, and the leader and replicas of each partition, from the metadata of a client."""
    metadata = AdminClient({"bootstrap.servers": bootstrap}).list_topics(topic, timeout=30)
    partitions = metadata.topics[topic].partitions
    return sorted(metadata.brokers), {
        number: (partition.leader, partition.replicas) for number, partition in partitions.items()
    }


@pytest.mark.slow
@pytest.mark.parametrize(("controller", "other"), [("kafka", "ottla"), ("ottla", "kafka")])
def test_a_broker_of_the_other_kind_joins_works_and_leaves(tmp_path: Path, controller: str, other: str) -> None:
    require_java()
    first_directory = tmp_path / "first"
    if controller == "ottla":
        formatted(first_directory)
    with KINDS[controller](first_directory, node_id=1) as first:
        second = KINDS[other](tmp_path / "second", joining(first), node_id=2)
        second.start()
        try:
            listeners = second.settings["listeners"]
            own = listeners.partition("://")[2]
            wait_until(lambda: seen(own, "none")[0] == [1, 2], "both are in the cluster")
            admin = AdminClient({"bootstrap.servers": own})
            admin.create_topics([NewTopic("both", 2, 2, config={"retention.ms": "-1"})])["both"].result(30)
            change = ConfigEntry("retention.ms", "7777", incremental_operation=AlterConfigOpType.SET)
            resource = ConfigResource(ConfigResource.Type.TOPIC, "both", incremental_configs=[change])
            admin.incremental_alter_configs([resource])[resource].result(30)
            for bootstrap in (first.bootstrap, own):
                # Repeated, because a client may ask either broker, and one of them may be behind.
                wait_until(
                    lambda address=bootstrap: (
                        sorted((leader, *sorted(replicas)) for leader, replicas in seen(address, "both")[1].values())
                        == [(1, 1, 2), (2, 1, 2)]
                    ),
                    "the topic is known, and each leads a partition",
                )
        finally:
            second.stop()
        wait_until(lambda: seen(first.bootstrap, "both")[0] == [1], "the second has left")
        wait_until(
            lambda: {leader for leader, _ in seen(first.bootstrap, "both")[1].values()} == {1},
            "the first leads everything",
        )
