"""Which offset of the target holds which record of the source: exact for every record.

Offsets of the two sides differ by an amount that changes seldom: where the source has a gap (markers, aborted records,
compaction), and where the target has the marker of the mirror's own transaction. So a partition's map is a list of
runs, in which both sides count on together. Every run is a record of a topic at the target, written in the transaction
of the records that it describes.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections.abc import Iterator
from typing import NamedTuple

from ottla.mirror.messages import MalformedMessage
from ottla.model.ids import TopicPartition

__all__ = ["OffsetMap", "Run", "map_topic"]

# The number of the partition, the offset at the source, the offset at the target.
_KEY = struct.Struct(">iqq")
_VALUE = struct.Struct(">i")


def map_topic(source: str) -> str:
    return f"mm2-offset-map.{source}.internal"


class Run(NamedTuple):
    """`length` records from `source_offset` on are at the target from `target_offset` on."""

    source_offset: int
    target_offset: int
    length: int

    def key(self, partition: TopicPartition) -> bytes:
        return partition.topic.encode() + b"\0" + _KEY.pack(partition.partition, self.source_offset, self.target_offset)

    def value(self) -> bytes:
        return _VALUE.pack(self.length)

    @classmethod
    def decode(cls, key: bytes, value: bytes | None) -> tuple[TopicPartition, Run]:
        """A run that was forgotten (no value) has the length 0."""
        topic, found, rest = key.partition(b"\0")
        if not found or len(rest) != _KEY.size or (value is not None and len(value) != _VALUE.size):
            raise MalformedMessage("The record is no run of an offset map.")
        number, source_offset, target_offset = _KEY.unpack(rest)
        length = 0 if value is None else _VALUE.unpack(value)[0]
        return TopicPartition(topic.decode(), number), cls(source_offset, target_offset, length)


class OffsetMap:
    """The runs of one partition, by their offsets at the source."""

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._runs: list[Run] = []

    def __len__(self) -> int:
        return len(self._runs)

    def __iter__(self) -> Iterator[Run]:
        return iter(self._runs)

    def add(self, run: Run) -> None:
        """Adds a run, or continues the last one. A run at or before the last start replaces what is behind it.

        That happens if the topic of the source was deleted and made again.
        """
        while self._runs and self._runs[-1].source_offset >= run.source_offset:
            self._runs.pop()
            self._starts.pop()
        last = self._runs[-1] if self._runs else None
        if (
            last is not None
            and last.source_offset + last.length == run.source_offset
            and last.target_offset + last.length == run.target_offset
        ):
            self._runs[-1] = last._replace(length=last.length + run.length)
            return
        self._runs.append(run)
        self._starts.append(run.source_offset)

    def forget(self, run: Run) -> None:
        """Takes away a run, if it is there still."""
        index = bisect_right(self._starts, run.source_offset) - 1
        if index >= 0 and self._runs[index][:2] == run[:2]:
            del self._runs[index]
            del self._starts[index]

    def forget_before(self, source_offset: int) -> list[Run]:
        """Takes away the runs that end at or before an offset, but for the last one, and returns them."""
        index = max(0, min(bisect_right(self._starts, source_offset) - 1, len(self._runs) - 1))
        forgotten = self._runs[:index]
        del self._runs[:index]
        del self._starts[:index]
        return forgotten

    def translate(self, source_offset: int) -> int | None:
        """The offset at the target of the first copied record at or behind an offset of the source.

        Behind the last record it is the end of what was copied; None if nothing was copied.
        """
        if not self._runs:
            return None
        index = bisect_right(self._starts, source_offset) - 1
        if index < 0:
            return self._runs[0].target_offset
        run = self._runs[index]
        within = source_offset - run.source_offset
        if within < run.length:
            return run.target_offset + within
        if index + 1 < len(self._runs):
            return self._runs[index + 1].target_offset
        return run.target_offset + run.length
