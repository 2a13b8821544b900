"""Searches for records by timestamp.

The indexes, which belong to the loop's thread, narrow the search to a part of a segment. If they are not in memory, a
worker reads them first (`cold_lookups`). Reading and decompressing the batches of that part may take long, so a worker
does it. If there is no match, the search continues with the segment that is then the next: retention and compaction
continue meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from ottla.model.deferred import Deferred
from ottla.model.ports import File
from ottla.records.iterate import Batch, iterate_records
from ottla.storage.cold_lookups import look_up
from ottla.storage.errors import StorageError
from ottla.storage.scan import scan_headers
from ottla.storage.segment_times import position_for_timestamp
from ottla.storage.time_index import TimestampOffset

if TYPE_CHECKING:
    from ottla.model.ports import Workers
    from ottla.storage.log import PartitionLog
    from ottla.storage.segment import Segment

__all__ = ["find_first", "find_youngest"]


def find_first(log: PartitionLog, workers: Workers, timestamp: int) -> Deferred[TimestampOffset | None]:
    """The first record at or after the log's start whose timestamp is at least `timestamp`."""

    def stretch_of(segment: Segment, from_offset: int, may_wait: bool) -> _Stretch | None:
        if segment.largest(may_wait=may_wait).timestamp < timestamp:
            return None
        position = position_for_timestamp(segment, timestamp, from_offset=from_offset, may_wait=may_wait)
        return None if position is None else _Stretch(segment.file, position, segment.size, timestamp, from_offset)

    return _Search(log, workers, stretch_of, _first_of).begin()


def find_youngest(log: PartitionLog, workers: Workers) -> Deferred[TimestampOffset | None]:
    """The first record with the log's largest timestamp (KIP-734)."""
    largest = -1

    def note_largest(segment: Segment, _from_offset: int, may_wait: bool) -> None:
        nonlocal largest
        largest = max(largest, segment.largest(may_wait=may_wait).timestamp)

    def search(_: object) -> Deferred[TimestampOffset | None]:
        if largest < 0:
            return Deferred.resolved(None)
        return find_first(log, workers, largest).and_then(or_search_all)

    def or_search_all(first: TimestampOffset | None) -> Deferred[TimestampOffset | None]:
        if first is not None:
            return Deferred.resolved(first)
        # DeleteRecords removed the youngest record, but its segment is still there: all remaining records are read.
        return _Search(log, workers, _whole_stretch, _youngest_of, keeps_best=True).begin()

    return _Search(log, workers, note_largest, _first_of).begin().and_then(search)


class _Stretch(NamedTuple):
    """The batches of a segment from a position on, without records before `from_offset`."""

    file: File
    position: int
    end: int
    timestamp: int
    from_offset: int


class _Search:
    """Searches segment after segment, each on a worker."""

    __slots__ = (
        "_best",
        "_is_at_end",
        "_keeps_best",
        "_log",
        "_next_offset",
        "_outcome",
        "_search",
        "_stretch_of",
        "_workers",
    )

    def __init__(
        self,
        log: PartitionLog,
        workers: Workers,
        stretch_of: Callable[[Segment, int, bool], _Stretch | None],
        search: Callable[[_Stretch], TimestampOffset | None],
        *,
        keeps_best: bool = False,
    ) -> None:
        self._log = log
        self._workers = workers
        self._stretch_of = stretch_of
        self._search = search
        # True if a match is only a candidate, because later segments may have a better match.
        self._keeps_best = keeps_best
        self._best: TimestampOffset | None = None
        # The records below it are searched, whichever segments have them now: compaction may merge a segment that is
        # searched with one that is not.
        self._next_offset = 0
        self._is_at_end = False
        self._outcome: Deferred[TimestampOffset | None] = Deferred()

    def begin(self) -> Deferred[TimestampOffset | None]:
        self._continue()
        return self._outcome

    def _continue(self) -> None:
        # A loop: most segments are in memory, or are not searched, and a log may have thousands of them.
        while True:
            stretch = look_up(self._workers, self._stretch_of_next)
            if not stretch.done:
                stretch.when_done(self._on_next)
                return
            if not self._skips(stretch):
                return

    def _on_next(self, stretch: Deferred[_Stretch | None]) -> None:
        if self._skips(stretch):
            self._continue()

    def _stretch_of_next(self, may_wait: bool) -> _Stretch | None:
        """The part of the next segment to search; None if there is none."""
        log = self._log
        # The log may be deleted, or opened again as another object: then its files must not be used.
        log.files.failures.check()
        if self._is_at_end:
            return None
        start = max(log.log_start_offset, self._next_offset)
        segment = log.segments[log.segments.number_of(start)]
        stretch = self._stretch_of(segment, max(segment.base_offset, start), may_wait) if segment.size else None
        following = log.segments.after(segment)
        if following is None:
            self._is_at_end = True
        else:
            self._next_offset = following.base_offset
        return stretch

    def _skips(self, outcome: Deferred[_Stretch | None]) -> bool:
        """True if the search continues with the next segment now."""
        if outcome.error is not None:
            self._fail(outcome.error)
            return False
        stretch = outcome.result()
        if stretch is not None:
            self._workers.submit(self._search, stretch).when_done(self._on_searched)
            return False
        if self._is_at_end:
            self._outcome.resolve(self._best)
        return not self._is_at_end

    def _fail(self, error: BaseException) -> None:
        if isinstance(error, OSError):
            error = StorageError(f"Could not look up a time in {self._log.topic_partition}: {error}")
        self._outcome.fail(error)

    def _on_searched(self, searched: Deferred[TimestampOffset | None]) -> None:
        if searched.error is not None:
            self._fail(searched.error)
            return
        match = searched.result()
        if match is not None and (self._best is None or match.timestamp > self._best.timestamp):
            self._best = match
            if not self._keeps_best:
                self._outcome.resolve(match)
                return
        self._continue()


def _whole_stretch(segment: Segment, from_offset: int, may_wait: bool) -> _Stretch | None:
    place = segment.find(from_offset, may_wait=may_wait)
    return None if place is None else _Stretch(segment.file, place[0], segment.size, -1, from_offset)


def _first_of(stretch: _Stretch) -> TimestampOffset | None:
    for position, header in scan_headers(stretch.file, stretch.position, stretch.end):
        if header.max_timestamp >= stretch.timestamp:
            data = memoryview(stretch.file.read(position, header.size))
            for record in iterate_records(Batch(header, 0, data)):
                if record.timestamp >= stretch.timestamp and record.offset >= stretch.from_offset:
                    return TimestampOffset(record.timestamp, record.offset)
    return None


def _youngest_of(stretch: _Stretch) -> TimestampOffset | None:
    youngest: TimestampOffset | None = None
    for position, header in scan_headers(stretch.file, stretch.position, stretch.end):
        if youngest is not None and header.max_timestamp <= youngest.timestamp:
            continue
        for record in iterate_records(Batch(header, 0, memoryview(stretch.file.read(position, header.size)))):
            if record.offset >= stretch.from_offset and (youngest is None or record.timestamp > youngest.timestamp):
                youngest = TimestampOffset(record.timestamp, record.offset)
    return youngest
