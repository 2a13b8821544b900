"""Swaps, where single moves do not reach a soft goal.

An earlier goal often refuses a move, because the target broker has enough of another figure. A swap of two replicas
nearly keeps that figure. Where racks forbid an exchange between two brokers, a third broker takes from the source and
gives to the target. Leaderships are swapped in the same way, without copying a byte.

Every exchange brings brokers closer to the bounds of the goal, so the search ends. Earlier goals judge the exchange as
a whole. Hard goals judge both halves: there must be an order in which no half violates them.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from ottla.balance.assignment import Assignment, Transfer
from ottla.balance.goals import CapacityGoal, Goal, SoftGoal
from ottla.model.ids import TopicPartition

__all__ = ["Exchanges", "Figure"]

# The brokers whose load is furthest away from a broker's load are its partners for an exchange.
PARTNERS_MAX = 12
# So many of the cheapest replicas of both brokers are compared: few first, and more if no exchange of them helps.
REPLICAS_MAX = (25, 120)
# The leaderships of both brokers that are compared: every pair costs time, and a broker may lead thousands.
LEADS_MAX = 200
# An exchange removes at least this share of a broker's excess, so that few exchanges are enough.
USE_MIN = 0.2
# So many exchanges are tried, the cheapest first, before a broker is left as it is.
TRIES_MAX = 4_000
# Sums of sizes and rates are not exact.
TINY = 1e-6


class Figure(NamedTuple):
    """A figure to even out: the load of a broker, the share of a replica, and the bounds of the load."""

    of_broker: Callable[[int], float]
    # The second argument is True if the replica leads.
    of_replica: Callable[[TopicPartition, bool], float]
    least: float
    most: float
    # True if leaderships are handed over too.
    is_of_leaders: bool

    def excess(self, carried: float) -> float:
        """How far a load is outside the bounds."""
        return max(carried - self.most, self.least - carried, 0.0)


class _Candidate(NamedTuple):
    # Bytes for each unit by which brokers come closer to the bounds. At equal prices the largest use sorts first.
    price: float
    use: float
    transfers: tuple[Transfer, ...]


class Exchanges:
    """Searches exchanges that all of the goals accept."""

    def __init__(self, assignment: Assignment, goals: Sequence[Goal], *, only_leaders: bool = False) -> None:
        self._assignment = assignment
        self._only_leaders = only_leaders
        self._soft = [goal for goal in goals if isinstance(goal, SoftGoal)]
        self._hard = [goal for goal in goals if goal.is_hard]
        # These judge the place of a single replica. Other movements do not change their verdict.
        self._placing = [goal for goal in self._hard if not isinstance(goal, CapacityGoal)]

    def run(self, figure: Figure) -> None:
        has_changed = True
        while has_changed:
            has_changed = False
            targets = self._assignment.targets
            for broker_id in sorted(targets, key=lambda target: -figure.excess(figure.of_broker(target))):
                while figure.excess(figure.of_broker(broker_id)) > TINY and self._improve(figure, broker_id):
                    has_changed = True

    def _improve(self, figure: Figure, broker_id: int) -> bool:
        """Makes the cheapest exchange that brings the broker closer to the bounds."""
        load = figure.of_broker(broker_id)
        gives = load > figure.most
        partners = sorted(
            (target for target in self._assignment.targets if target != broker_id),
            key=figure.of_broker,
            reverse=not gives,
        )[:PARTNERS_MAX]
        pairs = [(broker_id, partner) if gives else (partner, broker_id) for partner in partners]
        use_min = max(figure.excess(load) * USE_MIN, TINY)
        for count in REPLICAS_MAX:
            candidates = [
                candidate
                for source, target in pairs
                for candidate in self._between(figure, source, target, use_min=use_min, count=count)
            ]
            if self._try(heapq.nsmallest(TRIES_MAX, candidates)):
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
        """Whether hard goals accept the transfers in this order."""
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
        for outgoing, incoming in self._kinds(figure, source, target, use_min=use_min, count=count):
            for transfer, share, cost in outgoing:
                for back, share_back, cost_back in incoming:
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
        # The leaderships of the second pass would be those of the first pass.
        if figure.is_of_leaders and count == REPLICAS_MAX[0]:
            led = _sampled(self._leads(figure, source, target))
            yield led, [nothing, *_sampled(self._leads(figure, target, source))]
        if self._only_leaders:
            return
        large = (row for row in self._replicas(figure, source, target) if row[1] >= use_min)
        outgoing = heapq.nsmallest(count, large, key=_cost)
        if outgoing:
            yield outgoing, [nothing, *heapq.nsmallest(count, self._replicas(figure, target, source), key=_cost)]

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
            to_middle = sorted(rows(figure, source, middle), key=_cost)
            from_middle = sorted(rows(figure, middle, target), key=_cost)
            for (first, share, cost), (second, share_on, cost_on) in zip(to_middle, from_middle, strict=False):
                after = (loads[0] - share, loads[1] + share_on, of_middle + share - share_on)
                use = before - sum(map(figure.excess, after))
                if use >= use_min and first.partition != second.partition:
                    yield _Candidate(max(cost + cost_on, 0.0) / use, -use, (second, first))


_Row = tuple[Transfer, float, float]
_RowBack = tuple[Transfer | None, float, float]


def _cost(row: _Row) -> tuple[float, TopicPartition]:
    return row[2], row[0].partition


def _sampled(leads: Iterable[_Row]) -> list[_Row]:
    """At most `LEADS_MAX` leaderships, with shares from the smallest to the largest."""
    rows = list(leads)
    if len(rows) <= LEADS_MAX:
        return rows
    rows.sort(key=lambda row: (row[1], row[0].partition))
    return [rows[place * (len(rows) - 1) // (LEADS_MAX - 1)] for place in range(LEADS_MAX)]


def _accepts(goal: Goal, assignment: Assignment, transfer: Transfer) -> bool:
    if transfer.is_lead:
        return goal.accepts_lead(assignment, transfer.partition, transfer.target)
    return goal.accepts_move(assignment, transfer.partition, transfer.source, transfer.target)
