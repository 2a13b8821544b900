"""What is wrong with a cluster, and whether the operator wants it repaired. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from statistics import median
from typing import Literal

from ottla.balance.assignment import Assignment
from ottla.balance.goals import Goal, default_goals
from ottla.balance.state import ClusterState

__all__ = ["KINDS", "Anomaly", "AnomalyDetector", "Kind"]

Kind = Literal["dead", "directory", "skew", "slow"]

KINDS: tuple[Kind, ...] = ("dead", "directory", "skew", "slow")
# A broker is slow if producers wait this many times as long for it as for the broker in the middle.
SLOW_FACTOR = 3.0
SLOW_MS_MIN = 50.0
# With fewer brokers nothing is usual.
BROKERS_MIN = 3
# A broker that is slow in so many looks in a row is not slow by chance.
SLOW_LOOKS = 3


@dataclass(frozen=True, slots=True)
class Anomaly:
    kind: Kind
    broker_id: int | None
    text: str
    # True once it has lasted long enough to be repaired.
    is_due: bool


class AnomalyDetector:
    """Remembers since when brokers are dead or slow: one that restarts, or stalls once, must not be emptied."""

    def __init__(self, dead_after_seconds: float) -> None:
        self._dead_after_seconds = dead_after_seconds
        self._dead_since: dict[int, float] = {}
        # Broker -> in how many looks it was slow, one after the other.
        self._slow_looks: dict[int, int] = {}

    def look(self, state: ClusterState, p99_ms: Mapping[int, float], now: float) -> list[Anomaly]:
        """`p99_ms` is how long producers wait for each broker, where that is known."""
        found = [*self._dead(state, now), *_directories(state), *self._slow(p99_ms)]
        # What has to be moved anyway is planned with the rest.
        return found or _skew(state, default_goals())

    def _dead(self, state: ClusterState, now: float) -> list[Anomaly]:
        dead = {one for one, broker in state.brokers.items() if not broker.is_alive}
        self._dead_since = {one: self._dead_since.get(one, now) for one in dead}
        found = []
        for broker_id, since in sorted(self._dead_since.items()):
            seconds = now - since
            replicas = sum(broker_id in one.replicas for one in state.partitions.values())
            is_due = seconds >= self._dead_after_seconds
            text = f"broker {broker_id} is gone for {seconds:.0f} s; {replicas} partitions miss a replica"
            text += _without_place(state, broker_id)
            found.append(Anomaly("dead", broker_id, text, is_due))
        return found

    def _slow(self, p99_ms: Mapping[int, float]) -> list[Anomaly]:
        usual = median(p99_ms.values()) if p99_ms else 0.0
        limit = max(usual * SLOW_FACTOR, SLOW_MS_MIN)
        slow = [one for one, p99 in sorted(p99_ms.items()) if p99 > limit] if len(p99_ms) >= BROKERS_MIN else []
        self._slow_looks = {one: self._slow_looks.get(one, 0) + 1 for one in slow}
        return [
            Anomaly(
                "slow",
                one,
                f"broker {one} is slow: producers wait {p99_ms[one]:.0f} ms (p99), usually {usual:.0f} ms",
                self._slow_looks[one] >= SLOW_LOOKS,
            )
            for one in slow
        ]


def _without_place(state: ClusterState, broker_id: int) -> str:
    """The end of a sentence about replicas that cannot be made again, because too few brokers are left."""
    able = sum(broker.takes_replicas for broker in state.brokers.values())
    needed = [len(one.replicas) for one in state.partitions.values() if broker_id in one.replicas]
    lacking = [count for count in needed if count > able]
    if not lacking:
        return ""
    return f"; {len(lacking)} of them need {max(lacking)} brokers, and only {able} can take replicas"


def _directories(state: ClusterState) -> list[Anomaly]:
    return [
        Anomaly("directory", one, f"a directory of broker {one} has failed: {len(failed)} replicas are offline", True)
        for one, broker in sorted(state.brokers.items())
        if broker.is_alive and (failed := broker.failed_replicas)
    ]


def _skew(state: ClusterState, goals: Collection[Goal]) -> list[Anomaly]:
    assignment = Assignment(state)
    found = []
    for goal in goals:
        goal.prepare(assignment)
        violations = goal.violations(assignment)
        if violations:
            found.append(Anomaly("skew", None, f"{goal.name}: {violations[0]}", True))
    return found
