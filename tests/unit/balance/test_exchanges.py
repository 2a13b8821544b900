"""Swaps reach soft goals that single moves do not reach; racks that forbid a goal are named."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ottla.balance import exchanges
from ottla.balance.assignment import Assignment
from ottla.balance.exchanges import Exchanges, Figure
from ottla.balance.goals import DistributionGoal, Goal, RackGoal, default_goals
from ottla.balance.metrics import DISK, LEADERS, REPLICAS
from ottla.balance.planner import Plan, make_plan
from ottla.balance.state import BrokerState, ClusterState, PartitionState
from ottla.balance.steps import make_steps
from ottla.model.ids import TopicPartition
from tests.unit.balance.clusters import cluster_of

# Clusters in which single moves leave soft goals unreached, and in which racks do not forbid any.
SWAPPED = (4, 5, 16, 17, 25, 28, 31, 94, 107)


def cluster(
    *partitions: tuple[tuple[int, ...], float], brokers: int, racks: int = 0, disk: float = 1e9
) -> ClusterState:
    return ClusterState(
        brokers={broker_id: BrokerState(broker_id=broker_id, disk_bytes=disk) for broker_id in range(1, brokers + 1)},
        partitions={
            TopicPartition("t", number): PartitionState(replicas=replicas, leader=replicas[0], size_bytes=size)
            for number, (replicas, size) in enumerate(partitions)
        },
    )


def unreached(plan: Plan) -> list[str]:
    return [result.goal for result in plan.goals if result.violations_after]


@pytest.mark.parametrize("seed", SWAPPED)
def test_swaps_reach_what_moves_do_not(seed: int) -> None:
    assert unreached(make_plan(cluster_of(seed))) == []


@pytest.mark.parametrize("seed", SWAPPED[:3])
def test_moves_alone_do_not(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Exchanges, "run", lambda *_: None)
    assert unreached(make_plan(cluster_of(seed))) != []


def test_two_replicas_change_places() -> None:
    """Both brokers have as many replicas as they may: only an exchange makes their disks alike."""
    state = cluster(((1,), 30.0), ((1,), 30.0), ((2,), 10.0), ((2,), 10.0), brokers=2)
    plan = make_plan(state, [DistributionGoal(REPLICAS), DistributionGoal(DISK)])
    assert unreached(plan) == []
    assert plan.size_bytes == 40
    assert sorted(movement.after for movement in plan.movements) == [(1,), (2,)]


def test_a_swap_needs_room_for_one_of_its_halves() -> None:
    """Both brokers are so full that neither can take the other's replica first."""
    rows = [((1,), 30.0), ((1,), 30.0), ((2,), 10.0), ((2,), 40.0)]
    state = cluster(*rows, brokers=2, disk=75.0)
    goals: list[Goal] = [goal for goal in default_goals() if goal.name in ("disk capacity", "disk distribution")]
    assert make_plan(state, goals).is_empty
    tight = cluster(((1,), 31.0), ((1,), 31.0), ((2,), 20.0), ((2,), 20.0), brokers=2, disk=78.0)
    chosen: list[Goal] = [goal for goal in default_goals() if goal.name != "topic distribution"]
    plan = make_plan(tight, chosen)
    assert not make_steps(tight, plan.movements).postponed


def test_a_third_broker_takes_and_gives() -> None:
    """Racks keep the fullest broker from giving to the emptiest: it is in every rack where a replica is already."""
    for seed in (107, 170):
        plan = make_plan(cluster_of(seed), [RackGoal(), DistributionGoal(REPLICAS)])
        assert unreached(plan) == []


def test_leaderships_go_round_a_third_broker() -> None:
    """Broker 1 leads too much, and broker 3 nothing; they share no partition."""
    rows = [((1, 2), 1.0)] * 8 + [((2, 3), 1.0)] * 4
    plan = make_plan(cluster(*rows, brokers=3), [DistributionGoal(LEADERS)])
    assert unreached(plan) == []
    assert plan.size_bytes == 0


@pytest.mark.parametrize("seed", [3, 13])
def test_racks_that_forbid_a_goal_are_named(seed: int) -> None:
    plan = make_plan(cluster_of(seed))
    left = {result.goal: result.left[0] for result in plan.goals if result.violations_after}
    assert set(left) == {"replicas distribution", "disk distribution", "network in distribution"}
    assert all(text.startswith("no plan reaches it: rack r") for text in left.values())


def test_one_broker_in_a_rack_of_two_carries_half() -> None:
    state = cluster(*[((1, 2), 1.0), ((1, 3), 1.0), ((1, 4), 1.0)] * 4, brokers=4)
    brokers = {
        broker_id: replace(broker, rack="a" if broker_id == 1 else "b") for broker_id, broker in state.brokers.items()
    }
    plan = make_plan(ClusterState(brokers=brokers, partitions=state.partitions))
    (result,) = [row for row in plan.goals if row.goal == "replicas distribution"]
    assert result.left[0] == "no plan reaches it: rack a has to carry 12 of at most 7"


def test_the_work_grows_no_faster_than_the_partitions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exchanges, "LEADS_MAX", 10, raising=False)
    looks = 0
    excess = Figure.excess

    def counted(figure: Figure, carried: float) -> float:
        nonlocal looks
        looks += 1
        return excess(figure, carried)

    monkeypatch.setattr(Figure, "excess", counted)
    work = []
    for partitions in (100, 400):
        rows = [((number % 2 + 1, 2 - number % 2), 1.0) for number in range(partitions)]
        assignment = Assignment(cluster(*rows, brokers=2))
        looks = 0
        # Leaderships of the same share: an exchange of two never helps.
        Exchanges(assignment, [Forbidding()]).run(
            Figure(lambda broker_id: float(broker_id), lambda _, leads: float(leads), 0.0, 1.5, is_of_leaders=True)
        )
        work.append(looks)
    assert work[1] < 5 * work[0]


class Forbidding(RackGoal):
    """A hard goal that accepts nothing."""

    def accepts_move(self, *_: object) -> bool:
        return False

    def accepts_lead(self, *_: object) -> bool:
        return False
