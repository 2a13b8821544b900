"""Maps the offsets of records at the source to their offsets at the target, exactly for every record.

Offsets of the two sides differ by an amount that changes seldom: where the source has a gap (markers, aborted records,
compaction), and where the target has the marker of the mirror's own transaction. So a partition's map is a list of
runs, in which the offsets of both sides advance together. Every run is a record of a topic at the target, written in
the transaction of the records that it describes.

The newest runs are kept as they are. If there are too many older runs, some are removed (`thin`): an offset among the
removed runs is translated to an earlier record, so that a group reads some records twice and misses none. The run
before the removed runs keeps the number of their records. With this number a group reads about one record again for
each removed run.

An origin names the topics (by their ids on both sides) for which the following runs are valid. If the ids of an origin
differ from those of the previous origin, the topic was deleted and made again, and earlier runs are no longer valid.
"""

from __future__ import annotations

import logging
import struct
from array import array
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise
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
_THINNED_VALUE = struct.Struct(">i?qq")
# The value in earlier versions, without the number of records in the removed runs.
_OLD_THINNED_VALUE = struct.Struct(">i?")
_TAKEN = struct.Struct(">qq")
_VALUE_SIZES = (0, _VALUE.size, _OLD_THINNED_VALUE.size, _THINNED_VALUE.size)
# An origin: the number of the partition; the first copied offset, and the topic ids behind it.
_ORIGIN_KEY = struct.Struct(">i")
_ORIGIN_START = struct.Struct(">q")
_READ_WAIT_MS = 1_000
# Every transaction of a flow adds runs. No reader waits for them, so they are fetched together.
_FETCH_PAUSE_MS = 200


def map_topic(source: str) -> str:
    return f"mm2-offset-map.{source}.internal"


class Run(NamedTuple):
    """`length` records from `source_offset` on are at the target from `target_offset` on."""

    source_offset: int
    target_offset: int
    length: int
    is_thinned: bool = False
    """True if runs behind this run were removed."""
    taken_records: int = 0
    """The number of records in the removed runs, if the next run begins at `next_target`."""
    next_target: int = -1

    def key(self, partition: TopicPartition) -> bytes:
        return partition.topic.encode() + b"\0" + _KEY.pack(partition.partition, self.source_offset, self.target_offset)

    def value(self) -> bytes:
        if not self.is_thinned:
            return _VALUE.pack(self.length)
        return _THINNED_VALUE.pack(self.length, True, self.taken_records, self.next_target)

    @classmethod
    def decode(cls, key: bytes, value: bytes | None) -> tuple[TopicPartition, Run]:
        """A run that was forgotten (no value) has the length 0."""
        topic, separator, rest = key.partition(b"\0")
        if not separator or len(rest) != _KEY.size or len(value or b"") not in _VALUE_SIZES:
            raise MalformedMessage("The record is no run of an offset map.")
        number, source_offset, target_offset = _KEY.unpack(rest)
        run = cls(source_offset, target_offset, _VALUE.unpack_from(value)[0] if value else 0)
        if value and len(value) > _VALUE.size:
            taken = _TAKEN.unpack_from(value, _OLD_THINNED_VALUE.size) if len(value) == _THINNED_VALUE.size else (0, -1)
            run = run._replace(is_thinned=True, taken_records=taken[0], next_target=taken[1])
        return TopicPartition(topic.decode(), number), run


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
        topic, separator, rest = key.partition(b"\0")
        if not separator or len(rest) != _ORIGIN_KEY.size or len(value) < _ORIGIN_START.size:
            return None
        (start,) = _ORIGIN_START.unpack_from(value)
        topic_ids = value[_ORIGIN_START.size :].decode(errors="replace")
        return TopicPartition(topic.decode(errors="replace"), *_ORIGIN_KEY.unpack(rest)), cls(start, topic_ids)


