"""A tighter bound than `bound`: the fewest bytes of any plan that brings brokers as close together as a given plan.

The bound is the Lagrange dual of the planning problem. Every broker has a price for each figure that it carries
(replicas, disk, traffic). With these prices, every partition chooses the cheapest brokers independently of the other
partitions, moved bytes included, and keeps its racks apart. The sum of all payments, minus the prices of the loads that
brokers may carry, is for any prices at most the bytes that any plan moves. Prices rise where brokers get too much and
fall where they get too little, so the bound grows towards that of the linear program.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from ottla.balance.assignment import Assignment
from ottla.balance.bound import limits_of, lower_bound_bytes, share_of
from ottla.balance.goals import Goal, RackGoal
from ottla.balance.metrics import Metric
from ottla.balance.planner import Plan
from ottla.balance.state import ClusterState

__all__ = ["best_bound_bytes", "tight_bound_bytes"]

ROUNDS = 400
# After so many rounds without a better bound, steps become half as long.
PATIENCE = 8
# The share of the last step that is kept, so that prices swing less.
INERTIA = 0.6


class _Choice(NamedTuple):
    """A partition that chooses its brokers, by their places in the list of targets."""

    size: float
    shares: tuple[float, ...]
    # 0 where it has a replica that may stay, and its size elsewhere.
    moving: tuple[float, ...]
    replicas: int
    in_rack_max: int


class _Figure(NamedTuple):
    """The least and the most that every broker carries, relative to the average."""

    least: list[float]
    most: list[float]


def best_bound_bytes(
    state: ClusterState, goals: Sequence[Goal], plan: Plan, *, enough_bytes: float = math.inf
) -> float:
    """The quick bound if it is enough, otherwise the larger bound. The plan must have a place for all replicas."""
    # The quick bound is for plans that reach all goals.
    is_reached = not any(result.violations_after for result in plan.goals)
    quick = lower_bound_bytes(state, goals) if is_reached else 0.0
    if quick >= enough_bytes:
        return quick
    return max(quick, tight_bound_bytes(state, goals, plan, enough_bytes=enough_bytes))


def tight_bound_bytes(
    state: ClusterState, goals: Sequence[Goal], plan: Plan, *, enough_bytes: float = math.inf, rounds: int = ROUNDS
) -> float:
    """Ends early with any bound of at least `enough_bytes`.

    Goals that the plan has not reached count as the plan left them: the bound is for plans that are as good.
    """
    assignment = Assignment(state)
    targets = assignment.targets
    metrics, figures, scales = _figures(state, goals, plan, assignment)
    racks = [state.brokers[broker_id].rack for broker_id in targets]
    choices = _choices(assignment, goals, metrics, scales)
    prices = [[0.0] * len(targets) for _ in metrics]
    steps = [[0.0] * len(targets) for _ in metrics]
    best, length, waited = 0.0, 1.0, 0
    for _ in range(rounds):
        value, loads = _answer(choices, racks, prices)
        value -= _allowed(figures, prices)
        if value > best:
            best, waited = value, 0
        else:
            waited += 1
            if waited >= PATIENCE:
                length, waited = length / 2, 0
        if best >= enough_bytes:
            break
        slopes = [_slopes(*rows) for rows in zip(figures, loads, prices, strict=True)]
        square = sum(slope * slope for row in slopes for slope in row)
        if not square:
            # Every partition has chosen, and no limit is violated: this is the bound itself.
            break
        step = length * max(plan.size_bytes - value, plan.size_bytes * 0.001) / square
        for price, last, row in zip(prices, steps, slopes, strict=True):
            for place, slope in enumerate(row):
                last[place] = INERTIA * last[place] + step * slope
                price[place] += last[place]
    return best


def _figures(
    state: ClusterState, goals: Sequence[Goal], plan: Plan, assignment: Assignment
) -> tuple[list[Metric], list[_Figure], list[float]]:
    """The metrics that goals limit, the limits, and the averages that everything is divided by."""
    targets = assignment.targets
    after = Assignment(_with_plan(state, plan))
    limits = [limit for goal in goals if (limit := limits_of(assignment, goal, targets)) is not None]
    metrics = list(dict.fromkeys(metric for metric, _, _ in limits))
    figures, scales = [], []
    for metric in metrics:
        reached = [metric.of_broker(after.loads[broker_id]) for broker_id in targets]
        scale = max(sum(reached) / len(targets), 1e-9)
        least = [max((low for other, low, _ in limits if other is metric), default=0.0)] * len(targets)
        most = [min(high[broker_id] for other, _, high in limits if other is metric) for broker_id in targets]
        figures.append(
            _Figure(
                [min(low, carried) / scale for low, carried in zip(least, reached, strict=True)],
                [max(high, carried) / scale for high, carried in zip(most, reached, strict=True)],
            )
        )
        scales.append(scale)
    return metrics, figures, scales


def _with_plan(state: ClusterState, plan: Plan) -> ClusterState:
    partitions = dict(state.partitions)
    for movement in plan.movements:
        partitions[movement.partition] = replace(partitions[movement.partition], replicas=movement.after)
    return ClusterState(brokers=state.brokers, partitions=partitions)


def _choices(
    assignment: Assignment, goals: Sequence[Goal], metrics: Sequence[Metric], scales: Sequence[float]
) -> list[_Choice]:
    state, targets = assignment.state, assignment.targets
    racks = next((goal for goal in goals if isinstance(goal, RackGoal)), None)
    if racks is not None:
        racks.prepare(assignment)
    choices = []
    for partition, current in state.partitions.items():
        size = current.size_bytes
        stays = [broker_id in current.replicas and not state.must_move(partition, broker_id) for broker_id in targets]
        failed = [partition in state.brokers[broker_id].failed_replicas for broker_id in targets]
        choices.append(
            _Choice(
                size,
                tuple(
                    share_of(assignment, metric, partition) / scale
                    for metric, scale in zip(metrics, scales, strict=True)
                ),
                tuple(
                    math.inf if is_failed else 0.0 if may_stay else size
                    for may_stay, is_failed in zip(stays, failed, strict=True)
                ),
                len(current.replicas),
                len(current.replicas) if racks is None else racks.limit(assignment, partition),
            )
        )
    return choices


def _answer(
    choices: Sequence[_Choice], racks: Sequence[str | None], prices: Sequence[Sequence[float]]
) -> tuple[float, list[list[float]]]:
    """The least that all partitions pay together, and the loads of the brokers for these choices."""
    places = range(len(racks))
    loads = [[0.0] * len(racks) for _ in prices]
    paid = 0.0
    # One row of prices for each broker.
    by_broker = list(zip(*prices, strict=True)) if prices else [()] * len(racks)
    for choice in choices:
        shares = choice.shares
        costs = [
            moving + sum(price * share for price, share in zip(of_broker, shares, strict=True))
            for moving, of_broker in zip(choice.moving, by_broker, strict=True)
        ]
        order = sorted(places, key=costs.__getitem__)
        chosen = order[: choice.replicas] if choice.in_rack_max >= choice.replicas else _apart(order, racks, choice)
        for place in chosen:
            paid += costs[place]
            for load, share in zip(loads, shares, strict=True):
                load[place] += share
    return paid, loads


def _apart(order: Sequence[int], racks: Sequence[str | None], choice: _Choice) -> list[int]:
    """The cheapest brokers with no rack beyond its limit: taking the cheapest that is allowed is best here."""
    chosen: list[int] = []
    in_racks: dict[str, int] = {}
    for place in order:
        rack = racks[place]
        if rack is not None:
            if in_racks.get(rack, 0) >= choice.in_rack_max:
                continue
            in_racks[rack] = in_racks.get(rack, 0) + 1
        chosen.append(place)
        if len(chosen) == choice.replicas:
            break
    return chosen


def _allowed(figures: Sequence[_Figure], prices: Sequence[Sequence[float]]) -> float:
    """The price of the most that a broker may carry, and of the least where the price is a reward."""
    total = 0.0
    for figure, row in zip(figures, prices, strict=True):
        for price, least, most in zip(row, figure.least, figure.most, strict=True):
            if price:
                total += price * (most if price > 0 else least)
    return total


def _slopes(figure: _Figure, loads: Sequence[float], prices: Sequence[float]) -> list[float]:
    """The growth of the bound with the price of every broker."""
    slopes = []
    for load, price, least, most in zip(loads, prices, figure.least, figure.most, strict=True):
        if price > 0 or (price == 0 and load > most):
            slopes.append(load - most)
        elif price < 0 or load < least:
            slopes.append(load - least)
        else:
            slopes.append(0.0)
    return slopes
