"""Nodes of a cluster stop and start: in order, by a crash, and while the controller is away."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import ottla.testing
from ottla.model.errors import ErrorCode
from ottla.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from ottla.wire.messages.describe_cluster import DescribeClusterRequest
from ottla.wire.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from ottla.wire.messages.unregister_broker import UnregisterBrokerRequest
from tests.integration.cluster_calls import ask, broker_ids, create_topic, partitions_of, wait_until

# Long enough that only a node stopped by the test misses its session, even on a busy machine.
SETTINGS = {"broker.session.timeout.ms": "3000", "broker.heartbeat.interval.ms": "100"}


@pytest.fixture
def nodes() -> Iterator[ottla.testing.Cluster]:
    with ottla.testing.cluster(nodes=3, controllers=1, settings=SETTINGS) as cluster:
        for node in cluster.nodes:
            wait_until(lambda node=node: broker_ids(node) == [1, 2, 3], "every node knows all three")
        yield cluster


def leader_and_isr(node: ottla.testing.Node, topic: str) -> tuple[int, set[int]]:
    partition: Any = partitions_of(node, topic)[0]
    return partition.leader_id, set(partition.isr_nodes)


def test_an_orderly_stop_moves_leadership_first_and_a_restart_rejoins(nodes: ottla.testing.Cluster) -> None:
    create_topic(nodes.node(1), "moved", assignments={0: [3, 2, 1]})
    create_topic(nodes.node(1), "alone", assignments={0: [3]})
    nodes.node(3).stop()
    # No session had to expire: the controller agreed to the stop.
    assert broker_ids(nodes.node(1)) == [1, 2]
    assert leader_and_isr(nodes.node(1), "moved") == (2, {1, 2})
    wait_until(lambda: leader_and_isr(nodes.node(2), "moved") == (2, {1, 2}), "node 2 knows the new leader")
    assert partitions_of(nodes.node(1), "alone")[0].leader_id == -1
    assert "leaves without" not in nodes.node(3).output
    create_topic(nodes.node(2), "meanwhile", assignments={0: [1, 2]})
    nodes.node(3).start()
    for node in nodes.nodes:
        wait_until(lambda node=node: broker_ids(node) == [1, 2, 3], "node 3 is back")
        wait_until(lambda node=node: partitions_of(node, "alone")[0].leader_id == 3, "it leads what only it has")
    assert leader_and_isr(nodes.node(3), "meanwhile") == (1, {1, 2})


def test_leadership_goes_back_when_an_election_is_asked_for(nodes: ottla.testing.Cluster) -> None:
    create_topic(nodes.node(1), "preferred", assignments={0: [3, 2]})
    nodes.node(3).stop()
    nodes.node(3).start()
    wait_until(lambda: leader_and_isr(nodes.node(2), "preferred") == (2, {2, 3}), "node 3 follows and is in sync")
    request = ElectLeadersRequest(
        election_type=0, topic_partitions=[TopicPartitions(topic="preferred", partitions=[0])], timeout_ms=10_000
    )
    response = ask(nodes.node(2), request, 2)
    assert response.error_code == 0
    assert [result.error_code for topic in response.replica_election_results for result in topic.partition_result] == [
        0
    ]
    for node in nodes.nodes:
        wait_until(lambda node=node: leader_and_isr(node, "preferred") == (3, {2, 3}), "node 3 leads again")


def test_a_broker_that_will_not_come_back_is_forgotten_on_demand(nodes: ottla.testing.Cluster) -> None:
    nodes.node(3).stop()

    def known(node: ottla.testing.Node) -> list[int]:
        answer = ask(node, DescribeClusterRequest(include_fenced_brokers=True), 2)
        return [broker.broker_id for broker in answer.brokers]

    assert known(nodes.node(1)) == [1, 2, 3]
    assert ask(nodes.node(2), UnregisterBrokerRequest(broker_id=3), 0).error_code == 0
    wait_until(lambda: known(nodes.node(2)) == [1, 2], "node 2 has heard of it")
    missing = ask(nodes.node(2), UnregisterBrokerRequest(broker_id=3), 0)
    assert missing.error_code == ErrorCode.BROKER_ID_NOT_REGISTERED


def test_a_silent_broker_is_fenced_and_comes_back_when_it_speaks_again(nodes: ottla.testing.Cluster) -> None:
    create_topic(nodes.node(1), "led", assignments={0: [2, 3]})
    process = nodes.node(2).pid
    os.kill(process, signal.SIGSTOP)
    try:
        wait_until(lambda: broker_ids(nodes.node(1)) == [1, 3], "node 2 is fenced")
        wait_until(lambda: leader_and_isr(nodes.node(3), "led") == (3, {3}), "leadership moved")
        described = ask(nodes.node(3), DescribeClusterRequest(include_fenced_brokers=True), 2)
        assert [(broker.broker_id, broker.is_fenced) for broker in described.brokers] == [
            (1, False),
            (2, True),
            (3, False),
        ]
    finally:
        os.kill(process, signal.SIGCONT)
    for node in nodes.nodes:
        wait_until(lambda node=node: broker_ids(node) == [1, 2, 3], "node 2 is unfenced")


def test_a_broker_that_crashed_comes_back(nodes: ottla.testing.Cluster) -> None:
    create_topic(nodes.node(2), "kept", assignments={0: [3, 1]})
    nodes.node(3).kill()
    wait_until(lambda: broker_ids(nodes.node(1)) == [1, 2], "node 3 is fenced")
    nodes.node(3).start()
    assert 3 in broker_ids(nodes.node(3))
    nodes.node(3).kill()
    # At once: if the session of the killed process is still open, the new process waits for its end.
    nodes.node(3).start()
    for node in nodes.nodes:
        wait_until(lambda node=node: broker_ids(node) == [1, 2, 3], "node 3 is back")


@pytest.mark.parametrize("ending", ["stop", "kill"])
def test_brokers_survive_a_restart_of_the_controller(nodes: ottla.testing.Cluster, ending: str) -> None:
    create_topic(nodes.node(3), "before", assignments={0: [2, 3]})
    wait_until(lambda: bool(partitions_of(nodes.node(2), "before")), "node 2 knows the topic")
    getattr(nodes.node(1), ending)()
    # Node 2 still serves its last metadata image.
    assert leader_and_isr(nodes.node(2), "before") == (2, {2, 3})
    assert nodes.node(2).running
    nodes.node(1).start()
    for node in nodes.nodes:
        wait_until(lambda node=node: broker_ids(node) == [1, 2, 3], "all are together again")
    create_topic(nodes.node(3), "after", assignments={0: [1, 2, 3]})
    for node in nodes.nodes:
        wait_until(lambda node=node: bool(partitions_of(node, "after")), "new topics reach every node")
        assert leader_and_isr(node, "before")[0] == 2


def test_a_whole_cluster_restarts_with_what_it_had(nodes: ottla.testing.Cluster) -> None:
    create_topic(nodes.node(2), "everywhere", assignments={0: [2, 3, 1], 1: [3, 1, 2]}, configs={"segment.ms": "7777"})
    cluster_id = ask(nodes.node(2), DescribeClusterRequest(), 2).cluster_id
    for node in reversed(nodes.nodes):
        node.stop()
    nodes.start()
    for node in nodes.nodes:
        wait_until(lambda node=node: broker_ids(node) == [1, 2, 3], "all are together again")
        assert set(partitions_of(node, "everywhere")) == {0, 1}
        assert ask(node, DescribeClusterRequest(), 2).cluster_id == cluster_id


def test_a_broker_that_waits_for_its_controller_can_be_stopped(nodes: ottla.testing.Cluster) -> None:
    nodes.node(3).stop()
    nodes.node(1).kill()
    nodes.node(3).begin_start()
    wait_until(lambda: "cannot follow the metadata log" in nodes.node(3).output, "node 3 has noticed")
    nodes.node(3).stop()


def test_a_broker_that_fell_behind_the_log_goes_on_from_a_snapshot() -> None:
    small = {
        **SETTINGS,
        "internal.metadata.log.segment.bytes": "1000",
        "metadata.log.max.record.bytes.between.snapshots": "1000",
        "metadata.max.retention.bytes": "1",
    }
    with ottla.testing.cluster(nodes=2, settings=small) as nodes:
        create_topic(nodes.node(1), "gone", assignments={0: [1, 2]})
        wait_until(lambda: bool(partitions_of(nodes.node(2), "gone")), "node 2 knows the topic")
        os.kill(nodes.node(2).pid, signal.SIGSTOP)
        try:
            for number in range(100):
                create_topic(nodes.node(1), f"meanwhile-{number}", assignments={0: [1]})
            ask(nodes.node(1), DeleteTopicsRequest(topics=[DeleteTopicState(name="gone")], timeout_ms=30_000), 6)
            # Otherwise node 2 would read the log from its beginning instead of a snapshot.
            wait_until(lambda: begins_after(nodes.node(1), 50), "the controller has given up the beginning of its log")
        finally:
            os.kill(nodes.node(2).pid, signal.SIGCONT)
        wait_until(lambda: bool(partitions_of(nodes.node(2), "meanwhile-99")), "node 2 has caught up")
        wait_until(lambda: not partitions_of(nodes.node(2), "gone"), "node 2 knows what is gone")
        wait_until(lambda: broker_ids(nodes.node(2)) == [1, 2], "node 2 is a member again")
        assert list(metadata_log(nodes.node(2)).glob("*.checkpoint"))
        # The log of node 2 has no beginning, so the node loaded a snapshot.
        assert begins_after(nodes.node(2), 50)
        nodes.node(2).stop()
        nodes.node(2).start()
        assert partitions_of(nodes.node(2), "meanwhile-50")


def metadata_log(node: ottla.testing.Node) -> Path:
    return node.directory / "data" / "__cluster_metadata-0"


def begins_after(node: ottla.testing.Node, offset: int) -> bool:
    return min(path.name for path in metadata_log(node).glob("*.log")) > f"{offset:020}.log"
