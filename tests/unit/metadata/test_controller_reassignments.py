"""Partitions move: reassignments begin, are replaced, cancelled, completed (KIP-455)."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.model.errors import ErrorCode
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
from ottla.wire.messages.create_topics import CreatableReplicaAssignment
from ottla.wire.messages.delete_topics import DeleteTopicsRequest
from ottla.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from ottla.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)
from tests.unit.metadata.harness import ControllerHarness, done


@pytest.fixture
def harness() -> ControllerHarness:
    """Five brokers and the topic `t`, whose one partition lies on 1 and 2."""
    harness = ControllerHarness()
    for broker_id in (1, 2, 3, 4, 5):
        harness.add_broker(broker_id)
    assignment = CreatableReplicaAssignment(partition_index=0, broker_ids=[1, 2])
    assert harness.create("t", -1, -1, assignments=[assignment]).error_code == ErrorCode.NONE
    return harness


def partition(harness: ControllerHarness) -> Any:
    return harness.image.topics.by_name["t"].partitions[0]


def reassign(
    harness: ControllerHarness, replicas: list[int] | None, *, topic: str = "t", may_change_factor: bool = True
) -> ErrorCode:
    wanted = ReassignablePartition(partition_index=0, replicas=replicas)
    request = AlterPartitionReassignmentsRequest(
        topics=[ReassignableTopic(name=topic, partitions=[wanted])],
        allow_replication_factor_change=may_change_factor,
    )
    response = done(harness.controller.ask(request))
    assert response.error_code == ErrorCode.NONE
    return ErrorCode(response.responses[0].partitions[0].error_code)


def report_isr(harness: ControllerHarness, isr: list[int]) -> ErrorCode:
    """Sends the AlterPartition request of the leader once followers are in sync."""
    present = partition(harness)
    wanted = RequestPartitionData(
        partition_index=0,
        leader_epoch=present.leader_epoch,
        partition_epoch=present.partition_epoch,
        new_isr_with_epochs=[BrokerState(broker_id=replica_id, broker_epoch=-1) for replica_id in isr],
    )
    request = AlterPartitionRequest(
        broker_id=present.leader,
        broker_epoch=harness.image.brokers[present.leader].broker_epoch,
        topics=[RequestTopicData(topic_id=harness.image.topics.by_name["t"].topic_id, partitions=[wanted])],
    )
    return ErrorCode(done(harness.controller.ask(request)).topics[0].partitions[0].error_code)


def under_way(harness: ControllerHarness, topics: list[ListPartitionReassignmentsTopics] | None = None) -> list[Any]:
    answer = done(harness.controller.ask(ListPartitionReassignmentsRequest(topics=topics)))
    return [
        (topic.name, ongoing.partition_index, ongoing.replicas, ongoing.adding_replicas, ongoing.removing_replicas)
        for topic in answer.topics
        for ongoing in topic.partitions
    ]


def test_a_reassignment_runs_until_what_it_adds_is_in_sync(harness: ControllerHarness) -> None:
    epoch = partition(harness).leader_epoch
    assert reassign(harness, [3, 4]) == ErrorCode.NONE
    now = partition(harness)
    assert (now.replicas, now.adding_replicas, now.removing_replicas) == ((3, 4, 1, 2), (3, 4), (1, 2))
    assert (now.leader, now.isr, now.leader_epoch) == (1, (1, 2), epoch)
    assert now.directories == tuple(harness.image.brokers[number].directories[0] for number in (3, 4, 1, 2))
    assert report_isr(harness, [1, 2, 3]) == ErrorCode.NONE
    assert partition(harness).is_reassigning
    # The leader is removed with the last step, and learns of it from the metadata.
    assert report_isr(harness, [1, 2, 3, 4]) == ErrorCode.NEW_LEADER_ELECTED
    now = partition(harness)
    assert (now.replicas, now.isr, now.leader, now.is_reassigning) == ((3, 4), (3, 4), 3, False)
    assert now.leader_epoch == epoch + 1


def test_what_needs_no_copy_is_done_at_once(harness: ControllerHarness) -> None:
    assert reassign(harness, [2, 1]) == ErrorCode.NONE
    assert (partition(harness).replicas, partition(harness).is_reassigning) == ((2, 1), False)
    assert reassign(harness, [2]) == ErrorCode.NONE
    now = partition(harness)
    assert (now.replicas, now.isr, now.leader, now.is_reassigning) == ((2,), (2,), 2, False)
    assert under_way(harness) == []


def test_one_that_removes_more_than_it_adds_waits_for_all_that_stay(harness: ControllerHarness) -> None:
    assert reassign(harness, [1, 2, 3, 4]) == ErrorCode.NONE
    report_isr(harness, [1, 2, 3, 4])
    report_isr(harness, [1, 2, 3])
    assert reassign(harness, [3, 4]) == ErrorCode.NONE
    # 3 is in sync and stays, but 4 stays too and is not.
    assert partition(harness).is_reassigning
    report_isr(harness, [1, 2, 3, 4])
    assert partition(harness).replicas == (3, 4)


def test_reassignments_are_listed_by_name_or_all(harness: ControllerHarness) -> None:
    harness.create("still", 3, 2)
    assert reassign(harness, [1, 3]) == ErrorCode.NONE
    expected = [("t", 0, [1, 3, 2], [3], [2])]
    assert under_way(harness) == expected
    assert under_way(harness, [ListPartitionReassignmentsTopics(name="t", partition_indexes=[0, 7])]) == expected
    assert under_way(harness, [ListPartitionReassignmentsTopics(name="t", partition_indexes=[])]) == []
    assert under_way(harness, [ListPartitionReassignmentsTopics(name="none", partition_indexes=[0])]) == []


def test_cancelling_takes_back_what_was_added(harness: ControllerHarness) -> None:
    assert reassign(harness, None) == ErrorCode.NO_REASSIGNMENT_IN_PROGRESS
    assert reassign(harness, [3, 4]) == ErrorCode.NONE
    report_isr(harness, [1, 2, 3])
    epoch = partition(harness).leader_epoch
    assert reassign(harness, None) == ErrorCode.NONE
    now = partition(harness)
    assert (now.replicas, now.isr, now.leader, now.is_reassigning) == ((1, 2), (1, 2), 1, False)
    # The removed replica must learn of it.
    assert now.leader_epoch == epoch + 1


def test_cancelling_without_a_former_replica_in_sync_needs_an_unclean_election(harness: ControllerHarness) -> None:
    assert reassign(harness, [3, 4]) == ErrorCode.NONE
    report_isr(harness, [1, 2, 3])
    for broker_id in (1, 2):
        harness.beat(broker_id, want_fence=True)
    assert (partition(harness).isr, partition(harness).leader) == ((3,), 3)
    assert reassign(harness, None) == ErrorCode.INVALID_REPLICA_ASSIGNMENT
    config = AlterableConfig(name="unclean.leader.election.enable", config_operation=0, value="true")
    resource = AlterConfigsResource(resource_type=2, resource_name="t", configs=[config])
    done(harness.controller.ask(IncrementalAlterConfigsRequest(resources=[resource])))
    assert reassign(harness, None) == ErrorCode.NONE
    assert (partition(harness).replicas, partition(harness).isr) == ((1, 2), (1,))


def test_another_reassignment_takes_the_place_of_the_first(harness: ControllerHarness) -> None:
    assert reassign(harness, [3, 4]) == ErrorCode.NONE
    assert reassign(harness, [5, 3]) == ErrorCode.NONE
    assert under_way(harness) == [("t", 0, [5, 3, 1, 2, 4], [5], [1, 2, 4])]
    # Replicas that were being removed may stay after all.
    assert reassign(harness, [1, 2, 5]) == ErrorCode.NONE
    assert partition(harness).removing_replicas == (3, 4)
    report_isr(harness, [1, 2, 5])
    assert (partition(harness).replicas, partition(harness).is_reassigning) == ((1, 2, 5), False)


def test_a_reassignment_back_does_not_wait_for_what_it_takes_away(harness: ControllerHarness) -> None:
    assert reassign(harness, [3, 4]) == ErrorCode.NONE
    assert reassign(harness, [1, 2]) == ErrorCode.NONE
    assert (partition(harness).replicas, partition(harness).is_reassigning) == ((1, 2), False)
    # One of two added replicas stays after all, and it has to be in sync.
    assert reassign(harness, [3, 4]) == ErrorCode.NONE
    assert reassign(harness, [1, 3]) == ErrorCode.NONE
    assert under_way(harness) == [("t", 0, [1, 3, 2, 4], [3, 4], [2, 4])]
    report_isr(harness, [1, 2, 3])
    assert (partition(harness).replicas, partition(harness).is_reassigning) == ((1, 3), False)


@pytest.mark.parametrize(
    ("replicas", "code"),
    [
        ([], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ([1, 1], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ([1, 9], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ([1, -1], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    ],
)
def test_what_is_wrong_with_a_reassignment_is_said(
    harness: ControllerHarness, replicas: list[int], code: ErrorCode
) -> None:
    before = harness.image
    assert reassign(harness, replicas) == code
    assert reassign(harness, replicas, topic="none") == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert harness.image is before


def test_the_number_of_replicas_may_be_held_fast(harness: ControllerHarness) -> None:
    assert reassign(harness, [1, 2, 3], may_change_factor=False) == ErrorCode.INVALID_REPLICATION_FACTOR
    assert reassign(harness, [3, 4], may_change_factor=False) == ErrorCode.NONE
    # Four replicas are there now, but two are on their way out.
    assert reassign(harness, [4, 5], may_change_factor=False) == ErrorCode.NONE


def test_a_fenced_broker_may_be_a_target_and_a_topic_on_the_move_may_be_deleted(harness: ControllerHarness) -> None:
    harness.beat(5, want_fence=True)
    assert reassign(harness, [5, 1]) == ErrorCode.NONE
    assert partition(harness).adding_replicas == (5,)
    response = done(harness.controller.ask(DeleteTopicsRequest(topic_names=["t"])))
    assert response.responses[0].error_code == ErrorCode.NONE
    assert under_way(harness) == []


def test_a_restart_of_the_controller_keeps_reassignments(harness: ControllerHarness) -> None:
    assert reassign(harness, [3, 4]) == ErrorCode.NONE
    expected = under_way(harness)
    harness.reopen()
    assert under_way(harness) == expected != []
