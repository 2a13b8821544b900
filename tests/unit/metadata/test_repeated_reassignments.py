"""A partition that one AlterPartitionReassignments request names more than once."""

from __future__ import annotations

import pytest

from ottla.model.errors import ErrorCode
from ottla.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from tests.unit.metadata.harness import ControllerHarness, done
from tests.unit.metadata.test_controller_reassignments import harness, partition, under_way

__all__ = ["harness"]


def reassign_in_one_request(harness: ControllerHarness, *replica_lists: list[int] | None) -> list[ErrorCode]:
    """Every list is asked for in a topic of its own, as clients that merge several plans do."""
    request = AlterPartitionReassignmentsRequest(
        topics=[
            ReassignableTopic(name="t", partitions=[ReassignablePartition(partition_index=0, replicas=replicas)])
            for replicas in replica_lists
        ]
    )
    answer = done(harness.controller.ask(request))
    return [ErrorCode(topic.partitions[0].error_code) for topic in answer.responses]


@pytest.mark.parametrize("last", [[2, 1], [1, 5], [5]])
def test_the_last_of_repeated_reassignments_replaces_the_others(harness: ControllerHarness, last: list[int]) -> None:
    assert reassign_in_one_request(harness, [3, 4], last) == [ErrorCode.NONE, ErrorCode.NONE]
    harness.controller.invariants()
    now = partition(harness)
    assert [replica for replica in now.replicas if replica not in now.removing_replicas] == last
    assert set(now.adding_replicas) <= set(now.replicas)


def test_a_reassignment_is_cancelled_by_the_request_that_starts_it(harness: ControllerHarness) -> None:
    assert reassign_in_one_request(harness, [3, 4], None) == [ErrorCode.NONE, ErrorCode.NONE]
    harness.controller.invariants()
    assert partition(harness).replicas == (1, 2)
    assert under_way(harness) == []
