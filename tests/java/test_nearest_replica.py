"""Kafka's own consumer reads from the follower in its rack (KIP-392), as its metrics show."""

from __future__ import annotations

import re
from pathlib import Path

import ottla.testing
from tests.integration.cluster_calls import broker_ids, create_topic, wait_until
from tests.support.java import ToolServer

SELECTOR = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
TOPIC = "near"


def test_the_consumer_reads_from_the_follower_of_its_rack(java: ToolServer, tmp_path: Path) -> None:
    racks = {node_id: {"broker.rack": f"rack-{node_id}"} for node_id in (1, 2)}
    with ottla.testing.cluster(nodes=2, settings={"replica.selector.class": SELECTOR}, node_settings=racks) as nodes:
        wait_until(lambda: broker_ids(nodes.node(1)) == [1, 2], "both are there")
        create_topic(nodes.node(1), TOPIC, assignments={0: [1, 2]})
        produced = java.run(
            "ProducerPerformance",
            *("--topic", TOPIC, "--num-records", 2_000, "--record-size", 1_000, "--throughput", -1),
            *("--command-property", "acks=all", "--bootstrap-server", nodes.bootstrap),
        )
        assert produced.status == 0, produced.stdout + produced.stderr
        settings = tmp_path / "consumer.properties"
        settings.write_text("client.rack=rack-2\nmax.partition.fetch.bytes=100000\n")
        read = java.run(
            "ConsumerPerformance",
            *("--topic", TOPIC, "--num-records", 2_000, "--bootstrap-server", nodes.bootstrap),
            *("--command-config", settings, "--print-metrics", "--timeout", 60_000),
        )
        assert read.status == 0, read.stdout + read.stderr
        # Two megabytes came from the follower, and nothing to speak of from the leader.
        assert received(read.stdout, 2) > 2_000_000
        assert received(read.stdout, 1) < 10_000


def received(metrics: str, node_id: int) -> float:
    """The number of bytes that the consumer received from a node."""
    match = re.search(rf"incoming-byte-total:\{{[^}}]*node-id=node-{node_id}\}}\s*: ([0-9.]+)", metrics)
    assert match is not None, metrics
    return float(match[1])
