"""Rates of records from offsets that are read now and then, and the choice of what to read next.

A large cluster has more partitions than can be asked about every second. Busy partitions are asked about each time, and
all other partitions in turn.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from ottla.model.ids import TopicPartition

__all__ = ["RecordRates", "next_in_turn"]


class _Seen(NamedTuple):
    at: float
    end: int


class RecordRates:
    def __init__(self) -> None:
        self._seen: dict[TopicPartition, _Seen] = {}
        # Those with a rate above 0: few in a large cluster.
        self._busy: dict[TopicPartition, float] = {}

    def update(self, at: float, ends: dict[TopicPartition, int]) -> None:
        """New ends of some partitions, read at a time in seconds."""
        for partition, end in ends.items():
            before = self._seen.get(partition)
            if before is None or at <= before.at:
                rate = 0.0
            else:
                # An end that went back belongs to a topic that was deleted and made again.
                rate = max(end - before.end, 0) / (at - before.at)
            self._seen[partition] = _Seen(at, end)
            if rate:
                self._busy[partition] = rate
            else:
                self._busy.pop(partition, None)

    def keep(self, partitions: Iterable[TopicPartition]) -> None:
        """Forgets partitions that are gone."""
        known = set(partitions)
        self._seen = {one: seen for one, seen in self._seen.items() if one in known}
        self._busy = {one: rate for one, rate in self._busy.items() if one in known}

    @property
    def total(self) -> float:
        return sum(self._busy.values())

    def by_topic(self) -> dict[str, float]:
        found: dict[str, float] = {}
        for partition, rate in self._busy.items():
            found[partition.topic] = found.get(partition.topic, 0.0) + rate
        return found

    def busiest(self, most: int) -> list[TopicPartition]:
        return sorted(self._busy, key=lambda one: -self._busy[one])[:most]


def next_in_turn(items: Sequence[TopicPartition], position: int, most: int) -> tuple[list[TopicPartition], int]:
    """The next items of an endless round, and where the round continues."""
    if not items:
        return [], 0
    begin = position % len(items)
    chosen = list(items[begin : begin + most])
    if len(chosen) < most:
        chosen += items[: min(most - len(chosen), begin)]
    return chosen, (begin + len(chosen)) % len(items)
