"""Swaps, where single moves do not reach a soft goal.

A goal before it often refuses a move: the broker that would get the replica has enough of another figure. Two replicas
that change places leave that figure nearly as it is. Where two brokers cannot exchange anything, because of racks, a
third one takes from the one and gives to the other. Leaderships are swapped in the same way, without a byte.

Every exchange brings brokers closer to the bounds of the goal, so the search ends. Goals before it judge the exchange
as a whole, and hard goals each half of it: there is an order in which no half violates them.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from ottla.balance.assignment import Assignment, Transfer
from ottla.balance.goals import CapacityGoal, Goal, SoftGoal
from ottla.model.ids import TopicPartition

__all__ = ["Exchanges", "Figure"]

# The brokers that are furthest away from a broker's load are asked for an exchange.
PARTNERS_MAX = 12
# Of the replicas of two brokers, so many of each are compared: the cheapest few, and if none of them helps, more.
REPLICAS_MAX = (25, 120)
# An exchange takes at least this share of what a broker has too much, so that few are enough.
USE_MIN = 0.2
# So many exchanges are tried, the cheapest first, before a broker is left as it is.
TRIES_MAX = 4_000
# Sums of sizes and rates are not exact.
TINY = 1e-6


class Figure(NamedTuple):
    """What is evened out: how much of it a broker has, how much a replica is, and between which bounds it should be."""

    of_broker: Callable[[int], float]
    # The second argument is True if the replica leads.
    of_replica: Callable[[TopicPartition, bool], float]
    least: float
    most: float
    # Leaderships are handed over too.
    is_of_leaders: bool

    def excess(self, carried: float) -> float:
        """How far a load is outside the bounds."""
        return max(carried - self.most, self.least - carried, 0.0)


class _Candidate(NamedTuple):
    # Bytes for each unit by which brokers come closer to the bounds; then those that bring most.
    price: float
    use: float
    transfers: tuple[Transfer, ...]


class Exchanges:
    """Searches exchanges that all of the goals accept."""

    def __init__(self, assignment: Assignment, goals: Sequence[Goal], *, only_leaders: bool = False) -> None:
        self._assignment = assignment
        self._only_leaders = only_leaders
        self._soft = [one for one in goals if isinstance(one, SoftGoal)]
        self._hard = [one for one in goals if one.is_hard]
        # These judge the place of one replica. Other movements do not change their verdict.
        self._placing = [one for one in self._hard if not isinstance(one, CapacityGoal)]

    def run(self, figure: Figure) -> None:
        has_changed = True
        while has_changed:
            has_changed = False
            targets = self._assignment.targets
            for broker_id in sorted(targets, key=lambda one: -figure.excess(figure.of_broker(one))):
                while figure.excess(figure.of_broker(broker_id)) > TINY and self._improve(figure, broker_id):
                    has_changed = True

    def _improve(self, figure: Figure, broker_id: int) -> bool:
        """Makes the cheapest exchange that brings the broker closer to the bounds."""
        load = figure.of_broker(broker_id)
        gives = load > figure.most
        partners = sorted(
            (one for one in self._assignment.targets if one != broker_id), key=figure.of_broker, reverse=not gives
        )[:PARTNERS_MAX]
        pairs = [(broker_id, one) if gives else (one, broker_id) for one in partners]
        use_min = max(figure.excess(load) * USE_MIN, TINY)
        for count in REPLICAS_MAX:
            found = [
                candidate
                for source, target in pairs
                for candidate in self._between(figure, source, target, use_min=use_min, count=count)
            ]
            if self._try(heapq.nsmallest(TRIES_MAX, found)):
                return True
        return any(self._try(self._through(figure, *pair, use_min=use_min)) for pair in pairs)

    def _try(self, candidates: Iterable[_Candidate]) -> bool:
        for candidate in candidates:
            if self._accepted(candidate.transfers):
                for transfer in candidate.transfers:
                    self._assignment.apply(transfer)
                return True
        return False

    def _accepted(self, transfers: tuple[Transfer, ...]) -> bool:
        if not all(goal.accepts_together(self._assignment, transfers) for goal in self._soft):
            return False
        return self._in_order(transfers) or (len(transfers) > 1 and self._in_order(transfers[::-1]))

    def _in_order(self, transfers: Sequence[Transfer]) -> bool:
        """Whether hard goals accept one transfer after the other."""
        done: list[Transfer] = []
        try:
            for transfer in transfers:
                if not all(_accepts(goal, self._assignment, transfer) for goal in self._hard):
                    return False
                self._assignment.apply(transfer)
                done.append(transfer)
            return True
        finally:
            for transfer in reversed(done):
                self._assignment.apply(transfer.back)

    # Candidates.

    def _between(self, figure: Figure, source: int, target: int, *, use_min: float, count: int) -> Iterator[_Candidate]:
        """Exchanges of two brokers after which the source has less and the target has more."""
        of_source, of_target = figure.of_broker(source), figure.of_broker(target)
        if of_source <= of_target:
            return
        before = figure.excess(of_source) + figure.excess(of_target)
        for given, taken in self._kinds(figure, source, target, use_min=use_min, count=count):
            for transfer, share, cost in given:
                for back, share_back, cost_back in taken:
                    moved = share - share_back
                    use = before - figure.excess(of_source - moved) - figure.excess(of_target + moved)
                    if use >= use_min:
                        price = max(cost + cost_back, 0.0) / use
                        transfers = (transfer,) if back is None else (transfer, back)
                        yield _Candidate(price, -use, transfers)

    def _kinds(
        self, figure: Figure, source: int, target: int, *, use_min: float, count: int
    ) -> Iterator[tuple[list[_Row], list[_RowBack]]]:
        nothing: _RowBack = (None, 0.0, 0.0)
        if figure.is_of_leaders:
            led = list(self._leads(figure, source, target))
            yield led, [nothing, *self._leads(figure, target, source)]
        if self._only_leaders:
            return
        large = (row for row in self._replicas(figure, source, target) if row[1] >= use_min)
        given = heapq.nsmallest(count, large, key=_cost)
        if given:
            yield given, [nothing, *heapq.nsmallest(count, self._replicas(figure, target, source), key=_cost)]

    def _replicas(self, figure: Figure, source: int, target: int) -> Iterator[_Row]:
        """Replicas that may go from one broker to the other as far as racks, machines and directories are concerned."""
        assignment = self._assignment
        failed = assignment.state.brokers[target].failed_replicas
        for partition in assignment.held[source]:
            if partition in assignment.held[target] or partition in failed:
                continue
            transfer = Transfer(partition, source, target)
            if self._is_placed(transfer):
                leads = assignment.leader(partition) == source
                yield transfer, figure.of_replica(partition, leads), assignment.cost(transfer)

    def _is_placed(self, transfer: Transfer) -> bool:
        return all(_accepts(goal, self._assignment, transfer) for goal in self._placing)

    def _leads(self, figure: Figure, source: int, target: int) -> Iterator[_Row]:
        assignment = self._assignment
        for partition in assignment.held[source] & assignment.held[target]:
            if assignment.leader(partition) == source:
                share = figure.of_replica(partition, True) - figure.of_replica(partition, False)
                yield Transfer(partition, source, target, is_lead=True), share, 0.0

    def _through(self, figure: Figure, source: int, target: int, *, use_min: float) -> Iterator[_Candidate]:
        """A third broker takes from the source, and gives to the target."""
        loads = figure.of_broker(source), figure.of_broker(target)
        if loads[0] <= loads[1]:
            return
        rows = self._leads if figure.is_of_leaders else self._replicas
        for middle in self._assignment.targets:
            if middle in (source, target):
                continue
            of_middle = figure.of_broker(middle)
            before = sum(map(figure.excess, (*loads, of_middle)))
            taken = sorted(rows(figure, source, middle), key=_cost)
            given = sorted(rows(figure, middle, target), key=_cost)
            for (first, share, cost), (second, share_on, cost_on) in zip(taken, given, strict=False):
                after = (loads[0] - share, loads[1] + share_on, of_middle + share - share_on)
                use = before - sum(map(figure.excess, after))
                if use >= use_min and first.partition != second.partition:
                    yield _Candidate(max(cost + cost_on, 0.0) / use, -use, (second, first))


_Row = tuple[Transfer, float, float]
_RowBack = tuple[Transfer | None, float, float]


def _cost(row: _Row) -> tuple[float, TopicPartition]:
    return row[2], row[0].partition


def _accepts(goal: Goal, assignment: Assignment, transfer: Transfer) -> bool:
    if transfer.is_lead:
        return goal.accepts_lead(assignment, transfer.partition, transfer.target)
    return goal.accepts_move(assignment, transfer.partition, transfer.source, transfer.target)
