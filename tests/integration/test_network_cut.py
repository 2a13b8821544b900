"""The network between nodes is cut while clients reach all nodes: a node that is cut off must not acknowledge."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from tests.support.fault_workload import FAULT_SETTINGS, NativeWriter, check, leader_of, wait_in_sync, wait_until
from tests.support.network_cut import NetworkCluster, network_cluster, unavailable_reason

ALL = [1, 2, 3]


@pytest.fixture(scope="module")
def nodes() -> Iterator[NetworkCluster]:
    if reason := unavailable_reason():
        pytest.skip(f"cutting the network: {reason}")
    with network_cluster(nodes=3, settings=FAULT_SETTINGS) as cluster:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
        wait_until(lambda: sorted(admin.list_topics(timeout=30).brokers) == ALL, "all three are there")
        yield cluster


def create(nodes: NetworkCluster, topic: str, *replicas: list[int]) -> None:
    admin = AdminClient({"bootstrap.servers": nodes.bootstrap, "log_level": 0})
    admin.create_topics([NewTopic(topic, len(replicas), replica_assignment=list(replicas))])[topic].result(20)
    wait_in_sync(nodes.bootstrap, topic, ALL)


def test_a_leader_that_is_cut_off_is_replaced_and_comes_back(nodes: NetworkCluster) -> None:
    topic = "cut-off"
    # The client also writes to the other nodes: a leader that is cut off does not know that it was replaced, and a
    # client that only talks to this leader never learns of it.
    create(nodes, topic, [2, 3, 1], [3, 1, 2], [1, 2, 3])
    with NativeWriter(nodes.bootstrap, topic, 3) as writer:
        writer.wait_for(200, partition=0)
        with nodes.cut((2, 1), (2, 3)):
            wait_until(lambda: leader_of(nodes.addresses([1, 3]), topic) == 3, "another one leads")
            writer.wait_for(200, partition=0)
        wait_in_sync(nodes.addresses([1, 3]), topic, ALL)
        writer.wait_for(200, partition=0)
    check(nodes.addresses([1, 3]), topic, writer)


def test_followers_that_cannot_reach_their_leader_leave_and_come_back(nodes: NetworkCluster) -> None:
    """The controller sees all brokers alive, so the leader must notice the lost followers."""
    topic = "apart"
    create(nodes, topic, [2, 1, 3])
    with NativeWriter(nodes.bootstrap, topic, 1) as writer:
        writer.wait_for(200)
        with nodes.cut((2, 3)):
            wait_in_sync(nodes.addresses([1]), topic, [1, 2])
            writer.wait_for(200)
        wait_in_sync(nodes.addresses([1]), topic, ALL)
        writer.wait_for(200)
    check(nodes.addresses([1, 2]), topic, writer)