class OffsetMap:
    """The runs of one partition, by their offsets at the source."""

    def __init__(self) -> None:
        # Columns, because a flow has millions of runs.
        self._sources = array("q")
        self._targets = array("q")
        self._lengths = array("q")
        self._thinned = bytearray()
        # By the source offset of a thinned run: the number of removed records, and the next target offset.
        self._taken: dict[int, tuple[int, int]] = {}

    def __len__(self) -> int:
        return len(self._sources)

    def __iter__(self) -> Iterator[Run]:
        return (self._run(index) for index in range(len(self)))

    def add(self, run: Run) -> None:
        """Adds a run, or continues the last run. A run at or before the last start replaces the runs behind it.

        That happens if the topic of the source was deleted and made again. A thinned run is written a second time and
        goes to its place.
        """
        if run.is_thinned:
            self._put(run)
            return
        keep = bisect_left(self._sources, run.source_offset)
        self._delete(keep, len(self))
        if (
            keep
            and not self._thinned[-1]
            and self._sources[-1] + self._lengths[-1] == run.source_offset
            and self._targets[-1] + self._lengths[-1] == run.target_offset
        ):
            self._lengths[-1] += run.length
            return
        self._insert(keep, run)

    def forget(self, run: Run) -> None:
        """Removes a run if it is still present."""
        index = bisect_right(self._sources, run.source_offset) - 1
        if index >= 0 and self._run(index)[:2] == run[:2]:
            self._delete(index, index + 1)

    def forget_before(self, source_offset: int) -> list[Run]:
        """Removes the runs that end at or before an offset, except the last run, and returns them."""
        index = max(0, min(bisect_right(self._sources, source_offset) - 1, len(self) - 1))
        forgotten = [self._run(number) for number in range(index)]
        self._delete(0, index)
        return forgotten

    def thin(self, limit: int) -> tuple[list[Run], list[Run]]:
        """Removes old runs if there are more than the limit. Returns the thinned runs, and the removed runs.

        The newer half of the limit stays as it is, and of the older runs a quarter of the limit is left.
        """
        old = len(self) - limit // 2
        if len(self) <= limit or old <= 0:
            return [], []
        stays = range(0, old, -(-old // max(1, limit // 4)))
        thinned: list[Run] = []
        gone: list[Run] = []
        kept: list[Run] = []
        behind: list[Run] = []
        for index, run in enumerate(self):
            if index < old and index not in stays:
                behind.append(run)
                continue
            if behind:
                kept[-1] = _thinned(kept[-1], behind, run)
                thinned.append(kept[-1])
                gone += behind
                behind = []
            kept.append(run)
        self._delete(0, len(self))
        for run in kept:
            self._insert(len(self), run)
        return thinned, gone

    def translate(self, source_offset: int) -> int | None:
        """The offset at the target of the first copied record at or behind an offset of the source.

        Behind the last record it is the end of the copied records; None if nothing was copied. Where runs were removed
        it is the offset of an earlier record.
        """
        if not len(self):
            return None
        index = bisect_right(self._sources, source_offset) - 1
        if index < 0:
            return self._targets[0]
        within = source_offset - self._sources[index]
        if within < self._lengths[index]:
            return self._targets[index] + within
        end = self._targets[index] + self._lengths[index]
        if index + 1 == len(self):
            return end
        if not self._thinned[index]:
            return self._targets[index + 1]
        # At least so many of the removed records are before the offset: the others fit between it and the next run.
        return end + max(0, self._taken_behind(index) - (self._sources[index + 1] - source_offset))

    @property
    def source_end(self) -> int:
        """The offset of the source behind the last copied record; 0 if nothing was copied."""
        return self._sources[-1] + self._lengths[-1] if len(self) else 0

    @property
    def target_end(self) -> int:
        """The offset of the target behind the last copied record; 0 if nothing was copied."""
        return self._targets[-1] + self._lengths[-1] if len(self) else 0

    def target_of_first_copied(self, source_offset: int) -> int | None:
        """The offset at the target of the first copied record at or behind an offset of the source, if there is one."""
        return self.translate(source_offset) if source_offset < self.source_end else None

    def source_of_first_copied(self, target_offset: int) -> int | None:
        """The offset at the source of the first copied record at or behind an offset of the target, if there is one.

        Where runs were removed it is an earlier offset.
        """
        if target_offset >= self.target_end:
            return None
        index = bisect_right(self._targets, target_offset) - 1
        if index < 0:
            return self._sources[0]
        within = target_offset - self._targets[index]
        if within < self._lengths[index]:
            return self._sources[index] + within
        if not self._thinned[index]:
            return self._sources[index + 1]
        end = self._sources[index] + self._lengths[index]
        return end + max(0, self._taken_behind(index) - (self._targets[index + 1] - target_offset))

    def _taken_behind(self, index: int) -> int:
        """The number of records between a thinned run and the next run; 0 if it is not known."""
        taken, next_target = self._taken[self._sources[index]]
        # While a map is being thinned, some of the runs are still there.
        return taken if self._targets[index + 1] == next_target else 0

    def _run(self, index: int) -> Run:
        run = Run(self._sources[index], self._targets[index], self._lengths[index])
        return Run(*run[:3], True, *self._taken[run.source_offset]) if self._thinned[index] else run

    def _put(self, run: Run) -> None:
        """Puts a run in its place, instead of the runs that it covers."""
        index = bisect_left(self._sources, run.source_offset)
        self._delete(index, max(index, bisect_left(self._sources, run.source_offset + run.length)))
        self._insert(index, run)

    def _insert(self, index: int, run: Run) -> None:
        self._sources.insert(index, run.source_offset)
        self._targets.insert(index, run.target_offset)
        self._lengths.insert(index, run.length)
        self._thinned.insert(index, run.is_thinned)
        if run.is_thinned:
            self._taken[run.source_offset] = run.taken_records, run.next_target

    def _delete(self, first: int, end: int) -> None:
        if self._taken:
            for index in range(first, min(end, len(self))):
                self._taken.pop(self._sources[index], None)
        for column in (self._sources, self._targets, self._lengths, self._thinned):
            del column[first:end]


def _thinned(run: Run, behind: list[Run], following: Run) -> Run:
    """The run after the removal of the runs up to the following run. Too small a count does no harm."""
    taken = sum(removed.length for removed in behind)
    for before, after in pairwise((run, *behind, following)):
        if before.next_target == after.target_offset:
            taken += before.taken_records
    return run._replace(is_thinned=True, taken_records=taken, next_target=following.target_offset)


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
                ConsumerSettings(
                    auto_offset_reset="earliest",
                    auto_commit=False,
                    read_committed=True,
                    fetch_pause_ms=_FETCH_PAUSE_MS,
                ),
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
