"""A histogram of durations in bounded memory, exact to 5 %."""

from __future__ import annotations

import math
from typing import NamedTuple

__all__ = ["Latencies", "LatencySummary"]

# The bounds of two neighbouring buckets differ by this factor.
GROWTH = 1.05
SHORTEST_MS = 0.01

_LOG_GROWTH = math.log(GROWTH)


class LatencySummary(NamedTuple):
    measured: int
    average_ms: float
    p50_ms: float
    p99_ms: float
    p999_ms: float
    max_ms: float


class Latencies:
    """Counts by the logarithm of the duration."""

    def __init__(self) -> None:
        self.count = 0
        self.sum_ms = 0.0
        self.max_ms = 0.0
        self._buckets: dict[int, int] = {}

    def add(self, milliseconds: float) -> None:
        self.count += 1
        self.sum_ms += milliseconds
        self.max_ms = max(self.max_ms, milliseconds)
        bucket = math.ceil(math.log(max(milliseconds, SHORTEST_MS) / SHORTEST_MS) / _LOG_GROWTH)
        self._buckets[bucket] = self._buckets.get(bucket, 0) + 1

    def include(self, other: Latencies) -> None:
        """Adds the durations of another histogram."""
        self.count += other.count
        self.sum_ms += other.sum_ms
        self.max_ms = max(self.max_ms, other.max_ms)
        for bucket, count in other._buckets.items():
            self._buckets[bucket] = self._buckets.get(bucket, 0) + count

    def quantile(self, share: float) -> float:
        """The upper bound of the bucket with this quantile, at most the largest duration; 0 without durations."""
        wanted = share * self.count
        seen = 0
        for bucket in sorted(self._buckets):
            seen += self._buckets[bucket]
            if seen >= wanted:
                return min(SHORTEST_MS * GROWTH**bucket, self.max_ms)
        return 0.0

    def at_most(self, milliseconds: float) -> int:
        """How many durations were at most this long."""
        bucket = math.floor(math.log(max(milliseconds, SHORTEST_MS) / SHORTEST_MS) / _LOG_GROWTH + 1e-9)
        return sum(count for number, count in self._buckets.items() if number <= bucket)

    def summary(self) -> LatencySummary:
        average = self.sum_ms / self.count if self.count else 0.0
        figures = (average, self.quantile(0.5), self.quantile(0.99), self.quantile(0.999), self.max_ms)
        return LatencySummary(self.count, *(round(figure, 3) for figure in figures))
