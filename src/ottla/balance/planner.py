"""Makes a plan: first moves the replicas that have to leave their brokers, then pursues the goals in order.

A move is taken only if all earlier goals and all hard goals accept it. Every move takes from a broker that carries too
much, or gives to a broker that carries too little, without making another such broker; so the planner ends. Among the
moves that help, the moves with the fewest bytes come first. Where moves do not reach a soft goal, replicas are swapped,
unless racks make the goal unreachable.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from ottla.balance.assignment import Assignment
from ottla.balance.exchanges import Exchanges, Figure
from ottla.balance.goals import (
    CapacityGoal,
    DistributionGoal,
    Goal,
    MachineGoal,
    RackGoal,
    TopicGoal,
    default_goals,
)
from ottla.balance.metrics import DISK, LEADERS, NETWORK_OUT, Metric
from ottla.balance.reachable import unreachable_because
from ottla.balance.state import ClusterState
from ottla.model.ids import TopicPartition

__all__ = ["GoalResult", "Movement", "Plan", "make_plan"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Movement:
    """The new replicas of a partition, the leader first."""

    partition: TopicPartition
    before: tuple[int, ...]
    after: tuple[int, ...]
    # Bytes that new replicas have to copy.
    size_bytes: float

    @property
    def added(self) -> tuple[int, ...]:
        return tuple(broker_id for broker_id in self.after if broker_id not in self.before)

    @property
    def removed(self) -> tuple[int, ...]:
        return tuple(broker_id for broker_id in self.before if broker_id not in self.after)


@dataclass(frozen=True, slots=True, kw_only=True)
class GoalResult:
    goal: str
    is_hard: bool
    violations_before: int
    violations_after: int
    # Some sentences about the violations that are left, also where no plan does better.
    left: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    movements: tuple[Movement, ...]
    goals: tuple[GoalResult, ...]
    # Replicas that cannot stay, and for which no broker is left.
    stranded: tuple[TopicPartition, ...]

    @property
    def size_bytes(self) -> float:
        return sum(movement.size_bytes for movement in self.movements)

    @property
    def is_empty(self) -> bool:
        return not self.movements


def make_plan(state: ClusterState, goals: Sequence[Goal] | None = None) -> Plan:
    chosen = default_goals() if goals is None else list(goals)
    assignment = Assignment(state)
    for goal in chosen:
        goal.prepare(assignment)
    before = [len(goal.violations(assignment)) for goal in chosen]
    stranded = _evacuate(assignment, [goal for goal in chosen if goal.is_hard])
    for goal in chosen:
        goal.prepare(assignment)
    for place, goal in enumerate(chosen):
        _Pursuit(assignment, goal, [*chosen[:place], *(later for later in chosen[place + 1 :] if later.is_hard)]).run()
    _take_back(assignment, chosen)
    results = []
    for goal, count in zip(chosen, before, strict=True):
        left = goal.violations(assignment)
        reason = unreachable_because(assignment, goal, chosen) if left else None
        sentences = goal.shared(assignment) if isinstance(goal, MachineGoal) and not left else left
        results.append(
            GoalResult(
                goal=goal.name,
                is_hard=goal.is_hard,
                violations_before=count,
                violations_after=len(left),
                left=tuple(sentences[:3]) if reason is None else (reason, *left[:2]),
            )
        )
    return Plan(movements=tuple(_movements(assignment)), goals=tuple(results), stranded=tuple(stranded))


def _movements(assignment: Assignment) -> Iterator[Movement]:
    for partition, replicas in sorted(assignment.replicas.items()):
        current = assignment.state.partitions[partition]
        if tuple(replicas) != current.replicas:
            added = sum(broker_id not in current.replicas for broker_id in replicas)
            yield Movement(
                partition=partition,
                before=current.replicas,
                after=tuple(replicas),
                size_bytes=added * current.size_bytes,
            )


def _evacuate(assignment: Assignment, hard: Sequence[Goal]) -> list[TopicPartition]:
    """Moves every replica that cannot stay; large replicas first, because fewer brokers have room for them."""
    state = assignment.state
    leaving = [
        (current.size_bytes, partition, broker_id)
        for partition, current in state.partitions.items()
        for broker_id in current.replicas
        if state.must_move(partition, broker_id)
    ]
    stranded = []
    for _, partition, source in sorted(leaving, key=lambda row: (-row[0], row[1], row[2])):
        holders = assignment.replicas[partition]
        fitting = [
            target
            for target in assignment.targets
            if target not in holders
            and partition not in state.brokers[target].failed_replicas
            and all(goal.accepts_move(assignment, partition, source, target) for goal in hard)
        ]
        if not fitting:
            stranded.append(partition)
            continue
        assignment.move(partition, source, min(fitting, key=lambda target: _fullness(assignment, target)))
        _prefer_living_leader(assignment, partition)
    return stranded


def _take_back(assignment: Assignment, goals: Sequence[Goal]) -> None:
    """Undoes moves that later moves have made unnecessary for all goals; large replicas first."""
    state = assignment.state
    moved = [
        partition
        for partition, current in state.partitions.items()
        if set(current.replicas) != set(assignment.replicas[partition])
    ]
    for partition in sorted(moved, key=lambda partition: (-state.partitions[partition].size_bytes, partition)):
        before = state.partitions[partition].replicas
        for source in [broker_id for broker_id in assignment.replicas[partition] if broker_id not in before]:
            for target in before:
                if target in assignment.replicas[partition] or state.must_move(partition, target):
                    continue
                if all(goal.accepts_move(assignment, partition, source, target) for goal in goals):
                    assignment.move(partition, source, target)
                    break


def _prefer_living_leader(assignment: Assignment, partition: TopicPartition) -> None:
    """Hands the leadership to a replica that has the data, instead of a replica that still has to copy it."""
    state = assignment.state
    before = state.partitions[partition].replicas
    staying = [
        broker_id
        for broker_id in assignment.replicas[partition]
        if broker_id in before and not state.must_move(partition, broker_id)
    ]
    if staying and assignment.leader(partition) not in before:
        assignment.lead(partition, min(staying, key=lambda broker_id: assignment.loads[broker_id].leaders))


def _fullness(assignment: Assignment, broker_id: int) -> tuple[float, int, int]:
    load = assignment.loads[broker_id]
    return load.disk, load.replicas, broker_id


class _Pursuit:
    """Pursues a goal by moves that the other goals accept."""

    def __init__(self, assignment: Assignment, goal: Goal, other_goals: Sequence[Goal]) -> None:
        self._assignment = assignment
        self._goal = goal
        self._other_goals = other_goals

    def run(self) -> None:
        match self._goal:
            case RackGoal():
                self._spread_racks(self._goal)
            case MachineGoal():
                self._spread_machines(self._goal)
            case CapacityGoal(metric=metric):
                for broker_id in self._assignment.targets:
                    self._relieve(metric, broker_id, self._goal.limit(self._assignment, broker_id))
            case DistributionGoal():
                self._even_out(self._goal)
            case TopicGoal():
                self._spread_topics(self._goal)

    # Racks.

    def _spread_racks(self, goal: RackGoal) -> None:
        assignment = self._assignment
        for partition in list(assignment.replicas):
            limit = goal.limit(assignment, partition)
            # From the fullest broker first: that helps the distribution of disks as well.
            holders = sorted(assignment.replicas[partition], key=lambda broker_id: -self._disk_of(broker_id))
            for source in holders:
                broker = assignment.state.brokers.get(source)
                if broker is None or broker.rack is None or assignment.racks(partition)[broker.rack] <= limit:
                    continue
                targets = sorted(assignment.targets, key=lambda broker_id: _fullness(assignment, broker_id))
                self._move_to_first(partition, source, targets)

    def _spread_machines(self, goal: MachineGoal) -> None:
        assignment = self._assignment
        for partition in list(assignment.replicas):
            for source in sorted(assignment.replicas[partition], key=lambda broker_id: -self._disk_of(broker_id)):
                machines = assignment.machines(partition)
                if len(machines) >= goal.wanted(assignment, partition):
                    break
                if machines[assignment.machine(source)] > 1:
                    free = [
                        broker_id for broker_id in assignment.targets if assignment.machine(broker_id) not in machines
                    ]
                    free.sort(key=lambda broker_id: _fullness(assignment, broker_id))
                    self._move_to_first(partition, source, free)

    # Limits and averages.

    def _even_out(self, goal: DistributionGoal) -> None:
        assignment, metric = self._assignment, goal.metric
        least, most = goal.bounds
        goals = [goal, *self._other_goals]
        figure = Figure(
            lambda broker_id: metric.of_broker(assignment.loads[broker_id]),
            lambda partition, leads: metric.of_replica(assignment, partition, leads),
            least,
            most,
            is_of_leaders=metric in (LEADERS, NETWORK_OUT),
        )
        if figure.is_of_leaders:
            # Leaders are handed over without copying bytes.
            for broker_id in sorted(assignment.targets, key=lambda target: -metric.of_broker(assignment.loads[target])):
                self._hand_over_leaders(metric, broker_id, most)
            Exchanges(assignment, goals, only_leaders=True).run(figure)
        for broker_id in sorted(assignment.targets, key=lambda target: -metric.of_broker(assignment.loads[target])):
            self._relieve(metric, broker_id, most)
        for broker_id in sorted(assignment.targets, key=lambda target: metric.of_broker(assignment.loads[target])):
            self._fill(metric, broker_id, least)
        if unreachable_because(assignment, goal, goals) is None:
            Exchanges(assignment, goals).run(figure)

    def _relieve(self, metric: Metric, source: int, limit: float) -> None:
        """Moves leaders and replicas away from a broker until it is within its limit."""
        assignment = self._assignment
        load = assignment.loads[source]
        if metric.of_broker(load) <= limit:
            return
        if metric in (LEADERS, NETWORK_OUT):
            self._hand_over_leaders(metric, source, limit)
        for partition in self._cheapest(metric, source, lambda: metric.of_broker(load) - limit):
            targets = sorted(assignment.targets, key=lambda broker_id: metric.of_broker(assignment.loads[broker_id]))
            self._move_to_first(partition, source, targets)

    def _fill(self, metric: Metric, target: int, least: float) -> None:
        """Moves leaders and replicas to a broker until it carries at least `least`."""
        assignment = self._assignment
        load = assignment.loads[target]
        sources = sorted(assignment.targets, key=lambda broker_id: -metric.of_broker(assignment.loads[broker_id]))
        for source in sources:
            if metric.of_broker(load) >= least:
                return
            if metric in (LEADERS, NETWORK_OUT):
                self._take_leaders(metric, source, target, least)
            for partition in self._cheapest(metric, source, lambda: least - metric.of_broker(load)):
                self._move_to_first(partition, source, [target])

    def _cheapest(self, metric: Metric, source: int, wanted: Callable[[], float]) -> Iterator[TopicPartition]:
        """The replicas of a broker, those with the fewest bytes for the figure first, while `wanted` is positive.

        If the figure is the size itself, all replicas cost the same for each byte. Then the largest replica that is not
        larger than `wanted` comes next, because few moves are better than many, and at the end the smallest replica
        that is larger.
        """
        assignment = self._assignment
        shares = {
            partition: metric.of_replica(assignment, partition, assignment.leader(partition) == source)
            for partition in assignment.held[source]
        }
        helpful = [partition for partition, share in shares.items() if share > 0]
        if metric is not DISK:
            sizes = assignment.state.partitions
            for partition in sorted(
                helpful, key=lambda partition: (sizes[partition].size_bytes / shares[partition], partition)
            ):
                if wanted() <= 0:
                    return
                yield partition
            return
        helpful.sort(key=lambda partition: (shares[partition], partition))
        while helpful and (left := wanted()) > 0:
            place = bisect_right(helpful, left, key=lambda partition: shares[partition])
            yield helpful.pop(max(place - 1, 0))

    def _disk_of(self, broker_id: int) -> float:
        load = self._assignment.loads.get(broker_id)
        return 0.0 if load is None else load.disk

    # Leaders cost no bytes.

    def _hand_over_leaders(self, metric: Metric, source: int, limit: float) -> None:
        assignment = self._assignment
        led = [partition for partition in assignment.held[source] if assignment.leader(partition) == source]
        for partition in sorted(led):
            if metric.of_broker(assignment.loads[source]) <= limit:
                return
            followers = [
                broker_id for broker_id in assignment.replicas[partition][1:] if self._may_lead(partition, broker_id)
            ]
            if followers:
                assignment.lead(
                    partition, min(followers, key=lambda broker_id: metric.of_broker(assignment.loads[broker_id]))
                )

    def _take_leaders(self, metric: Metric, source: int, target: int, least: float) -> None:
        assignment = self._assignment
        for partition in sorted(assignment.held[source] & assignment.held[target]):
            if metric.of_broker(assignment.loads[target]) >= least:
                return
            if assignment.leader(partition) == source and self._may_lead(partition, target):
                assignment.lead(partition, target)

    def _may_lead(self, partition: TopicPartition, broker_id: int) -> bool:
        assignment = self._assignment
        broker = assignment.state.brokers.get(broker_id)
        if broker is None or not broker.takes_replicas:
            return False
        return all(goal.accepts_lead(assignment, partition, broker_id) for goal in (self._goal, *self._other_goals))

    # Topics.

    def _spread_topics(self, goal: TopicGoal) -> None:
        assignment = self._assignment
        crowded = [
            (broker_id, topic)
            for (broker_id, topic), count in sorted(assignment.of_topic.items())
            if count > goal.most[topic] and assignment.state.brokers[broker_id].takes_replicas
        ]
        for source, topic in crowded:
            self._spread_topic(source, topic, goal.most[topic])

    def _spread_topic(self, source: int, topic: str, most: int) -> None:
        assignment = self._assignment
        sizes, of_topic = assignment.state.partitions, assignment.of_topic
        partitions = [partition for partition in assignment.held[source] if partition.topic == topic]
        for partition in sorted(partitions, key=lambda partition: (sizes[partition].size_bytes, partition)):
            if of_topic[(source, topic)] <= most:
                return
            targets = sorted(assignment.targets, key=lambda broker_id: of_topic[(broker_id, topic)])
            self._move_to_first(partition, source, targets)
        if of_topic[(source, topic)] > most:
            Exchanges(assignment, [self._goal, *self._other_goals]).run(
                Figure(
                    lambda broker_id: of_topic[(broker_id, topic)],
                    lambda partition, _: float(partition.topic == topic),
                    0.0,
                    most,
                    is_of_leaders=False,
                )
            )

    def _move_to_first(self, partition: TopicPartition, source: int, targets: Sequence[int]) -> bool:
        """Moves a replica to the first broker that all goals accept."""
        assignment = self._assignment
        holders = assignment.replicas[partition]
        for target in targets:
            if target in holders or partition in assignment.state.brokers[target].failed_replicas:
                continue
            if all(
                goal.accepts_move(assignment, partition, source, target) for goal in (self._goal, *self._other_goals)
            ):
                assignment.move(partition, source, target)
                return True
        return False
