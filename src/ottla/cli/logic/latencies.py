"""Latency figures the way Kafka's perf tools print them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

__all__ = ["Summary", "summarize"]


class Summary(NamedTuple):
    measured: int
    average_ms: float
    max_ms: float
    p50_ms: float
    p95_ms: float
    p99_ms: float
    p999_ms: float


def summarize(latencies_ms: Sequence[float]) -> Summary:
    """Percentiles by rank; all figures are 0 without a measurement."""
    ordered = sorted(latencies_ms)
    count = len(ordered)
    if not count:
        return Summary(0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)

    def rank(share: float) -> float:
        return ordered[min(int(share * count), count - 1)]

    return Summary(count, sum(ordered) / count, ordered[-1], rank(0.5), rank(0.95), rank(0.99), rank(0.999))
