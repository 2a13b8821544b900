"""Real faults under a real client, a few seconds of each; `tests/faults` has the long versions."""

from __future__ import annotations

import os
import resource
import signal
from collections.abc import Iterator

import pytest

import ottla.testing
from tests.integration.cluster_calls import broker_ids, create_topic
from tests.support.fault_workload import (
    FAULT_SETTINGS,
    NativeWriter,
    check,
    controller_of,
    in_sync,
    leader_of,
    wait_in_sync,
    wait_until,
)

ALL = [1, 2, 3]


@pytest.fixture(scope="module")
def nodes() -> Iterator[ottla.testing.Cluster]:
    with ottla.testing.cluster(nodes=3, settings=FAULT_SETTINGS) as cluster:
        for node in cluster.nodes:
            wait_until(lambda node=node: broker_ids(node) == ALL, "every node knows all three")
        yield cluster


def others(nodes: ottla.testing.Cluster) -> tuple[int, int, int]:
    """A node that may be lost, another one, and the active controller."""
    controller, _ = controller_of(nodes)
    first, second = [node_id for node_id in ALL if node_id != controller]
    return first, second, controller


def test_a_frozen_leader_comes_back_and_is_fenced(nodes: ottla.testing.Cluster) -> None:
    topic = "frozen"
    victim, other, controller = others(nodes)
    create_topic(nodes.node(controller), topic, assignments={0: [victim, other, controller]})
    survivors = ",".join(nodes.node(node_id).address for node_id in (other, controller))
    with NativeWriter(nodes.bootstrap, topic, 1) as writer:
        writer.wait_for(200)
        os.kill(nodes.node(victim).pid, signal.SIGSTOP)
        try:
            wait_until(lambda: leader_of(survivors, topic) not in (-1, victim), "another one leads")
            writer.wait_for(200)
        finally:
            # What it had received before and finds now, it may not acknowledge: others lead, and it has to hear of it.
            os.kill(nodes.node(victim).pid, signal.SIGCONT)
        wait_in_sync(nodes.bootstrap, topic, ALL)
        writer.wait_for(200)
    check(nodes.bootstrap, topic, writer)


def test_a_full_disk_of_a_follower_and_of_a_leader(nodes: ottla.testing.Cluster) -> None:
    topic = "full"
    victim, other, controller = others(nodes)
    # Small segments: what may not grow is one of them, not the logs of everything else.
    create_topic(nodes.node(controller), topic, assignments={0: [other, victim, controller]})
    with NativeWriter(nodes.bootstrap, topic, 1) as writer:
        writer.wait_for(200)
        for node_id in (victim, other):
            pid = nodes.node(node_id).pid
            # To the node, a file that may not grow is a full disk.
            before = resource.prlimit(pid, resource.RLIMIT_FSIZE)
            log = nodes.node(node_id).directory / "data" / f"{topic}-0" / f"{0:020}.log"
            resource.prlimit(pid, resource.RLIMIT_FSIZE, (log.stat().st_size + 20_000, before[1]))
            try:
                if node_id == victim:
                    # The follower falls behind and out; producers go on with the other two.
                    wait_until(lambda: node_id not in in_sync(nodes.bootstrap, topic), "the follower is left out")  # noqa: B023
                    writer.wait_for(200)
                else:
                    wait_until(lambda: "No room to append" in nodes.node(other).output, "the leader is full")
            finally:
                resource.prlimit(pid, resource.RLIMIT_FSIZE, before)
            writer.wait_for(200)
            wait_in_sync(nodes.bootstrap, topic, ALL)
    check(nodes.bootstrap, topic, writer)
