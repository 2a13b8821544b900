"""Detects the anomalies of a cluster, and when they are due for repair. Pure."""

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
# A broker is slow if producers wait this many times as long for it as for the median broker.
SLOW_FACTOR = 3.0
SLOW_MS_MIN = 50.0
# With fewer brokers there is no usual latency.
BROKERS_MIN = 3
# A broker has to be slow in so many consecutive looks, because a single slow look may be chance.
SLOW_LOOKS = 3


@dataclass(frozen=True, slots=True)
class Anomaly:
    kind: Kind
    broker_id: int | None
    text: str
    # True once it has lasted long enough to be repaired.
    is_due: bool


class AnomalyDetector:
    """Remembers since when brokers are dead or slow: a broker that restarts, or stalls once, must not be emptied."""

    def __init__(self, dead_after_seconds: float) -> None:
        self._dead_after_seconds = dead_after_seconds
        self._dead_since: dict[int, float] = {}
        # Broker -> the number of consecutive looks in which it was slow.
        self._slow_looks: dict[int, int] = {}

    def look(self, state: ClusterState, p99_ms: Mapping[int, float], now: float) -> list[Anomaly]:
        """`p99_ms` is the time that producers wait for a broker; brokers with an unknown time are left out."""
        anomalies = [*self._dead(state, now), *_directories(state), *self._slow(p99_ms)]
        # The plan that repairs another anomaly evens out the skew as well.
        return anomalies or _skew(state, default_goals())

    def _dead(self, state: ClusterState, now: float) -> list[Anomaly]:
        dead = {broker_id for broker_id, broker in state.brokers.items() if not broker.is_alive}
        self._dead_since = {broker_id: self._dead_since.get(broker_id, now) for broker_id in dead}
        anomalies = []
        for broker_id, since in sorted(self._dead_since.items()):
            seconds = now - since
            replicas = sum(broker_id in partition.replicas for partition in state.partitions.values())
            is_due = seconds >= self._dead_after_seconds
            text = f"broker {broker_id} is gone for {seconds:.0f} s; {replicas} partitions miss a replica"
            text += _without_place(state, broker_id)
            anomalies.append(Anomaly("dead", broker_id, text, is_due))
        return anomalies

    def _slow(self, p99_ms: Mapping[int, float]) -> list[Anomaly]:
        usual = median(p99_ms.values()) if p99_ms else 0.0
        limit = max(usual * SLOW_FACTOR, SLOW_MS_MIN)
        slow = (
            [broker_id for broker_id, p99 in sorted(p99_ms.items()) if p99 > limit]
            if len(p99_ms) >= BROKERS_MIN
            else []
        )
        self._slow_looks = {broker_id: self._slow_looks.get(broker_id, 0) + 1 for broker_id in slow}
        return [
            Anomaly(
                "slow",
                broker_id,
                f"broker {broker_id} is slow: producers wait {p99_ms[broker_id]:.0f} ms (p99), usually {usual:.0f} ms",
                self._slow_looks[broker_id] >= SLOW_LOOKS,
            )
            for broker_id in slow
        ]


def _without_place(state: ClusterState, broker_id: int) -> str:
    """The end of a sentence, about partitions that need more brokers than are left; empty without such partitions."""
    able = sum(broker.takes_replicas for broker in state.brokers.values())
    needed = [len(partition.replicas) for partition in state.partitions.values() if broker_id in partition.replicas]
    lacking = [count for count in needed if count > able]
    if not lacking:
        return ""
    return f"; {len(lacking)} of them need {max(lacking)} brokers, and only {able} can take replicas"


def _directories(state: ClusterState) -> list[Anomaly]:
    return [
        Anomaly(
            "directory",
            broker_id,
            f"a directory of broker {broker_id} has failed: {len(failed)} replicas are offline",
            True,
        )
        for broker_id, broker in sorted(state.brokers.items())
        if broker.is_alive and (failed := broker.failed_replicas)
    ]


def _skew(state: ClusterState, goals: Collection[Goal]) -> list[Anomaly]:
    assignment = Assignment(state)
    anomalies = []
    for goal in goals:
        goal.prepare(assignment)
        violations = goal.violations(assignment)
        if violations:
            anomalies.append(Anomaly("skew", None, f"{goal.name}: {violations[0]}", True))
    return anomalies
