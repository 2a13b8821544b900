"""Acknowledgements of acquired records (KIP-932), and their form in requests."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from enum import IntEnum
from typing import NamedTuple

from ottla.model.ids import TopicPartition

__all__ = ["GAP", "Acknowledge", "Decisions", "OffsetRange", "merge", "ranges"]


class Acknowledge(IntEnum):
    """The decision about a record. The numbers are those of the protocol."""

    # The record was processed.
    ACCEPT = 1
    # The record becomes available again, for this or another consumer, if its deliveries are not used up.
    RELEASE = 2
    # The record cannot be processed by any consumer, and is not delivered again.
    REJECT = 3
    # The record is still being processed: its lock is renewed (KIP-1222).
    RENEW = 4


# An acquired offset without a record, such as one that compaction has removed.
GAP = 0

# Decisions by offset, for each partition.
Decisions = dict[TopicPartition, dict[int, int]]


class OffsetRange(NamedTuple):
    """Consecutive offsets, with one type for all of them, or a type for every offset."""

    first: int
    last: int
    types: list[int]


def ranges(decisions: Mapping[int, int]) -> list[OffsetRange]:
    """The decisions of a partition, as requests contain them."""
    return [_range(run) for run in _runs(sorted(decisions.items()))]


def _runs(ordered: Iterable[tuple[int, int]]) -> Iterator[list[tuple[int, int]]]:
    run: list[tuple[int, int]] = []
    for offset, kind in ordered:
        if run and offset != run[-1][0] + 1:
            yield run
            run = []
        run.append((offset, kind))
    if run:
        yield run


def _range(run: list[tuple[int, int]]) -> OffsetRange:
    types = [kind for _, kind in run]
    return OffsetRange(run[0][0], run[-1][0], types[:1] if len(set(types)) == 1 else types)


def merge(*many: Mapping[TopicPartition, Mapping[int, int]]) -> Decisions:
    """All decisions; later ones replace earlier ones of the same record."""
    merged: defaultdict[TopicPartition, dict[int, int]] = defaultdict(dict)
    for decisions in many:
        for partition, by_offset in decisions.items():
            merged[partition].update(by_offset)
    return dict(merged)
