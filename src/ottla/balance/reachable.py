"""Soft goals that no plan reaches, because racks have too few or too many brokers.

With two replicas in two racks, each rack has a replica of every partition. If one rack has a single broker, that broker
has half of all replicas in every plan.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence

from ottla.balance.assignment import Assignment
from ottla.balance.goals import DistributionGoal, Goal, RackGoal
from ottla.balance.metrics import LEADERS, NETWORK_OUT

__all__ = ["unreachable_because"]


def unreachable_because(assignment: Assignment, goal: Goal, goals: Sequence[Goal]) -> str | None:
    """Why no plan that keeps racks apart reaches the goal; None if racks do not forbid it."""
    racks = next((candidate for candidate in goals if isinstance(candidate, RackGoal)), None)
    if racks is None or not isinstance(goal, DistributionGoal) or goal.metric in (LEADERS, NETWORK_OUT):
        return None
    brokers: Counter[object] = Counter(
        assignment.state.brokers[broker_id].rack or broker_id for broker_id in assignment.targets
    )
    # Partitions with the same number of replicas have the same limits.
    shares: defaultdict[tuple[int, int], float] = defaultdict(float)
    for partition, replicas in assignment.replicas.items():
        share = goal.metric.of_replica(assignment, partition, False)
        shares[(len(replicas), racks.limit(assignment, partition))] += share
    least, most = goal.bounds
    for rack, count in brokers.items():
        fewest, largest = 0.0, 0.0
        for (wanted, limit), share in shares.items():
            in_rack = min(limit, count, wanted)
            elsewhere = sum(
                min(limit, other_count) for other_rack, other_count in brokers.items() if other_rack != rack
            )
            fewest += max(wanted - elsewhere, 0) * share
            largest += in_rack * share
        name = f"rack {rack}" if isinstance(rack, str) else f"broker {rack}"
        if fewest > most * count:
            return f"no plan reaches it: {name} has to carry {fewest:.0f} of at most {most * count:.0f}"
        if largest < least * count:
            return f"no plan reaches it: {name} can carry {largest:.0f} of at least {least * count:.0f}"
    return None
