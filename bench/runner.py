"""Runs cases on two contestants in turn and gathers medians."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from bench.cases import Case, Goal, Metrics
from bench.clients import Clients
from bench.floor import FLOOR, NATIVE_FLOOR
from bench.lifecycle import GOALS, GROUP, NAME, measure_lifecycle
from tests.support.brokers import Broker

__all__ = [
    "OURS",
    "PEER",
    "CaseFailedError",
    "Figure",
    "Result",
    "grouped",
    "has_time_for_another",
    "run_case",
    "run_lifecycle",
    "run_once",
]

PEER, OURS = "kafka", "ottla"


class CaseFailedError(Exception):
    """A run that could not be measured: the broker, the error of the client, and the broker's warnings."""


@dataclass(slots=True)
class Figure:
    """One metric of one case: all runs of both brokers, their medians and the ratio."""

    metric: str
    goal: Goal | None
    runs: dict[str, list[float]]

    def median(self, contestant: str) -> float:
        return statistics.median(self.runs[contestant])

    @property
    def ratio(self) -> float:
        peer = self.median(PEER)
        return self.median(OURS) / peer if peer else float("inf")

    @property
    def met(self) -> bool | None:
        return None if self.goal is None else self.goal.met_by(self.ratio)

    @property
    def shortfall(self) -> float:
        """How many times worse than the goal; below 1 when the goal is exceeded."""
        assert self.goal is not None
        distance = self.ratio / self.goal.ratio
        return distance if self.goal.at_most else 1 / max(distance, 1e-9)


@dataclass(slots=True)
class Result:
    group: str
    name: str
    figures: list[Figure] = field(default_factory=list)
    error: str | None = None
    # The duration of all its runs on both brokers.
    seconds: float = 0.0
    # Omitted rounds, in words.
    cut: str | None = None

    @property
    def title(self) -> str:
        return f"{self.group}: {self.name}"

    def floors_of(self, figure: Figure) -> dict[str, Figure]:
        """The figures of the minimal servers for the same work, as far as they were measured."""
        named = {floor_row(name, figure.metric): name for name in (FLOOR, NATIVE_FLOOR)}
        return {named[figure.metric]: figure for figure in self.figures if figure.metric in named}

    @property
    def others_share(self) -> float | None:
        """The CPU share of processes other than contestant and client, in the median run."""
        shares = [figure for figure in self.figures if figure.metric == "others"]
        return statistics.median(share for runs in shares[0].runs.values() for share in runs) if shares else None


def grouped(results: Sequence[Result]) -> dict[str, list[Result]]:
    """Results by group, in the order of the first appearance of each group."""
    by_name: dict[str, list[Result]] = {}
    for result in results:
        by_name.setdefault(result.group, []).append(result)
    return by_name


def run_case(
    case: Case,
    brokers: Mapping[str, Broker],
    clients: Clients,
    *,
    runs: int,
    floors: Mapping[str, Broker] | None = None,
) -> Result:
    beside = {name: server for name, server in (floors or {}).items() if name in case.floors}
    contestants = {**brokers, **beside}
    for broker in contestants.values():
        for _ in range(case.warm_up_runs):
            run_once(case, broker, clients)
    measured: dict[str, list[Metrics]] = {name: [] for name in contestants}
    cut: str | None = None
    begun = time.monotonic()
    for number in range(runs):
        if not has_time_for_another(case.limit_s, rounds=number, spent_s=time.monotonic() - begun):
            cut = f"{number} of {runs} rounds: more would have taken over {case.limit_s:.0f} s"
            break
        for name in alternating(list(contestants), number):
            measured[name].append(run_once(case, contestants[name], clients))
    on_floors = {name: measured.pop(name) for name in beside}
    result = as_result(case.group, case.name, case.goals, measured)
    result.cut = cut
    for name, runs_on_floor in reversed(on_floors.items()):
        add_floor(result, name, case.floor_metric or "", runs_on_floor)
    return result


def add_floor(result: Result, name: str, metric: str, runs: Sequence[Metrics]) -> None:
    """Adds a minimal server's figure in Ottla's column, so that its ratio is the best that is possible."""
    at, own = next((at, figure) for at, figure in enumerate(result.figures) if figure.metric == metric)
    floor = Figure(floor_row(name, metric), None, {PEER: own.runs[PEER], OURS: [run[metric] for run in runs]})
    result.figures.insert(at + 1, floor)


def floor_row(name: str, metric: str) -> str:
    return f"({name} of {metric})"


def has_time_for_another(limit_s: float | None, *, rounds: int, spent_s: float) -> bool:
    """Whether a round as long as those before ends in time. The first is always run."""
    return limit_s is None or rounds == 0 or spent_s * (rounds + 1) / rounds <= limit_s


def run_once(case: Case, broker: Broker, clients: Clients) -> Metrics:
    try:
        return case.run(broker, clients)
    except Exception as error:
        # Any failure of client, node or wait: the other cases are still measured.
        raise CaseFailedError(f"{broker.name}: {str(error)[-300:]}\n{broker.complaints()}") from error


def run_lifecycle(makers: Mapping[str, Callable[[Path], Broker]], directory: Path, *, runs: int) -> Result:
    measured: dict[str, list[Metrics]] = {name: [] for name in makers}
    for number in range(runs):
        for name in alternating(list(makers), number):
            measured[name].append(measure_lifecycle(makers[name], directory / f"life-{name}-{number}"))
    return as_result(GROUP, NAME, GOALS, measured)


def alternating(names: list[str], number: int) -> list[str]:
    """The order alternates with every round, so that neither broker always runs second."""
    return names if number % 2 == 0 else names[::-1]


def as_result(group: str, name: str, goals: Mapping[str, Goal], measured: dict[str, list[Metrics]]) -> Result:
    metrics = next(iter(measured.values()))[0]
    figures = [
        Figure(metric, goals.get(metric), {side: [run[metric] for run in runs] for side, runs in measured.items()})
        for metric in metrics
    ]
    return Result(group, name, figures)
