"""Three controllers in three real processes: the active controller dies or freezes, and another takes over."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, Producer

import ottla.testing
from tests.integration.cluster_calls import create_topic, partitions_of, wait_until
from tests.support.reading import records_of

SETTINGS = {"broker.session.timeout.ms": "6000", "broker.heartbeat.interval.ms": "500"}


@pytest.fixture
def three() -> Iterator[ottla.testing.Cluster]:
    with ottla.testing.cluster(nodes=3, controllers=3, settings=SETTINGS) as running:
        yield running


def active_controller(cluster: ottla.testing.Cluster) -> ottla.testing.Node:
    """The controller that was elected last, by the log of its own node."""

    def epoch(node: ottla.testing.Node) -> int:
        epochs = re.findall(r"node \d is leader in epoch (\d+)", node.output)
        return int(epochs[-1]) if epochs else 0

    return max(cluster.nodes, key=epoch)


def epochs_of(node: ottla.testing.Node, role: str) -> list[int]:
    """The epochs in which a controller had the role, by its own log."""
    return [int(epoch) for epoch in re.findall(rf"node {node.node_id} is {role} in epoch (\d+)", node.output)]


def knows(node: ottla.testing.Node, *topics: str) -> bool:
    return all(partitions_of(node, topic) for topic in topics)


def test_another_controller_takes_over_from_one_that_was_killed(three: ottla.testing.Cluster) -> None:
    create_topic(three.node(1), "before", replication_factor=2)
    first = active_controller(three)
    first.kill()
    others = [node for node in three.nodes if node is not first]
    create_topic(others[0], "after", replication_factor=2)
    assert active_controller(three) is not first
    for node in others:
        wait_until(lambda node=node: knows(node, "before", "after"), "both topics are known")
    first.start()
    wait_until(lambda: knows(first, "before", "after"), "it is back, and knows everything")
    assert active_controller(three) is not first


def test_a_frozen_controller_comes_back_and_is_one_no_longer(three: ottla.testing.Cluster) -> None:
    create_topic(three.node(1), "before", replication_factor=2)
    first = active_controller(three)
    others = [node for node in three.nodes if node is not first]
    led_epoch, said_before = max(epochs_of(first, "leader")), len(first.output)
    os.kill(first.pid, signal.SIGSTOP)
    try:
        create_topic(others[0], "meanwhile", replication_factor=2)
    finally:
        os.kill(first.pid, signal.SIGCONT)
    # A request to the former controller is decided by the active controller.
    wait_until(lambda: knows(first, "meanwhile"), "it has heard what was decided without it")
    create_topic(first, "afterwards", replication_factor=2)
    wait_until(lambda: all(knows(node, "afterwards") for node in three.nodes), "every node knows the topic")
    # Any node may lead by now. The former leader first followed a leader that was elected meanwhile. A vote request
    # of that election may have waited in its socket: the former leader was then unattached in the new epoch at first.
    roles = re.findall(rf"node {first.node_id} is (\w+) in epoch (\d+)", first.output[said_before:])
    role, epoch = next(change for change in roles if change[0] != "unattached")
    assert role == "follower"
    assert int(epoch) > led_epoch
    assert int(epoch) in {leader_epoch for node in others for leader_epoch in epochs_of(node, "leader")}
    # No epoch had two leaders.
    leader_epochs = [epoch for node in three.nodes for epoch in epochs_of(node, "leader")]
    assert len(leader_epochs) == len(set(leader_epochs))


def test_records_and_producer_ids_survive_a_change_of_controllers(three: ottla.testing.Cluster) -> None:
    create_topic(three.node(1), "records", replication_factor=3)
    produced = 0
    for _ in range(2):
        producer = Producer({"bootstrap.servers": three.bootstrap, "enable.idempotence": True, "log_level": 0})
        for _ in range(50):
            producer.produce("records", b"%d" % produced)
            produced += 1
        assert producer.flush(30) == 0
        before = active_controller(three)
        before.stop()
        before.start()
    consumer = Consumer(
        {"bootstrap.servers": three.bootstrap, "group.id": "reader", "auto.offset.reset": "earliest", "log_level": 0}
    )
    consumer.subscribe(["records"])
    read: list[int] = []

    def read_on() -> bool:
        read.extend(int(message.value() or b"") for message in records_of(consumer.consume(100, 1.0)))
        return len(read) >= produced

    wait_until(read_on, "everything is read")
    consumer.close()
    assert read == list(range(produced))


def test_two_of_three_may_be_stopped_and_started_in_any_order(three: ottla.testing.Cluster) -> None:
    create_topic(three.node(1), "first", replication_factor=3)
    for node in three.nodes:
        node.kill()
    for node in three.nodes[1:]:
        node.begin_start()
    for node in three.nodes[1:]:
        node.wait_until_ready()
    assert all(knows(node, "first") for node in three.nodes[1:])
    create_topic(three.node(2), "second", replication_factor=2)
    three.node(1).start()
    wait_until(lambda: knows(three.node(1), "first", "second"), "the last one knows everything")
