"""The arithmetic of admission control: the size of a batch, and its split into tasks."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import NamedTuple

from ottla.model.ids import TopicPartition

__all__ = ["Lag", "limit_offsets", "split"]

# Sums of fractions may be slightly less than whole numbers.
_ROUNDING = 1e-9


class Lag(NamedTuple):
    start: int
    end: int

    @property
    def size(self) -> int:
        return self.end - self.start


def limit_offsets(
    lags: Mapping[TopicPartition, Lag], limit: float, weights: Mapping[TopicPartition, float] | None = None
) -> dict[TopicPartition, int]:
    """The end offsets of a batch of at most `limit`, in proportion to the lag of each partition.

    `weights` is the cost of an offset of a partition; the default is 1. Every partition with a lag advances by at least
    one offset; otherwise none would advance with more partitions than `limit`.
    """
    weight = dict.fromkeys(lags, 1.0) | dict(weights or {})
    total = sum(lag.size * weight[partition] for partition, lag in lags.items())
    if total <= limit:
        return {partition: lag.end for partition, lag in lags.items()}
    moving = [partition for partition, lag in lags.items() if lag.size]
    ones = sum(weight[partition] for partition in moving)
    share = max(0.0, limit - ones) / (total - ones) if total > ones else 0.0
    ends = {partition: lag.start for partition, lag in lags.items()}
    # Rounding remainders go to the next partition, so that the sum reaches the limit.
    exact = 0.0
    given = 0
    for partition in moving:
        exact += (lags[partition].size - 1) * share
        more = int(exact + _ROUNDING) - given
        given += more
        ends[partition] += 1 + more
    return ends


def split(lags: Mapping[TopicPartition, Lag], at_least: int | None) -> list[tuple[TopicPartition, Lag]]:
    """One piece for each partition; large partitions are split until there are `at_least` pieces."""
    ordered = sorted(lags.items())
    if at_least is None or at_least <= len(ordered):
        return ordered
    total = sum(lag.size for _, lag in ordered) or 1
    pieces: list[tuple[TopicPartition, Lag]] = []
    for partition, lag in ordered:
        count = max(1, min(lag.size, round(at_least * lag.size / total)))
        edges = [lag.start + lag.size * number // count for number in range(count + 1)]
        pieces += [(partition, Lag(start, end)) for start, end in pairwise(edges)]
    return pieces
