"""librdkafka and Java producers, acks=all and idempotence, through restarts and kills: nothing lost, nothing twice."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

import ottla.testing
from tests.integration.cluster_calls import broker_ids, create_topic
from tests.support.fault_workload import (
    FAULT_SETTINGS,
    JavaWriter,
    NativeWriter,
    Writer,
    check,
    controller_of,
    leader_of,
    wait_in_sync,
    wait_until,
)
from tests.support.java import unavailable_reason

# The directory keeps the logs of the nodes if a test fails.
pytestmark = [pytest.mark.faults, pytest.mark.usefixtures("tmp_path")]

ALL = [1, 2, 3]
# The promised number of rounds; the test runs for FAULTS_SECONDS if that is longer.
ROUNDS = 20
PARTITIONS = 6


@pytest.fixture
def nodes() -> Iterator[ottla.testing.Cluster]:
    with ottla.testing.cluster(nodes=3, controllers=3, settings=FAULT_SETTINGS) as cluster:
        for node in cluster.nodes:
            wait_until(lambda node=node: broker_ids(node) == ALL, "every node knows all three")
        yield cluster


@pytest.fixture
def writers(nodes: ottla.testing.Cluster, tmp_path: Path) -> Iterator[dict[str, Writer]]:
    """One writer of each kind, by topic."""
    controller, _ = controller_of(nodes)
    with ExitStack() as stack:
        writers_by_topic: dict[str, Writer] = {}
        for topic in ("native", "java"):
            create_topic(nodes.node(controller), topic, partitions=PARTITIONS, replication_factor=3)
            wait_in_sync(nodes.bootstrap, topic, ALL)
        writers_by_topic["native"] = stack.enter_context(NativeWriter(nodes.bootstrap, "native", PARTITIONS))
        if unavailable_reason() is None:
            writers_by_topic["java"] = stack.enter_context(JavaWriter(nodes.bootstrap, "java", tmp_path))
        yield writers_by_topic


def rounds(seconds: float) -> Iterator[int]:
    end = time.monotonic() + seconds
    number = 0
    while number < ROUNDS or time.monotonic() < end:
        yield number
        number += 1


def settle(nodes: ottla.testing.Cluster, writers: dict[str, Writer]) -> None:
    for topic, writer in writers.items():
        wait_in_sync(nodes.bootstrap, topic, ALL)
        writer.wait_for(100)


def check_all(nodes: ottla.testing.Cluster, writers: dict[str, Writer]) -> None:
    for topic, writer in writers.items():
        writer.stop()
        check(nodes.bootstrap, topic, writer)


def test_rolling_restarts(nodes: ottla.testing.Cluster, writers: dict[str, Writer], faults_seconds: float) -> None:
    settle(nodes, writers)
    for _ in rounds(faults_seconds):
        for node in nodes.nodes:
            node.stop()
            node.start()
            settle(nodes, writers)
    check_all(nodes, writers)


def test_leader_kills(nodes: ottla.testing.Cluster, writers: dict[str, Writer], faults_seconds: float) -> None:
    settle(nodes, writers)
    for number in rounds(faults_seconds):
        controller, voters = controller_of(nodes)
        # No other controller can take over from the only one.
        spared = {controller} if voters == 1 else set()
        topic = list(writers)[number % len(writers)]
        leaders = [leader_of(nodes.bootstrap, topic, partition) for partition in range(PARTITIONS)]
        victim = next((leader for leader in leaders[number % PARTITIONS :] + leaders if leader not in spared), 0)
        if not victim:
            # All leaders are on the spared node: a restart of that node moves them to other nodes.
            nodes.node(controller).stop()
            nodes.node(controller).start()
            settle(nodes, writers)
            continue
        nodes.node(victim).kill()
        for writer in writers.values():
            writer.wait_for(100)
        nodes.node(victim).start()
        settle(nodes, writers)
    check_all(nodes, writers)
