"""Which cases to run: all of them, the quick ones, those whose name matches, or as many as fit into some minutes.

A plan for some minutes first takes the cases that together cover every goal, one of each group before a second of any,
and then fills up with the rest of the matrix, spread evenly over it. The chosen cases run in the usual order.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from itertools import chain, zip_longest

from bench.cases import Case, full_cases, quick_cases
from bench.clusters import cluster_cases
from bench.curve import CURVE
from bench.groups import essential_group_cases, full_group_cases, quick_group_cases
from bench.transactions import full_transaction_cases, quick_transaction_cases

__all__ = ["START_S", "by_settings", "choose", "fitting", "matching", "planned_seconds"]

# Start and warm-up of brokers and JVM; cases with other settings need a fresh pair of brokers.
START_S = 45.0
# A stride without a common divisor with the matrix's dimensions, so that a part of it is a fair sample.
STRIDE = 37


# The properties that two cases must share to use the same brokers.
Pair = tuple[bool, tuple[tuple[str, str], ...]]


def choose(
    *,
    quick: bool,
    pattern: str,
    minutes: float | None,
    runs: int,
    spent_s: float = 0.0,
    points: tuple[int, ...] = CURVE,
) -> list[Case]:
    """The cases of a run; `spent_s` is subtracted from the minutes first, `points` are those of the curve."""
    all_cases = [*full_cases(), *full_group_cases(), *full_transaction_cases(), *cluster_cases(points)]
    few = [*quick_cases(), *quick_group_cases(), *quick_transaction_cases()]
    cases = matching(few if quick else all_cases, pattern)
    if minutes is None:
        return cases
    titles = {case.title for case in chain(quick_cases(), essential_group_cases(), quick_transaction_cases())}
    return fitting(cases, titles, seconds=minutes * 60 - spent_s - START_S, runs=runs)


def matching(cases: Sequence[Case], pattern: str) -> list[Case]:
    return [case for case in cases if re.search(pattern, case.title)]


def fitting(cases: Sequence[Case], essential: set[str], *, seconds: float, runs: int) -> list[Case]:
    """As many cases as are expected to fit, the essential ones first."""
    chosen: set[str] = set()
    first = in_turn([case for case in cases if case.title in essential])
    others = in_turn(spread([case for case in cases if case.title not in essential]))
    pairs: set[Pair] = {(False, ())}
    for case in chain(first, others):
        pair = _pair(case)
        needed = planned_seconds(case, runs=runs) + (0.0 if pair in pairs else START_S)
        if needed <= seconds:
            pairs.add(pair)
            seconds -= needed
            chosen.add(case.title)
    return [case for case in cases if case.title in chosen]


def planned_seconds(case: Case, *, runs: int) -> float:
    seconds = (2 + len(case.floors)) * case.seconds * (runs + case.warm_up_runs)
    return seconds if case.limit_s is None else min(seconds, max(case.limit_s, 2 * case.seconds))


def by_settings(cases: Sequence[Case]) -> list[list[Case]]:
    """Groups cases that share their brokers; those with the default settings come first."""
    by_pair: dict[Pair, list[Case]] = defaultdict(list)
    for case in cases:
        by_pair[_pair(case)].append(case)
    return [by_pair[pair] for pair in sorted(by_pair, key=lambda pair: (pair[0], len(pair[1])))]


def _pair(case: Case) -> Pair:
    return case.clustered, tuple(sorted(case.settings.items()))


def in_turn(cases: Sequence[Case]) -> list[Case]:
    """One of each group, then a second of each, and so on."""
    groups: dict[str, list[Case]] = defaultdict(list)
    for case in cases:
        groups[case.group].append(case)
    return [case for row in zip_longest(*groups.values()) for case in row if case is not None]


def spread(cases: Sequence[Case]) -> list[Case]:
    """All cases, ordered so that every prefix is spread over the whole matrix."""
    places = sorted(range(len(cases)), key=lambda place: place * STRIDE % max(1, len(cases)))
    return [cases[place] for place in places]
