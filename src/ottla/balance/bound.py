"""The fewest bytes that any plan has to move: what a plan is measured against.

Every broker that carries too much of a figure has to give it away, at best by the replicas with the fewest bytes for
it; and a broker that carries too little has to get it. Each broker is treated by itself, and replicas as divisible, but
for the last one that leaves a full disk. So no plan that reaches all goals moves less, and some have to move more.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

from ottla.balance.assignment import Assignment
from ottla.balance.goals import CapacityGoal, DistributionGoal, Goal, RackGoal
from ottla.balance.metrics import DISK, LEADERS, NETWORK_OUT, Metric
from ottla.balance.state import ClusterState
from ottla.model.ids import TopicPartition

__all__ = ["limits_of", "lower_bound_bytes", "share_of"]


def lower_bound_bytes(state: ClusterState, goals: Sequence[Goal]) -> float:
    """For a plan that reaches all of these goals."""
    assignment = Assignment(state)
    targets = assignment.targets
    staying = {one: [each for each in assignment.held[one] if not state.must_move(each, one)] for one in targets}
    sizes = state.partitions
    total = sum(one.size_bytes * len(one.replicas) for one in sizes.values())
    leaving = total - sum(sizes[each].size_bytes for held in staying.values() for each in held)
    given = _forced_by_racks(assignment, [goal for goal in goals if isinstance(goal, RackGoal)])
    got = 0.0
    by_rack: defaultdict[object, float] = defaultdict(float)
    limits = [limits_of(assignment, goal, targets) for goal in goals]
    for one in targets:
        bounds = [(metric, least, most[one]) for metric, least, most in filter(None, limits)]
        shares = {metric: sum(share_of(assignment, metric, each) for each in staying[one]) for metric, _, _ in bounds}
        by_rack[state.brokers[one].rack or one] += max(
            (_cheapest(assignment, metric, staying[one], shares[metric] - most) for metric, _, most in bounds),
            default=0.0,
        )
        others = [each for each in sizes if each not in assignment.held[one]]
        got += max(
            (_cheapest(assignment, metric, others, least - shares[metric]) for metric, least, _ in bounds), default=0.0
        )
    # What has to leave a rack may be what a broker of that rack has to give anyway.
    racks = {*by_rack, *given}
    return max(leaving + sum(max(by_rack[rack], given[rack]) for rack in racks), got)


def limits_of(
    assignment: Assignment, goal: Goal, targets: Sequence[int]
) -> tuple[Metric, float, dict[int, float]] | None:
    """The metric of a goal, what every broker has to carry, and what each may carry.

    Leaders move without bytes, unless they are the only replicas.
    """
    if not isinstance(goal, CapacityGoal | DistributionGoal) or not targets:
        return None
    if goal.metric in (LEADERS, NETWORK_OUT) and any(len(one) > 1 for one in assignment.replicas.values()):
        return None
    if isinstance(goal, CapacityGoal):
        return goal.metric, 0.0, {one: goal.limit(assignment, one) for one in targets}
    least, most = goal.computed_bounds(_total(assignment, goal.metric) / len(targets))
    return goal.metric, least, dict.fromkeys(targets, most)


def _total(assignment: Assignment, metric: Metric) -> float:
    """Of all replicas: those that cannot stay are carried by other brokers afterwards."""
    state = assignment.state
    return sum(share_of(assignment, metric, each) * len(one.replicas) for each, one in state.partitions.items())


def share_of(assignment: Assignment, metric: Metric, partition: TopicPartition) -> float:
    """The share of any replica of a partition."""
    return metric.of_replica(assignment, partition, len(assignment.replicas[partition]) == 1)


def _cheapest(assignment: Assignment, metric: Metric, partitions: Iterable[TopicPartition], wanted: float) -> float:
    """The fewest bytes of replicas that are so much of a figure."""
    if wanted <= 0:
        return 0.0
    sizes = assignment.state.partitions
    rows = sorted(
        (sizes[each].size_bytes / share, share)
        for each in partitions
        if (share := share_of(assignment, metric, each)) > 0
    )
    if metric is DISK:
        return _smallest(sorted(share for _, share in rows), wanted)
    found = 0.0
    for cost, share in rows:
        taken = min(share, wanted)
        found += taken * cost
        wanted -= taken
        if wanted <= 0:
            break
    return found


def _smallest(sizes: Sequence[float], wanted: float) -> float:
    """A bound of the sum of sizes that is at least as large as wanted.

    If all the small ones are not enough together, one that is larger is among them.
    """
    together = 0.0
    for size in sizes:
        together += size
        if together >= wanted:
            return max(size, wanted)
    return wanted


def _forced_by_racks(assignment: Assignment, goals: Sequence[RackGoal]) -> Counter[object]:
    """Rack -> bytes of replicas that have to go to other racks in any plan."""
    state = assignment.state
    forced: Counter[object] = Counter()
    for goal in goals:
        goal.prepare(assignment)
        for partition, one in state.partitions.items():
            in_racks = Counter(
                state.brokers[broker].rack for broker in one.replicas if not state.must_move(partition, broker)
            )
            limit = goal.limit(assignment, partition)
            for rack, count in in_racks.items():
                if rack is not None and count > limit:
                    forced[rack] += (count - limit) * one.size_bytes  # type: ignore[assignment]
    return forced
