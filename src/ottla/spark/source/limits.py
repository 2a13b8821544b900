"""How much of what is there goes into one batch, and how a batch is cut into tasks. Plain arithmetic."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import NamedTuple

from ottla.model.ids import TopicPartition

__all__ = ["Lag", "limit_offsets", "split"]

# Sums of fractions that should be whole are a little less.
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
    """The ends of a batch of at most `limit`, shared out by how much each partition has.

    `weights` says what an offset of a partition counts, where that is not one. Each partition that has anything moves
    on by one offset at least, or none would ever move where there are more partitions than the limit is large.
    """
    weight = dict.fromkeys(lags, 1.0) | dict(weights or {})
    total = sum(lag.size * weight[one] for one, lag in lags.items())
    if total <= limit:
        return {one: lag.end for one, lag in lags.items()}
    moving = [one for one, lag in lags.items() if lag.size]
    ones = sum(weight[one] for one in moving)
    share = max(0.0, limit - ones) / (total - ones) if total > ones else 0.0
    ends = {one: lag.start for one, lag in lags.items()}
    # What one partition loses by rounding goes to the next, so that the whole is as large as it may be.
    exact = 0.0
    given = 0
    for one in moving:
        exact += (lags[one].size - 1) * share
        more = int(exact + _ROUNDING) - given
        given += more
        ends[one] += 1 + more
    return ends


def split(lags: Mapping[TopicPartition, Lag], at_least: int | None) -> list[tuple[TopicPartition, Lag]]:
    """One piece for each partition, or more for the large ones where there should be more pieces."""
    ordered = sorted(lags.items())
    if at_least is None or at_least <= len(ordered):
        return ordered
    total = sum(lag.size for _, lag in ordered) or 1
    pieces: list[tuple[TopicPartition, Lag]] = []
    for one, lag in ordered:
        count = max(1, min(lag.size, round(at_least * lag.size / total)))
        edges = [lag.start + lag.size * number // count for number in range(count + 1)]
        pieces += [(one, Lag(start, end)) for start, end in pairwise(edges)]
    return pieces
