"""Changes of partitions that meet each other: failed directories, cancelled reassignments, brokers that come and go."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.metadata.controller import sweeps
from ottla.metadata.controller.directories import LOST
from ottla.metadata.controller.elections import decide_unclean_elections
from ottla.metadata.image import PartitionImage
from ottla.model.ids import Uuid
from ottla.wire.messages import assign_replicas_to_dirs as ard
from ottla.wire.messages.alter_partition import (
    AlterPartitionRequest,
    BrokerState,
    RequestPartitionData,
    RequestTopicData,
)
from ottla.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from ottla.wire.messages.broker_heartbeat import BrokerHeartbeatRequest
from ottla.wire.messages.create_topics import CreatableReplicaAssignment, CreatableTopicConfig
from tests.unit.metadata.harness import ControllerHarness, done

FIRST, SECOND = (Uuid(bytes((8, number)) + bytes(14)) for number in (1, 2))
UNCLEAN = [CreatableTopicConfig(name="unclean.leader.election.enable", value="true")]


def create(harness: ControllerHarness, replicas: list[list[int]], name: str = "t", **more: Any) -> None:
    assignments = [
        CreatableReplicaAssignment(partition_index=index, broker_ids=brokers) for index, brokers in enumerate(replicas)
    ]
    assert harness.create(name, -1, -1, assignments=assignments, **more).error_code == 0


def partition(harness: ControllerHarness, index: int = 0) -> PartitionImage:
    partition_image: PartitionImage = harness.image.topics.by_name["t"].partitions[index]
    return partition_image


def assign(harness: ControllerHarness, broker_id: int, directory: Uuid, *indexes: int) -> None:
    topic = ard.RequestTopicData(
        topic_id=harness.image.topics.by_name["t"].topic_id,
        partitions=[ard.RequestPartitionData(partition_index=index) for index in indexes],
    )
    request = ard.AssignReplicasToDirsRequest(
        broker_id=broker_id,
        broker_epoch=harness.image.brokers[broker_id].broker_epoch,
        directories=[ard.RequestDirectoryData(id=directory, topics=[topic])],
    )
    done(harness.controller.ask(request))


def reassign(harness: ControllerHarness, replicas: list[int] | None) -> None:
    wanted = ReassignablePartition(partition_index=0, replicas=replicas)
    request = AlterPartitionReassignmentsRequest(topics=[ReassignableTopic(name="t", partitions=[wanted])])
    assert done(harness.controller.ask(request)).responses[0].partitions[0].error_code == 0


def join_isr(harness: ControllerHarness, *brokers: int) -> None:
    now, image = partition(harness), harness.image
    data = RequestPartitionData(
        partition_index=0,
        leader_epoch=now.leader_epoch,
        partition_epoch=now.partition_epoch,
        new_isr_with_epochs=[
            BrokerState(broker_id=broker, broker_epoch=image.brokers[broker].broker_epoch) for broker in brokers
        ],
    )
    request = AlterPartitionRequest(
        broker_id=now.leader,
        broker_epoch=image.brokers[now.leader].broker_epoch,
        topics=[RequestTopicData(topic_id=image.topics.by_name["t"].topic_id, partitions=[data])],
    )
    assert done(harness.controller.ask(request)).topics[0].partitions[0].error_code == 0


def fence(harness: ControllerHarness, broker_id: int, *alive: int) -> None:
    harness.virtual.clock.ms += 8000
    for other in alive:
        harness.beat(other)
    harness.virtual.clock.ms += 2000
    fenced = harness.controller.fence_silent_brokers()
    harness.virtual.scheduler.run()
    assert done(fenced) == [broker_id]


# Failed directories.


@pytest.fixture
def two_disks() -> ControllerHarness:
    """Broker 1 has two directories, broker 2 has one."""
    harness = ControllerHarness(properties={"min.insync.replicas": "2"})
    harness.add_broker(1, log_dirs=[FIRST, SECOND])
    harness.add_broker(2)
    return harness


@pytest.mark.parametrize("wanted", ["want_fence", "want_shut_down"])
def test_a_replica_on_a_failed_disk_is_not_eligible(two_disks: ControllerHarness, wanted: str) -> None:
    create(two_disks, [[1, 2]])
    assign(two_disks, 1, SECOND, 0)
    two_disks.beat(1, offline_log_dirs=[SECOND], **{wanted: True})
    assert partition(two_disks).elr == ()
    assert 1 not in partition(two_disks).isr


def test_a_replica_on_a_failed_disk_does_not_lead_after_a_failover(
    two_disks: ControllerHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The former controller ended between two portions of a fencing."""
    create(two_disks, [[1], [1]])
    assign(two_disks, 1, SECOND, 0, 1)
    with monkeypatch.context() as portions:
        portions.setattr(sweeps, "CHANGES_PER_DECISION", 1)
        two_disks.virtual.clock.ms += 20_000
        two_disks.beat(2)
        two_disks.controller.fence_silent_brokers()
    assert [partition(two_disks, index).leader for index in (0, 1)] == [-1, 1]
    two_disks.controller.deactivate()
    two_disks.controller.activate()
    for _ in range(2):
        two_disks.beat(1, offline_log_dirs=[SECOND])
    assert [partition(two_disks, index).leader for index in (0, 1)] == [-1, -1]


# Reassignments.


def test_a_last_known_leader_that_is_no_replica_any_more() -> None:
    harness = ControllerHarness()
    for broker in (1, 2, 3, 4):
        harness.add_broker(broker)
    create(harness, [[1]], configs=UNCLEAN)
    reassign(harness, [3, 2])
    fence(harness, 2, 1, 3, 4)
    join_isr(harness, 1, 3)
    fence(harness, 1, 3, 4)
    fence(harness, 3, 4)
    reassign(harness, None)
    # It has stopped uncleanly.
    harness.add_broker(1, incarnation=2, unfence=False)
    for broker in (3, 1):
        harness.beat(broker)
    assert partition(harness).leader in (*partition(harness).replicas, -1)


def test_a_lost_replica_that_completes_a_reassignment() -> None:
    harness = ControllerHarness()
    for broker in (3, 4, 5):
        harness.add_broker(broker)
    create(harness, [[4, 3]], configs=UNCLEAN)
    fence(harness, 3, 4, 5)
    reassign(harness, [5, 3])
    fence(harness, 4, 5)
    harness.add_broker(4, incarnation=2, unfence=False)
    done(harness.controller.submit(decide_unclean_elections))
    harness.beat(4)
    assert partition(harness).leader == 5
    assert partition(harness).is_reassigning
    assign(harness, 4, LOST, 0)
    assert len(partition(harness).directories) == len(partition(harness).replicas)


# Two sweeps at once.


def test_a_broker_that_returns_does_not_undo_the_fencing_of_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweeps, "CHANGES_PER_DECISION", 1)
    harness = ControllerHarness()
    for broker in (1, 2):
        harness.add_broker(broker)
    create(harness, [[1], [1], [1], [2], [2], [2]])
    fence(harness, 2, 1)
    harness.virtual.clock.ms += 10_000
    fenced = harness.controller.fence_silent_brokers()
    back = BrokerHeartbeatRequest(
        broker_id=2,
        broker_epoch=harness.image.brokers[2].broker_epoch,
        current_metadata_offset=harness.image.offset,
    )
    harness.controller.ask(back)
    for _ in range(100):
        harness.virtual.scheduler.run_turn()
    assert fenced.done
    assert [partition(harness, index).leader for index in range(6)] == [-1, -1, -1, 2, 2, 2]
