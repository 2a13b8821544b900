"""Real faults under a real client, a few seconds of each; `tests/faults` has the long versions."""

from __future__ import annotations

import contextlib
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
    only_the_leader_has_more,
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
    """The two nodes that are not the active controller, and the active controller."""
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
        with only_the_leader_has_more(nodes, topic, victim):
            os.kill(nodes.node(victim).pid, signal.SIGSTOP)
        try:
            wait_until(lambda: leader_of(survivors, topic) not in (-1, victim), "another one leads")
            writer.wait_for(200)
        finally:
            # The resumed leader must not acknowledge requests from before the freeze: another broker leads now.
            os.kill(nodes.node(victim).pid, signal.SIGCONT)
        wait_in_sync(nodes.bootstrap, topic, ALL)
        writer.wait_for(200)
    check(nodes.bootstrap, topic, writer)


@contextlib.contextmanager
def full_disk(node: ottla.testing.Node, topic: str) -> Iterator[None]:
    """Limits the size of files, which looks like a full disk to the node."""
    before = resource.prlimit(node.pid, resource.RLIMIT_FSIZE)
    log = node.directory / "data" / f"{topic}-0" / f"{0:020}.log"
    resource.prlimit(node.pid, resource.RLIMIT_FSIZE, (log.stat().st_size + 20_000, before[1]))
    try:
        yield
    finally:
        resource.prlimit(node.pid, resource.RLIMIT_FSIZE, before)


def test_a_full_disk_of_a_follower_and_of_a_leader(nodes: ottla.testing.Cluster) -> None:
    topic = "full"
    follower, leader, controller = others(nodes)
    create_topic(nodes.node(controller), topic, assignments={0: [leader, follower, controller]})
    survivors = ",".join(nodes.node(node_id).address for node_id in (follower, controller))
    with NativeWriter(nodes.bootstrap, topic, 1) as writer:
        writer.wait_for(200)
        with full_disk(nodes.node(follower), topic):
            # The follower leaves the in-sync set; producers continue with the other two replicas.
            wait_until(lambda: follower not in in_sync(nodes.bootstrap, topic), "the follower is left out")
            writer.wait_for(200)
        wait_in_sync(nodes.bootstrap, topic, ALL)
        with full_disk(nodes.node(leader), topic):
            wait_until(lambda: "No room to append" in nodes.node(leader).output, "the leader is full")
        with only_the_leader_has_more(nodes, topic, leader):
            # The leader has room again and appends the refused records, and is then killed.
            nodes.node(leader).kill()
        wait_until(lambda: leader_of(survivors, topic) not in (-1, leader), "another one leads")
        writer.wait_for(200)
        nodes.node(leader).start()
        wait_in_sync(nodes.bootstrap, topic, ALL)
    check(nodes.bootstrap, topic, writer)
