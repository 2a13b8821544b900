"""A lower bound of the bytes that any plan has to move, against which plans are measured.

A broker that carries too much of a figure has to give away the excess, at best by the replicas with the fewest bytes
for it; a broker that carries too little has to get the difference. Brokers are treated independently, and replicas as
divisible, except the last replica that leaves a full disk. So no plan that reaches all goals moves fewer bytes, and
some plans have to move more.
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
    staying = {
        broker_id: [partition for partition in assignment.held[broker_id] if not state.must_move(partition, broker_id)]
        for broker_id in targets
    }
    sizes = state.partitions
    total = sum(current.size_bytes * len(current.replicas) for current in sizes.values())
    leaving = total - sum(sizes[partition].size_bytes for held in staying.values() for partition in held)
    forced = _forced_by_racks(assignment, [goal for goal in goals if isinstance(goal, RackGoal)])
    received = 0.0
    by_rack: defaultdict[object, float] = defaultdict(float)
    limits = [limits_of(assignment, goal, targets) for goal in goals]
    for broker_id in targets:
        bounds = [(metric, least, most[broker_id]) for metric, least, most in filter(None, limits)]
        shares = {
            metric: sum(share_of(assignment, metric, partition) for partition in staying[broker_id])
            for metric, _, _ in bounds
        }
        by_rack[state.brokers[broker_id].rack or broker_id] += max(
            (_cheapest(assignment, metric, staying[broker_id], shares[metric] - most) for metric, _, most in bounds),
            default=0.0,
        )
        absent = [partition for partition in sizes if partition not in assignment.held[broker_id]]
        received += max(
            (_cheapest(assignment, metric, absent, least - shares[metric]) for metric, least, _ in bounds), default=0.0
        )
    # The replicas that have to leave a rack may be those that a broker of the rack has to give away.
    racks = {*by_rack, *forced}
    return max(leaving + sum(max(by_rack[rack], forced[rack]) for rack in racks), received)


def limits_of(
    assignment: Assignment, goal: Goal, targets: Sequence[int]
) -> tuple[Metric, float, dict[int, float]] | None:
    """The metric of a goal, the least that every broker has to carry, and the most that a broker may carry.

    Leaders move without bytes, unless they are the only replicas.
    """
    if not isinstance(goal, CapacityGoal | DistributionGoal) or not targets:
        return None
    if goal.metric in (LEADERS, NETWORK_OUT) and any(len(replicas) > 1 for replicas in assignment.replicas.values()):
        return None
    if isinstance(goal, CapacityGoal):
        return goal.metric, 0.0, {broker_id: goal.limit(assignment, broker_id) for broker_id in targets}
    least, most = goal.computed_bounds(_total(assignment, goal.metric) / len(targets))
    return goal.metric, least, dict.fromkeys(targets, most)


def _total(assignment: Assignment, metric: Metric) -> float:
    """The total of all replicas: other brokers carry the replicas that cannot stay."""
    state = assignment.state
    return sum(
        share_of(assignment, metric, partition) * len(current.replicas)
        for partition, current in state.partitions.items()
    )


def share_of(assignment: Assignment, metric: Metric, partition: TopicPartition) -> float:
    """The share of any replica of a partition."""
    return metric.of_replica(assignment, partition, len(assignment.replicas[partition]) == 1)


def _cheapest(assignment: Assignment, metric: Metric, partitions: Iterable[TopicPartition], wanted: float) -> float:
    """The fewest bytes of replicas whose shares of a figure add up to `wanted`."""
    if wanted <= 0:
        return 0.0
    sizes = assignment.state.partitions
    rows = sorted(
        (sizes[partition].size_bytes / share, share)
        for partition in partitions
        if (share := share_of(assignment, metric, partition)) > 0
    )
    if metric is DISK:
        return _smallest(sorted(share for _, share in rows), wanted)
    fewest_bytes = 0.0
    for cost, share in rows:
        taken = min(share, wanted)
        fewest_bytes += taken * cost
        wanted -= taken
        if wanted <= 0:
            break
    return fewest_bytes


def _smallest(sizes: Sequence[float], wanted: float) -> float:
    """A lower bound of all sums of sizes that reach `wanted`.

    If the sum of the small sizes does not reach it, the sum has to contain a larger size.
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
        for partition, current in state.partitions.items():
            in_racks = Counter(
                state.brokers[broker].rack for broker in current.replicas if not state.must_move(partition, broker)
            )
            limit = goal.limit(assignment, partition)
            for rack, count in in_racks.items():
                if rack is not None and count > limit:
                    forced[rack] += (count - limit) * current.size_bytes  # type: ignore[assignment]
    return forced
