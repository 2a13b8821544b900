"""The fewest bytes that any plan has to move, by each goal alone: what a plan is measured against."""

from __future__ import annotations

from collections import Counter

from ottla.balance.assignment import Assignment
from ottla.balance.goals import BALANCE_SHARE, CapacityGoal, DistributionGoal, Goal, RackGoal
from ottla.balance.metrics import DISK
from ottla.balance.state import ClusterState
from ottla.model.ids import TopicPartition

__all__ = ["lower_bound_bytes"]


def lower_bound_bytes(state: ClusterState, goals: list[Goal]) -> float:
    """What has to leave a broker or a rack, and what disks with too much, or too little, have to give or get."""
    assignment = Assignment(state)
    racks = [goal for goal in goals if isinstance(goal, RackGoal)]
    for rack_goal in racks:
        rack_goal.prepare(assignment)
    bounds = [
        sum(_forced(assignment, partition, racks) * one.size_bytes for partition, one in state.partitions.items())
    ]
    targets = assignment.targets
    held = {
        one: sum(state.partitions[each].size_bytes for each in assignment.held[one] if not state.must_move(each, one))
        for one in targets
    }
    total = sum(one.size_bytes * len(one.replicas) for one in state.partitions.values())
    leaving = total - sum(held.values())
    for goal in goals:
        if isinstance(goal, CapacityGoal) and goal.metric is DISK:
            bounds.append(leaving + sum(max(held[one] - goal.limit(assignment, one), 0.0) for one in targets))
        elif isinstance(goal, DistributionGoal) and goal.metric is DISK and targets:
            average = total / len(targets)
            least, most = average * (1 - BALANCE_SHARE), average * (1 + BALANCE_SHARE)
            too_much = sum(max(held[one] - most, 0.0) for one in targets)
            too_little = sum(max(least - held[one], 0.0) for one in targets)
            bounds += [leaving + too_much, too_little]
    return max(bounds)


def _forced(assignment: Assignment, partition: TopicPartition, racks: list[RackGoal]) -> int:
    """How many replicas of a partition have to go to another broker in any plan."""
    state = assignment.state
    replicas = state.partitions[partition].replicas
    staying = [one for one in replicas if not state.must_move(partition, one)]
    forced = len(replicas) - len(staying)
    for goal in racks:
        in_racks = Counter(state.brokers[one].rack for one in staying)
        limit = goal.limit(assignment, partition)
        forced += sum(max(count - limit, 0) for rack, count in in_racks.items() if rack is not None)
    return forced
