"""Frozen nodes, full disks and a cut network, one after the other for FAULTS_SECONDS."""

from __future__ import annotations

import os
import random
import resource
import signal
import time
from collections.abc import Iterator

import pytest

import ottla.testing
from tests.integration.cluster_calls import broker_ids, create_topic
from tests.integration.test_network_cut import create
from tests.support.fault_workload import (
    FAULT_SETTINGS,
    NativeWriter,
    check,
    controller_of,
    leader_of,
    wait_in_sync,
    wait_until,
)
from tests.support.network_cut import network_cluster, unavailable_reason

# The directory keeps the logs of the nodes if a test fails.
pytestmark = [pytest.mark.faults, pytest.mark.usefixtures("tmp_path")]

ALL = [1, 2, 3]
PARTITIONS = 6
SESSION_SECONDS = int(FAULT_SETTINGS["broker.session.timeout.ms"]) / 1000


@pytest.fixture
def nodes() -> Iterator[ottla.testing.Cluster]:
    with ottla.testing.cluster(nodes=3, controllers=3, settings=FAULT_SETTINGS) as cluster:
        for node in cluster.nodes:
            wait_until(lambda node=node: broker_ids(node) == ALL, "every node knows all three")
        yield cluster


def until(seconds: float, seed: int) -> Iterator[random.Random]:
    """Rounds, with the same choices in every run with the same seed."""
    chosen = random.Random(seed)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        yield chosen


def test_frozen_nodes(nodes: ottla.testing.Cluster, faults_seconds: float, faults_seed: int) -> None:
    topic = "frozen"
    create_topic(nodes.node(controller_of(nodes)[0]), topic, partitions=PARTITIONS, replication_factor=3)
    with NativeWriter(nodes.bootstrap, topic, PARTITIONS) as writer:
        for number, chosen in enumerate(until(faults_seconds, faults_seed)):
            writer.wait_for(200)
            # The victim is the active controller, a leader, or any node, each in at least a third of the rounds.
            leader = leader_of(nodes.bootstrap, topic, chosen.randrange(PARTITIONS))
            victims = [controller_of(nodes)[0], leader, chosen.choice(ALL)]
            pid = nodes.node(victims[number % len(victims)]).pid
            os.kill(pid, signal.SIGSTOP)
            try:
                # The pause may be shorter or longer than a session.
                time.sleep(chosen.uniform(0.1, 2 * SESSION_SECONDS))
            finally:
                os.kill(pid, signal.SIGCONT)
            wait_in_sync(nodes.bootstrap, topic, ALL)
    check(nodes.bootstrap, topic, writer)


def test_full_disks(nodes: ottla.testing.Cluster, faults_seconds: float, faults_seed: int) -> None:
    topic = "full"
    create_topic(nodes.node(controller_of(nodes)[0]), topic, partitions=PARTITIONS, replication_factor=3)
    with NativeWriter(nodes.bootstrap, topic, PARTITIONS) as writer:
        for chosen in until(faults_seconds, faults_seed):
            writer.wait_for(200)
            node = nodes.node(chosen.choice(ALL))
            before = resource.prlimit(node.pid, resource.RLIMIT_FSIZE)
            logs = (node.directory / "data").glob(f"{topic}-*/*.log")
            size = max(log.stat().st_size for log in logs) + chosen.randrange(50_000)
            resource.prlimit(node.pid, resource.RLIMIT_FSIZE, (size, before[1]))
            try:
                time.sleep(chosen.uniform(0.1, 4.0))
            finally:
                resource.prlimit(node.pid, resource.RLIMIT_FSIZE, before)
            wait_in_sync(nodes.bootstrap, topic, ALL)
    check(nodes.bootstrap, topic, writer)


def test_a_network_that_is_cut(faults_seconds: float, faults_seed: int) -> None:
    if reason := unavailable_reason():
        pytest.skip(f"cutting the network: {reason}")
    topic = "cut"
    with network_cluster(nodes=3, controllers=3, settings=FAULT_SETTINGS) as nodes:
        create(nodes, topic, *([[2, 3, 1], [3, 1, 2], [1, 2, 3]] * 2))
        with NativeWriter(nodes.bootstrap, topic, PARTITIONS) as writer:
            for chosen in until(faults_seconds, faults_seed):
                writer.wait_for(200)
                pairs = chosen.choice(
                    [[(1, 2), (1, 3)], [(2, 1), (2, 3)], [(3, 1), (3, 2)], [(2, 3)], [(1, 2)], [(1, 3)]]
                )
                with nodes.cut(*pairs):
                    time.sleep(chosen.uniform(0.1, 3 * SESSION_SECONDS))
                wait_in_sync(nodes.addresses([1]), topic, ALL)
        check(nodes.bootstrap, topic, writer)
