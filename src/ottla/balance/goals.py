"""Goals in the order of their priority: a later goal never undoes what an earlier goal has reached.

The order and the thresholds are those of Cruise Control. Hard goals hold after every single move of a plan.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import Protocol, runtime_checkable

from ottla.balance.assignment import Assignment, Transfer
from ottla.balance.metrics import DISK, LEADERS, NETWORK_IN, NETWORK_OUT, REPLICAS, Metric
from ottla.model.ids import TopicPartition

__all__ = [
    "CapacityGoal",
    "DistributionGoal",
    "Goal",
    "MachineGoal",
    "RackGoal",
    "SoftGoal",
    "TopicGoal",
    "default_goals",
    "named_goals",
]

# A broker carries at most this share of its capacity.
CAPACITY_SHARE_MAX = 0.8
# Brokers differ from the average by at most this share.
BALANCE_SHARE = 0.1
# The same for the replicas of one topic, which are few: rounded up, and at least `TOPIC_GAP_MIN`.
TOPIC_SHARE = 2.0
TOPIC_GAP_MIN = 2


class Goal(Protocol):
    """A goal judges moves, and lists its violations."""

    @property
    def name(self) -> str: ...

    @property
    def is_hard(self) -> bool: ...

    def prepare(self, assignment: Assignment) -> None:
        """Computes the limits, which moves between the brokers do not change."""

    def accepts_move(self, assignment: Assignment, partition: TopicPartition, source: int, target: int) -> bool:
        """Whether a replica may go from `source` to `target`."""

    def accepts_lead(self, assignment: Assignment, partition: TopicPartition, target: int, /) -> bool:
        """Whether the replica on `target` may become the leader."""

    def violations(self, assignment: Assignment) -> list[str]:
        """Sentences about the violations of the goal; empty if the goal is reached."""


@runtime_checkable
class SoftGoal(Goal, Protocol):
    """A goal that does not have to hold while replicas move."""

    def accepts_together(self, assignment: Assignment, transfers: Sequence[Transfer]) -> bool:
        """Whether all transfers may happen; only the assignment after the last transfer counts."""


class RackGoal:
    """Replicas of a partition are in different racks, or as evenly in the racks as their number allows."""

    name = "rack awareness"
    is_hard = True

    def __init__(self) -> None:
        self._racks = 1

    def prepare(self, assignment: Assignment) -> None:
        brokers = (assignment.state.brokers[broker_id] for broker_id in assignment.targets)
        self._racks = max(len({broker.rack for broker in brokers if broker.rack is not None}), 1)

    def accepts_move(self, assignment: Assignment, partition: TopicPartition, source: int, target: int) -> bool:
        rack = assignment.state.brokers[target].rack
        if rack is None:
            return True
        before = assignment.racks(partition)
        after = assignment.racks(partition, without=source)
        after[rack] += 1
        limit = self.limit(assignment, partition)
        return after[rack] <= limit or max(after.values()) < max(before.values())

    def accepts_lead(self, *_: object) -> bool:
        return True

    def violations(self, assignment: Assignment) -> list[str]:
        return [
            f"{partition} has {max(racks.values())} replicas in one rack"
            for partition in assignment.replicas
            if (racks := assignment.racks(partition)) and max(racks.values()) > self.limit(assignment, partition)
        ]

    def limit(self, assignment: Assignment, partition: TopicPartition) -> int:
        """How many replicas of the partition one rack may have."""
        return math.ceil(len(assignment.replicas[partition]) / self._racks)


class MachineGoal:
    """Replicas of a partition are on different machines, as far as the machines and the racks allow it.

    A machine fails as a whole. The goal is the rule of the controller for new partitions: no second replica on a
    machine while another machine has none.
    """

    name = "machine awareness"
    is_hard = True

    def __init__(self, racks: RackGoal | None = None) -> None:
        self._of_racks = racks
        # Rack -> its machines; a machine without a rack has a key of its own.
        self._machines: dict[object, set[str | int]] = {}
        self._shares_machines = False

    def prepare(self, assignment: Assignment) -> None:
        machines: defaultdict[object, set[str | int]] = defaultdict(set)
        targets = assignment.targets
        for broker_id in targets:
            machine, rack = assignment.machine(broker_id), assignment.state.brokers[broker_id].rack
            machines[("machine", machine) if rack is None else ("rack", rack)].add(machine)
        self._machines = dict(machines)
        # All placements are equal on a single machine, and also if every broker has a machine of its own.
        self._shares_machines = 1 < len({assignment.machine(broker_id) for broker_id in targets}) < len(targets)
        if self._of_racks is not None:
            self._of_racks.prepare(assignment)

    def accepts_move(self, assignment: Assignment, partition: TopicPartition, source: int, target: int) -> bool:
        if not self._shares_machines:
            return True
        before = assignment.machines(partition)
        after = assignment.machines(partition, without=source)
        after[assignment.machine(target)] += 1
        return len(after) >= min(self.wanted(assignment, partition), len(before))

    def accepts_lead(self, *_: object) -> bool:
        return True

    def violations(self, assignment: Assignment) -> list[str]:
        if not self._shares_machines:
            return []
        return [
            f"{partition} has {max(machines.values())} replicas on one machine"
            for partition in assignment.replicas
            if len(machines := assignment.machines(partition)) < self.wanted(assignment, partition)
        ]

    def shared(self, assignment: Assignment) -> list[str]:
        """A sentence about replicas that share a machine because there are too few; empty on a single machine."""
        left = len({assignment.machine(broker_id) for broker_id in assignment.targets})
        known = {assignment.machine(broker_id) for broker_id in assignment.state.brokers}
        count = sum(
            len(assignment.machines(partition)) < len(replicas) for partition, replicas in assignment.replicas.items()
        )
        if not count or len(known) == 1:
            return []
        partitions = "1 partition has" if count == 1 else f"{count} partitions have"
        return [f"{partitions} replicas on the same machine; machines that can take replicas: {left}"]

    def wanted(self, assignment: Assignment, partition: TopicPartition) -> int:
        """On how many machines the partition should be."""
        count = len(assignment.replicas[partition])
        in_rack_max = count if self._of_racks is None else self._of_racks.limit(assignment, partition)
        return min(count, sum(min(in_rack_max, len(machines)) for machines in self._machines.values()))


class CapacityGoal:
    """No broker carries more than a share of its capacity."""

    is_hard = True

    def __init__(self, metric: Metric) -> None:
        self.metric = metric
        self.name = f"{metric.name} capacity"

    def prepare(self, assignment: Assignment) -> None:
        """Capacities do not depend on the assignment."""

    def accepts_move(self, assignment: Assignment, partition: TopicPartition, source: int, target: int) -> bool:
        leads = assignment.leader(partition) == source
        return self._fits(assignment, target, self.metric.of_replica(assignment, partition, leads))

    def accepts_lead(self, assignment: Assignment, partition: TopicPartition, target: int) -> bool:
        of_replica = self.metric.of_replica
        more = of_replica(assignment, partition, True) - of_replica(assignment, partition, False)
        return more <= 0 or self._fits(assignment, target, more)

    def violations(self, assignment: Assignment) -> list[str]:
        return [
            f"broker {broker_id} carries {self.metric.of_broker(assignment.loads[broker_id]):.0f} of at most "
            f"{self.limit(assignment, broker_id):.0f} ({self.metric.name})"
            for broker_id in assignment.targets
            if self.metric.of_broker(assignment.loads[broker_id]) > self.limit(assignment, broker_id)
        ]

    def limit(self, assignment: Assignment, broker_id: int) -> float:
        return self.metric.capacity(assignment.state.brokers[broker_id]) * CAPACITY_SHARE_MAX

    def _fits(self, assignment: Assignment, target: int, more: float) -> bool:
        return self.metric.of_broker(assignment.loads[target]) + more <= self.limit(assignment, target)


class DistributionGoal:
    """All brokers carry about the same load."""

    is_hard = False

    def __init__(self, metric: Metric) -> None:
        self.metric = metric
        self.name = f"{metric.name} distribution"
        # From the least to the most that a broker should carry.
        self.bounds = (0.0, math.inf)

    def prepare(self, assignment: Assignment) -> None:
        targets = assignment.targets
        if targets:
            total = sum(self.metric.of_broker(assignment.loads[broker_id]) for broker_id in targets)
            self.bounds = self.computed_bounds(total / len(targets))

    def computed_bounds(self, average: float) -> tuple[float, float]:
        if self.metric in (REPLICAS, LEADERS):
            return math.floor(average * (1 - BALANCE_SHARE)), math.ceil(average * (1 + BALANCE_SHARE))
        return average * (1 - BALANCE_SHARE), average * (1 + BALANCE_SHARE)

    def accepts_move(self, assignment: Assignment, partition: TopicPartition, source: int, target: int) -> bool:
        leads = assignment.leader(partition) == source
        return self._accepts(assignment, source, target, self.metric.of_replica(assignment, partition, leads))

    def accepts_lead(self, assignment: Assignment, partition: TopicPartition, target: int) -> bool:
        of_replica = self.metric.of_replica
        more = of_replica(assignment, partition, True) - of_replica(assignment, partition, False)
        return more <= 0 or self._accepts(assignment, assignment.leader(partition), target, more)

    def accepts_together(self, assignment: Assignment, transfers: Sequence[Transfer]) -> bool:
        changes: defaultdict[int, float] = defaultdict(float)
        for transfer in transfers:
            moved = self.metric.of_transfer(assignment, transfer)
            changes[transfer.source] -= moved
            changes[transfer.target] += moved
        return _come_closer(
            self.bounds,
            [(self.metric.of_broker(assignment.loads[broker_id]), more) for broker_id, more in changes.items()],
        )

    def violations(self, assignment: Assignment) -> list[str]:
        least, most = self.bounds
        sentences = []
        for broker_id in assignment.targets:
            carried = self.metric.of_broker(assignment.loads[broker_id])
            if not least <= carried <= most:
                sentences.append(f"broker {broker_id} carries {carried:.0f}, not {least:.0f} to {most:.0f}")
        return sentences

    def _accepts(self, assignment: Assignment, source: int, target: int, moved: float) -> bool:
        """Both brokers stay within the bounds, or the pair becomes more even."""
        if not moved:
            return True
        least, most = self.bounds
        of_target = self.metric.of_broker(assignment.loads[target])
        of_source = self.metric.of_broker(assignment.loads[source])
        return (of_target + moved <= most or of_target + moved <= of_source) and (
            of_source - moved >= least or of_source - moved >= of_target
        )


class TopicGoal:
    """The replicas of a topic are spread over the brokers."""

    name = "topic distribution"
    is_hard = False

    def __init__(self) -> None:
        # Topic -> the replicas that one broker may have.
        self.most: dict[str, int] = {}

    def prepare(self, assignment: Assignment) -> None:
        totals: Counter[str] = Counter()
        for partition, replicas in assignment.replicas.items():
            totals[partition.topic] += len(replicas)
        count = max(len(assignment.targets), 1)
        for topic, total in totals.items():
            average = total / count
            self.most[topic] = math.ceil(average + max(average * TOPIC_SHARE, TOPIC_GAP_MIN))

    def accepts_move(self, assignment: Assignment, partition: TopicPartition, source: int, target: int) -> bool:
        after = assignment.of_topic[(target, partition.topic)] + 1
        return after <= self.most[partition.topic] or after <= assignment.of_topic[(source, partition.topic)]

    def accepts_lead(self, *_: object) -> bool:
        return True

    def accepts_together(self, assignment: Assignment, transfers: Sequence[Transfer]) -> bool:
        changes: Counter[tuple[str, int]] = Counter()
        for partition, source, target, is_lead in transfers:
            if not is_lead:
                changes[(partition.topic, source)] -= 1
                changes[(partition.topic, target)] += 1
        return all(
            _come_closer(
                (0, self.most[topic]),
                [
                    (assignment.of_topic[(broker_id, topic)], more)
                    for (changed_topic, broker_id), more in changes.items()
                    if changed_topic == topic
                ],
            )
            for topic in {topic for topic, _ in changes}
        )

    def violations(self, assignment: Assignment) -> list[str]:
        return [
            f"broker {broker_id} has {count} replicas of {topic}, more than {self.most[topic]}"
            for (broker_id, topic), count in sorted(assignment.of_topic.items())
            if count > self.most[topic] and assignment.state.brokers[broker_id].takes_replicas
        ]


def _come_closer(bounds: tuple[float, float], changes: Sequence[tuple[float, float]]) -> bool:
    """Whether changed loads stay within the bounds, or their total distance from the bounds does not grow.

    No load ends further outside the bounds than the furthest of the loads was before.
    """
    if not any(more for _, more in changes):
        return True
    least, most = bounds
    low, high = (pick((load for load, _ in changes), default=0) for pick in (min, max))
    low, high = min(low, least), max(high, most)
    before = after = 0.0
    for load, more in changes:
        if not low <= load + more <= high:
            return False
        before += max(load - most, least - load, 0)
        after += max(load + more - most, least - load - more, 0)
    return after <= before


def default_goals() -> list[Goal]:
    racks = RackGoal()
    return [
        racks,
        MachineGoal(racks),
        CapacityGoal(REPLICAS),
        CapacityGoal(DISK),
        CapacityGoal(NETWORK_IN),
        CapacityGoal(NETWORK_OUT),
        DistributionGoal(REPLICAS),
        DistributionGoal(DISK),
        DistributionGoal(NETWORK_IN),
        DistributionGoal(NETWORK_OUT),
        DistributionGoal(LEADERS),
        TopicGoal(),
    ]


def named_goals(goals: Sequence[Goal], names: Iterable[str]) -> list[Goal]:
    """The goals with these names, in their usual order."""
    wanted = set(names)
    unknown = wanted - {goal.name for goal in goals}
    if unknown:
        known = ", ".join(goal.name for goal in goals)
        raise ValueError(f"There is no goal {sorted(unknown)[0]!r}; there are {known}.")
    return [goal for goal in goals if goal.name in wanted]
