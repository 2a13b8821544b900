"""Stamps: a header that gives every record an identity, which mirrors and sinks carry along.

    Producer({..., "interceptor.classes": "ottla.monitor.reconcile.stamps:StampingInterceptor"})

A stamp has the id of the producer, a number that counts its records of a topic, and the time of the send. Stamps
show exactly which records of a stage are missing or doubled.
"""

from __future__ import annotations

import secrets
import struct
import time
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from ottla.client.producer.interceptors import OutgoingRecord, ProducerInterceptor

__all__ = ["HEADER", "NumberSet", "Stamp", "StampingInterceptor", "read_stamp"]

HEADER = "ottla.stamp"

_LAYOUT = struct.Struct(">8sqq")


class Stamp(NamedTuple):
    origin: bytes
    number: int
    time_ms: int

    def encode(self) -> bytes:
        return _LAYOUT.pack(*self)


def read_stamp(headers: Iterable[tuple[str, bytes | None]]) -> Stamp | None:
    """The stamp among the headers of a record; None without a stamp."""
    for name, content in headers:
        if name == HEADER and content is not None and len(content) == _LAYOUT.size:
            return Stamp(*_LAYOUT.unpack(content))
    return None


class StampingInterceptor(ProducerInterceptor):
    """Stamps every record that has none yet, so a copy keeps the stamp of its source."""

    def __init__(self) -> None:
        self._origin = secrets.token_bytes(8)
        self._next: dict[str, int] = {}

    def on_send(self, record: OutgoingRecord) -> OutgoingRecord:
        if any(name == HEADER for name, _ in record.headers):
            return record
        number = self._next.get(record.topic, 0)
        self._next[record.topic] = number + 1
        stamp = Stamp(self._origin, number, time.time_ns() // 1_000_000)
        return record._replace(headers=[*record.headers, (HEADER, stamp.encode())])


class NumberSet:
    """A set of numbers as intervals: nearly consecutive numbers need little memory."""

    def __init__(self) -> None:
        # Sorted, disjoint, not adjacent: the first numbers, and the numbers after the last ones.
        self._starts: list[int] = []
        self._ends: list[int] = []

    def add(self, number: int) -> bool:
        """Adds a number; returns False if the set already has it."""
        place = bisect_right(self._starts, number) - 1
        if place >= 0 and number < self._ends[place]:
            return False
        joins_left = place >= 0 and self._ends[place] == number
        joins_right = place + 1 < len(self._starts) and self._starts[place + 1] == number + 1
        if joins_left and joins_right:
            self._ends[place] = self._ends.pop(place + 1)
            del self._starts[place + 1]
        elif joins_left:
            self._ends[place] = number + 1
        elif joins_right:
            self._starts[place + 1] = number
        else:
            self._starts.insert(place + 1, number)
            self._ends.insert(place + 1, number + 1)
        return True

    def __contains__(self, number: int) -> bool:
        place = bisect_right(self._starts, number) - 1
        return place >= 0 and number < self._ends[place]

    def __len__(self) -> int:
        return sum(end - start for start, end in self.intervals())

    def intervals(self) -> Iterator[tuple[int, int]]:
        """Half-open intervals in ascending order."""
        return zip(self._starts, self._ends, strict=True)

    def without(self, other: NumberSet) -> NumberSet:
        """The numbers of this set that are not in the other set."""
        result = NumberSet()
        for start, end in self.intervals():
            at = start
            place = max(bisect_right(other._starts, start) - 1, 0)
            while place < len(other._starts) and other._starts[place] < end:
                if other._ends[place] > at:
                    result._append(at, other._starts[place])
                    at = max(at, other._ends[place])
                place += 1
            result._append(at, end)
        return result

    def _append(self, start: int, end: int) -> None:
        if start < end:
            self._starts.append(start)
            self._ends.append(end)
