"""Plans for random clusters: they end, keep hard goals on the way, and move little more than any plan has to."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from ottla.balance.assignment import Assignment
from ottla.balance.goals import CapacityGoal, Goal, RackGoal, default_goals, named_goals
from ottla.balance.metrics import DISK
from ottla.balance.planner import Plan, make_plan
from ottla.balance.state import BrokerState, ClusterState, PartitionState
from ottla.balance.steps import make_steps, seconds_of
from ottla.balance.tight_bound import best_bound_bytes
from ottla.model.ids import TopicPartition
from tests.unit.balance.clusters import MEBIBYTE, cluster_of, drained

SEEDS = range(60)
# A plan moves at most this many times the bytes that any plan has to move.
FACTOR_MAX = 1.2


def with_plan(state: ClusterState, plan: Plan) -> ClusterState:
    partitions = dict(state.partitions)
    for movement in plan.movements:
        partitions[movement.partition] = replace(partitions[movement.partition], replicas=movement.after)
    return ClusterState(brokers=state.brokers, partitions=partitions)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_plan_reaches_hard_goals_and_moves_little_more_than_it_has_to(seed: int) -> None:
    state, goals = cluster_of(seed), default_goals()
    plan = make_plan(state, goals)
    assert not plan.stranded
    assert [result for result in plan.goals if result.is_hard and result.violations_after] == []
    enough = plan.size_bytes / FACTOR_MAX
    assert best_bound_bytes(state, goals, plan, enough_bytes=enough) >= enough
    for movement in plan.movements:
        assert len(set(movement.after)) == len(movement.after) == len(movement.before)
        assert all(state.brokers[broker_id].takes_replicas for broker_id in movement.after)
    # A balanced cluster needs few further moves.
    again = make_plan(with_plan(state, plan))
    assert again.size_bytes <= plan.size_bytes / 2


@pytest.mark.parametrize("seed", SEEDS)
def test_no_step_violates_a_hard_goal(seed: int) -> None:
    state = cluster_of(seed)
    plan = make_plan(state)
    steps = make_steps(state, plan.movements)
    assert not steps.postponed
    assert sum(len(step.movements) for step in steps.steps) == len(plan.movements)
    replicas = {partition: partition_state.replicas for partition, partition_state in state.partitions.items()}
    hard: list[Goal] = [RackGoal(), CapacityGoal(DISK)]
    before = [len(violated(state, replicas, goal)) for goal in hard]
    for step in steps.steps:
        copying: Counter[int] = Counter()
        for movement in step.movements:
            copying.update(movement.added)
            union = dict.fromkeys((*replicas[movement.partition], *movement.after))
            replicas[movement.partition] = tuple(union)
        assert all(count <= 5 for count in copying.values())
        # While replicas are copied, both brokers have them.
        assert len(violated(state, replicas, CapacityGoal(DISK))) <= before[1]
        for movement in step.movements:
            replicas[movement.partition] = movement.after
        after = [len(violated(state, replicas, goal)) for goal in hard]
        assert all(new <= old for new, old in zip(after, before, strict=True))
        before = after


def violated(state: ClusterState, replicas: dict[TopicPartition, tuple[int, ...]], goal: Goal) -> list[str]:
    now = {
        partition: replace(partition_state, replicas=replicas[partition])
        for partition, partition_state in state.partitions.items()
    }
    assignment = Assignment(ClusterState(brokers=state.brokers, partitions=now))
    goal.prepare(assignment)
    return goal.violations(assignment)


def simple(*replicas: tuple[int, ...], brokers: int = 3, size: float = MEBIBYTE, **of_brokers: object) -> ClusterState:
    return ClusterState(
        brokers={
            broker_id: BrokerState(broker_id=broker_id, **of_brokers)  # type: ignore[arg-type]
            for broker_id in range(1, brokers + 1)
        },
        partitions={
            TopicPartition("t", number): PartitionState(
                replicas=partition_replicas, leader=partition_replicas[0], size_bytes=size
            )
            for number, partition_replicas in enumerate(replicas)
        },
    )


def test_a_new_broker_gets_its_share() -> None:
    state = simple(*[(1, 2), (2, 1)] * 15, brokers=3)
    plan = make_plan(state)
    counts = Counter(broker_id for movement in plan.movements for broker_id in movement.added)
    assert set(counts) == {3}
    assert 18 <= counts[3] <= 22


def test_a_broker_that_is_drained_keeps_nothing() -> None:
    state = drained(simple(*[(1, 2), (2, 3), (3, 1)] * 10, brokers=4), 1)
    plan = make_plan(state)
    after = with_plan(state, plan)
    assert all(1 not in partition.replicas for partition in after.partitions.values())


def test_leaders_are_evened_out_without_moving_a_byte() -> None:
    plan = make_plan(simple(*[(1, 2, 3)] * 9))
    assert plan.size_bytes == 0
    leaders = Counter(movement.after[0] for movement in plan.movements)
    assert set(leaders) == {2, 3}
    assert all(2 <= count <= 4 for count in leaders.values())


def test_replicas_without_a_place_are_named() -> None:
    state = drained(simple((1, 2, 3)), 1)
    plan = make_plan(state)
    assert plan.stranded == (TopicPartition("t", 0),)
    assert plan.is_empty


def test_replicas_of_a_failed_directory_go_to_other_brokers() -> None:
    state = simple((1, 2), (1, 2), brokers=3)
    failed = replace(state.brokers[1], failed_replicas=frozenset({TopicPartition("t", 0)}))
    plan = make_plan(ClusterState(brokers={**state.brokers, 1: failed}, partitions=state.partitions))
    (movement,) = [planned for planned in plan.movements if planned.partition == TopicPartition("t", 0)]
    assert set(movement.after) == {2, 3}


def test_a_movement_waits_for_room() -> None:
    """Two nearly full brokers exchange replicas through a third step, or not at all; never beyond the limit."""
    state = simple((1,), (2,), brokers=2, size=6 * MEBIBYTE, disk_bytes=10 * MEBIBYTE)
    plan = make_plan(state)
    assert plan.is_empty


def test_the_time_of_a_step_is_that_of_its_busiest_broker() -> None:
    state = simple((1,), (1,), (1,), (1,), brokers=2)
    plan = make_plan(state)
    (step,) = make_steps(state, plan.movements).steps
    assert step.size_bytes == 2 * MEBIBYTE
    assert seconds_of(step, MEBIBYTE) == 2


def test_goals_are_chosen_by_name() -> None:
    assert [goal.name for goal in named_goals(default_goals(), ["disk capacity", "rack awareness"])] == [
        "rack awareness",
        "disk capacity",
    ]
    with pytest.raises(ValueError, match="There is no goal 'cpu'"):
        named_goals(default_goals(), ["cpu"])
