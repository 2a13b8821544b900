"""Rates of records from end offsets that are read now and then, and the choice of the partitions to read next.

A large cluster has too many partitions to read all of them every second. Busy partitions are read every time, and all
other partitions in turn.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from ottla.model.ids import TopicPartition

__all__ = ["RecordRates", "next_in_turn"]


class _Sample(NamedTuple):
    at: float
    end: int


class RecordRates:
    def __init__(self) -> None:
        self._samples: dict[TopicPartition, _Sample] = {}
        # Partitions with a rate above 0, which are few in a large cluster.
        self._busy: dict[TopicPartition, float] = {}

    def update(self, at: float, ends: dict[TopicPartition, int]) -> None:
        """New end offsets of partitions, read at a time in seconds."""
        for partition, end in ends.items():
            previous = self._samples.get(partition)
            if previous is None or at <= previous.at:
                rate = 0.0
            else:
                # An end offset that went back belongs to a topic that was deleted and created again.
                rate = max(end - previous.end, 0) / (at - previous.at)
            self._samples[partition] = _Sample(at, end)
            if rate:
                self._busy[partition] = rate
            else:
                self._busy.pop(partition, None)

    def keep(self, partitions: Iterable[TopicPartition]) -> None:
        """Drops all other partitions, which are gone."""
        known = set(partitions)
        self._samples = {partition: sample for partition, sample in self._samples.items() if partition in known}
        self._busy = {partition: rate for partition, rate in self._busy.items() if partition in known}

    @property
    def total(self) -> float:
        return sum(self._busy.values())

    def by_topic(self) -> dict[str, float]:
        rates: dict[str, float] = {}
        for partition, rate in self._busy.items():
            rates[partition.topic] = rates.get(partition.topic, 0.0) + rate
        return rates

    def busiest(self, most: int) -> list[TopicPartition]:
        return sorted(self._busy, key=lambda partition: -self._busy[partition])[:most]


def next_in_turn(items: Sequence[TopicPartition], position: int, most: int) -> tuple[list[TopicPartition], int]:
    """The next items of an endless round, and the position where the round continues."""
    if not items:
        return [], 0
    begin = position % len(items)
    chosen = list(items[begin : begin + most])
    if len(chosen) < most:
        chosen += items[: min(most - len(chosen), begin)]
    return chosen, (begin + len(chosen)) % len(items)
