"""The bounds that plans are measured against: no plan moves less, as trying all of them shows."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Sequence

import pytest

from ottla.balance.assignment import Assignment
from ottla.balance.bound import lower_bound_bytes
from ottla.balance.goals import DistributionGoal, Goal, RackGoal
from ottla.balance.metrics import DISK, REPLICAS
from ottla.balance.planner import GoalResult, Movement, Plan, make_plan
from ottla.balance.state import BrokerState, ClusterState, PartitionState
from ottla.balance.tight_bound import best_bound_bytes, tight_bound_bytes
from ottla.model.ids import TopicPartition
from tests.unit.balance.clusters import cluster_of


def tiny_cluster(seed: int) -> ClusterState:
    """So few partitions that all placements can be tried."""
    generator = random.Random(seed)
    count, factor = generator.choice(((3, 1), (3, 2), (4, 1), (4, 2)))
    racks = generator.choice((0, 2))
    partitions = {}
    for number in range(4):
        replicas = tuple(generator.sample(range(1, count + 1), factor))
        partitions[TopicPartition("t", number)] = PartitionState(
            replicas=replicas, leader=replicas[0], size_bytes=generator.choice((10.0, 20.0, 50.0))
        )
    brokers = {
        broker_id: BrokerState(
            broker_id=broker_id,
            rack=f"r{broker_id % racks}" if racks else None,
            is_draining=broker_id == 1 and generator.random() < 0.4,
        )
        for broker_id in range(1, count + 1)
    }
    return ClusterState(brokers=brokers, partitions=partitions)


def goals() -> list[Goal]:
    return [RackGoal(), DistributionGoal(REPLICAS), DistributionGoal(DISK)]


def all_plans(state: ClusterState) -> Iterator[Plan]:
    """Every placement on brokers that take replicas, with the goals that it does not reach."""
    targets = [broker_id for broker_id, broker in state.brokers.items() if broker.takes_replicas]
    factor = len(next(iter(state.partitions.values())).replicas)
    options = list(itertools.combinations(targets, factor))
    for chosen in itertools.product(options, repeat=len(state.partitions)):
        movements = tuple(
            Movement(
                partition=partition,
                before=partition_state.replicas,
                after=after,
                size_bytes=partition_state.size_bytes
                * sum(broker_id not in partition_state.replicas for broker_id in after),
            )
            for (partition, partition_state), after in zip(state.partitions.items(), chosen, strict=True)
        )
        yield Plan(movements=movements, goals=(), stranded=())


def violations(state: ClusterState, plan: Plan, planned_goals: Sequence[Goal]) -> list[int]:
    moved = {movement.partition: movement.after for movement in plan.movements}
    after = Assignment(
        ClusterState(
            brokers=state.brokers,
            partitions={
                partition: PartitionState(replicas=moved[partition], leader=-1, size_bytes=partition_state.size_bytes)
                for partition, partition_state in state.partitions.items()
            },
        )
    )
    for goal in planned_goals:
        goal.prepare(after)
    return [len(goal.violations(after)) for goal in planned_goals]


@pytest.mark.parametrize("seed", range(14))
def test_no_plan_moves_less_than_the_bounds(seed: int) -> None:
    state = tiny_cluster(seed)
    factor = len(next(iter(state.partitions.values())).replicas)
    if sum(broker.takes_replicas for broker in state.brokers.values()) < factor:
        return
    best = None
    for plan in all_plans(state):
        if not any(violations(state, plan, goals())) and (best is None or plan.size_bytes < best.size_bytes):
            best = plan
    if best is None:
        return
    assert lower_bound_bytes(state, goals()) <= best.size_bytes + 1e-6
    assert tight_bound_bytes(state, goals(), best) <= best.size_bytes + 1e-6


@pytest.mark.parametrize("seed", [7, 21])
def test_the_tight_bound_sees_what_the_quick_one_does_not(seed: int) -> None:
    """Racks contradict disks here: the quick bound looks at each broker alone, and plans look wasteful."""
    state, planned_goals = cluster_of(seed), goals()
    plan = make_plan(state, planned_goals)
    assert plan.size_bytes > 1.2 * lower_bound_bytes(state, planned_goals)
    bound = tight_bound_bytes(state, planned_goals, plan, enough_bytes=plan.size_bytes / 1.1)
    assert bound <= plan.size_bytes <= 1.101 * bound


def test_goals_that_a_plan_has_not_reached_give_it_no_credit() -> None:
    state = cluster_of(26)
    missed = GoalResult(goal="x", is_hard=False, violations_before=1, violations_after=1, left=())
    idle = Plan(movements=(), goals=(missed,), stranded=())
    assert lower_bound_bytes(state, goals()) > 0
    assert best_bound_bytes(state, [goal for goal in goals() if not goal.is_hard], idle) == 0
