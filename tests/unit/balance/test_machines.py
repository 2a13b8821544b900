"""Several brokers on one machine: plans never put two replicas of a partition there if that can be avoided."""

from __future__ import annotations

import itertools
import math
import random
from collections import Counter
from dataclasses import replace

import pytest

from ottla.balance.assignment import Assignment
from ottla.balance.goals import MachineGoal, RackGoal, default_goals
from ottla.balance.planner import make_plan
from ottla.balance.state import BrokerState, ClusterState, PartitionState
from ottla.balance.steps import make_steps
from ottla.metadata.controller.placement import ReplicaPlacer, UsableBroker
from ottla.model.ids import TopicPartition
from tests.unit.balance.clusters import drained, on_machines, random_cluster

SEEDS = range(20)


def cluster_of(seed: int) -> ClusterState:
    state = on_machines(random_cluster(seed), seed)
    return drained(state, 1) if seed % 3 == 0 and len(state.brokers) > 3 else state


def machines_max(state: ClusterState, count: int) -> int:
    """The most machines that `count` replicas can be on while racks have even shares, by trying all placements."""
    alive = [broker for broker in state.brokers.values() if broker.takes_replicas]
    racks = {broker.rack for broker in alive if broker.rack is not None}
    share = math.ceil(count / max(len(racks), 1))
    best = 0
    for brokers in itertools.combinations(alive, count):
        in_racks = Counter(broker.rack for broker in brokers if broker.rack is not None)
        if all(number <= share for number in in_racks.values()):
            best = max(best, len({broker.host for broker in brokers}))
    return best


def machines_of(state: ClusterState, replicas: tuple[int, ...]) -> int:
    return len({state.brokers[broker_id].host for broker_id in replicas})


@pytest.mark.parametrize("seed", SEEDS)
def test_replicas_are_on_as_many_machines_as_possible_and_never_on_fewer_on_the_way(seed: int) -> None:
    state = cluster_of(seed)
    plan = make_plan(state)
    if plan.stranded:
        # Fewer brokers are left than replicas.
        assert sum(broker.takes_replicas for broker in state.brokers.values()) < len(plan.movements[0].before)
        return
    assert [row for row in plan.goals if row.is_hard and row.violations_after] == []
    steps = make_steps(state, plan.movements)
    assert not steps.postponed
    after = {partition: partition_state.replicas for partition, partition_state in state.partitions.items()}
    # All partitions have the same number of replicas.
    goal = machines_max(state, len(next(iter(after.values()))))
    for step in steps.steps:
        for movement in step.movements:
            assert machines_of(state, movement.after) >= min(goal, machines_of(state, movement.before))
            after[movement.partition] = movement.after
    assert all(machines_of(state, replicas) == goal for replicas in after.values())


def of_hosts(*hosts: str | None, replicas: tuple[int, ...]) -> ClusterState:
    """Thirty partitions with the same replicas; the brokers count from 1."""
    brokers = {number: BrokerState(broker_id=number, host=host) for number, host in enumerate(hosts, 1)}
    partition = PartitionState(replicas=replicas, leader=replicas[0], size_bytes=1000.0)
    return ClusterState(brokers=brokers, partitions={TopicPartition("t", number): partition for number in range(30)})


def test_two_replicas_on_one_machine_are_separated() -> None:
    state = of_hosts("a", "a", "b", "b", replicas=(1, 2))
    plan = make_plan(state)
    assert plan.goals[1].goal == "machine awareness"
    assert (plan.goals[1].violations_before, plan.goals[1].violations_after) == (30, 0)
    assert plan.goals[1].is_hard
    assert all(machines_of(state, movement.after) == 2 for movement in plan.movements)


def test_a_lost_broker_is_not_replaced_by_its_neighbour_on_a_machine_with_a_replica() -> None:
    state = of_hosts("a", "a", "b", "c", replicas=(1, 3))
    dead = ClusterState(
        brokers={**state.brokers, 3: replace(state.brokers[3], is_alive=False)}, partitions=state.partitions
    )
    plan = make_plan(dead)
    assert {movement.after for movement in plan.movements} <= {(1, 4), (4, 1), (2, 4), (4, 2)}
    assert len(plan.movements) == 30


def test_on_one_machine_and_without_names_of_machines_everything_may_be_everywhere() -> None:
    for hosts in (("a", "a", "a"), (None, None, None)):
        state = of_hosts(*hosts, replicas=(1, 2))
        plan = make_plan(state)
        assert plan.goals[1].violations_before == 0
        assert {broker_id for movement in plan.movements for broker_id in movement.added} == {3}


@pytest.mark.parametrize("seed", range(30))
def test_new_partitions_as_the_controller_places_them_have_nothing_to_move(seed: int) -> None:
    """The balancer and the controller have the same idea of a machine."""
    state = on_machines(random_cluster(seed), seed)
    usable = [UsableBroker(broker.broker_id, broker.rack, False, broker.host) for broker in state.brokers.values()]
    factor = min(3, len(usable))
    placed = ReplicaPlacer(usable, random.Random(seed)).place(partition_count=24, replication_factor=factor)
    partitions = {
        TopicPartition("t", number): PartitionState(replicas=replicas, leader=replicas[0])
        for number, replicas in enumerate(placed)
    }
    assignment = Assignment(ClusterState(brokers=state.brokers, partitions=partitions))
    # The controller looks at machines before racks.
    goal = MachineGoal(RackGoal() if seed % 2 else None)
    goal.prepare(assignment)
    assert goal.violations(assignment) == []


def test_goals_begin_with_racks_and_machines() -> None:
    assert [goal.name for goal in default_goals()][:2] == ["rack awareness", "machine awareness"]


def test_replicas_that_share_a_machine_because_there_are_too_few_are_told() -> None:
    """A machine of three is lost: partitions with three replicas have two on one machine."""
    brokers = {
        broker_id: BrokerState(broker_id=broker_id, host=f"h{(broker_id - 1) // 2}", is_alive=broker_id < 5)
        for broker_id in range(1, 7)
    }
    partition = PartitionState(replicas=(1, 3, 5), leader=1, size_bytes=1.0)
    state = ClusterState(brokers=brokers, partitions={TopicPartition("t", 0): partition})
    plan = make_plan(state)
    (result,) = [row for row in plan.goals if row.goal == "machine awareness"]
    assert not plan.stranded
    assert result.violations_after == 0
    assert result.left == ("1 partition has replicas on the same machine; machines that can take replicas: 2",)
    # A single machine leaves nothing to report.
    alone = {broker_id: BrokerState(broker_id=broker_id, host="h") for broker_id in (1, 3, 5)}
    goals = make_plan(ClusterState(brokers=alone, partitions=state.partitions)).goals
    assert [row.left for row in goals if row.goal == "machine awareness"] == [()]
