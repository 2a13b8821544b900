"""Which offset of the target holds which record of the source: exact for every record.

Offsets of the two sides differ by an amount that changes seldom: where the source has a gap (markers, aborted records,
compaction), and where the target has the marker of the mirror's own transaction. So a partition's map is a list of
runs, in which both sides count on together. Every run is a record of a topic at the target, written in the transaction
of the records that it describes.

An origin says for which topics (their ids on both sides) the following runs hold. Where the ids of an origin differ
from those of the previous one, the topic was deleted and made again, and earlier runs do not hold any more.
"""

from __future__ import annotations

import logging
import struct
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterator
from typing import NamedTuple

from ottla.client.admin.offsets import LATEST, Offsets
from ottla.client.cluster import Cluster
from ottla.client.consumer import Consumer, ConsumerSettings
from ottla.mirror.messages import MalformedMessage
from ottla.model.ids import TopicPartition

__all__ = ["MapReader", "OffsetMap", "Origin", "Run", "map_topic"]

logger = logging.getLogger("ottla.mirror.offset_map")

# The number of the partition, the offset at the source, the offset at the target.
_KEY = struct.Struct(">iqq")
_VALUE = struct.Struct(">i")
# An origin: the number of the partition; the first copied offset, and the topic ids behind it.
_ORIGIN_KEY = struct.Struct(">i")
_ORIGIN_START = struct.Struct(">q")
_READ_WAIT_MS = 1_000


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


class Origin(NamedTuple):
    """A partition is copied from an offset of the source on, between the topics with these ids (`Pair.topic_ids`)."""

    start: int
    topic_ids: str

    def key(self, partition: TopicPartition) -> bytes:
        return partition.topic.encode() + b"\0" + _ORIGIN_KEY.pack(partition.partition)

    def value(self) -> bytes:
        return _ORIGIN_START.pack(self.start) + self.topic_ids.encode()

    @classmethod
    def decode(cls, key: bytes, value: bytes) -> tuple[TopicPartition, Origin] | None:
        """None if the record is of another kind."""
        topic, found, rest = key.partition(b"\0")
        if not found or len(rest) != _ORIGIN_KEY.size or len(value) < _ORIGIN_START.size:
            return None
        (start,) = _ORIGIN_START.unpack_from(value)
        topic_ids = value[_ORIGIN_START.size :].decode(errors="replace")
        return TopicPartition(topic.decode(errors="replace"), *_ORIGIN_KEY.unpack(rest)), cls(start, topic_ids)


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

    @property
    def source_end(self) -> int:
        """The offset of the source behind the last copied record; 0 if nothing was copied."""
        return self._runs[-1].source_offset + self._runs[-1].length if self._runs else 0

    @property
    def target_end(self) -> int:
        """The offset of the target behind the last copied record; 0 if nothing was copied."""
        return self._runs[-1].target_offset + self._runs[-1].length if self._runs else 0

    def target_of_first_copied(self, source_offset: int) -> int | None:
        """The offset at the target of the first copied record at or behind an offset of the source, if there is one."""
        return self.translate(source_offset) if source_offset < self.source_end else None

    def source_of_first_copied(self, target_offset: int) -> int | None:
        """The offset at the source of the first copied record at or behind an offset of the target, if there is one."""
        index = bisect_left(self._runs, target_offset + 1, key=lambda run: run.target_offset + run.length)
        if index == len(self._runs):
            return None
        run = self._runs[index]
        return run.source_offset + max(0, target_offset - run.target_offset)


class MapReader:
    """The map of all partitions of a flow, read from its topic at the target."""

    def __init__(self, target: Cluster, source: str) -> None:
        self._target = target
        self._place = TopicPartition(map_topic(source), 0)
        self._consumer: Consumer | None = None
        self.maps: defaultdict[TopicPartition, OffsetMap] = defaultdict(OffsetMap)
        self.origins: dict[TopicPartition, Origin] = {}

    async def refresh(self) -> None:
        """Reads what was added to the map since the last call."""
        if self._consumer is None:
            self._consumer = Consumer(
                self._target,
                ConsumerSettings(auto_offset_reset="earliest", auto_commit=False, read_committed=True),
            )
            await self._consumer.assign([self._place])
        # The last stable offset: everything below it is decided.
        end = (await Offsets(self._target).numbers([self._place], LATEST, committed=True))[self._place]
        while self._consumer.position(self._place) < end:
            for record in await self._consumer.poll(_READ_WAIT_MS):
                if record.key is None:
                    continue
                try:
                    self._apply(record.key, record.value)
                except MalformedMessage as error:
                    logger.warning("%s at offset %d: %s", self._place, record.offset, error)

    def _apply(self, key: bytes, value: bytes | None) -> None:
        origin = Origin.decode(key, value) if value is not None else None
        if origin is not None:
            place, new = origin
            before = self.origins.get(place)
            if before is not None and before.topic_ids != new.topic_ids:
                self.maps.pop(place, None)
            self.origins[place] = new
            return
        place, run = Run.decode(key, value)
        if run.length:
            self.maps[place].add(run)
        else:
            self.maps[place].forget(run)

    async def close(self) -> None:
        if self._consumer is not None:
            await self._consumer.close()
