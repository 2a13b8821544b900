"""One segment of a log: the `.log` file and its indexes, named by its base offset.

A segment keeps file and indexes consistent. The largest timestamp and the time of the first batch are read when
retention or a roll needs them, so that opening a log with thousands of closed segments reads none of them.

Indexes have no checksum. So the batch that an entry points to is checked: it must be a batch, and must not begin after
the offset of the entry. If it does not match, the indexes are rebuilt from the log, and the result is the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from ottla.model.ports import Buffer, File
from ottla.records.header import LENGTH_OVERHEAD, BatchHeader
from ottla.storage.errors import CorruptLog
from ottla.storage.names import (
    DELETED_SUFFIX,
    INDEX_SUFFIX,
    LOG_SUFFIX,
    TIME_INDEX_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
    offset_file_name,
)
from ottla.storage.offset_index import OffsetIndex
from ottla.storage.open_files import OpenFiles
from ottla.storage.page_cache import NotCached
from ottla.storage.scan import read_header_at, scan_checked, scan_headers
from ottla.storage.segment_indexes import SegmentIndexes
from ottla.storage.segment_times import NO_TIMESTAMP, LargestSearch
from ottla.storage.time_index import TimeIndex, TimestampOffset
from ottla.storage.transaction_index import TransactionIndex

__all__ = ["BatchPlace", "Segment"]

_RELATIVE_OFFSET_MAX = (1 << 31) - 1
_OFFSET_ENTRY_BYTES = OffsetIndex.ENTRY.size
_TIME_ENTRY_BYTES = TimeIndex.ENTRY.size
_REBUILD_INTERVAL_BYTES = 4096
_READ_ENDS_MAX = 32
_NO_READ_ENDS: dict[int, int] = {}

BatchPlace = tuple[int, BatchHeader]
"""(position, header) of a batch in the segment's file."""


class Segment:
    """Created with the size of the file. `size` is the end of the valid bytes."""

    __slots__ = (
        "_file",
        "_first_timestamp",
        "_indexes",
        "_is_new",
        "_largest",
        "_pool",
        "_read_ends",
        "_waiting_search",
        "base_offset",
        "bytes_since_index_entry",
        "created_ms",
        "directory",
        "is_pinned",
        "is_tail_unread",
        "modified_ms",
        "recently_used",
        "size",
        "suffix",
    )

    def __init__(
        self,
        directory: str,
        base_offset: int,
        pool: OpenFiles,
        *,
        size: int,
        created_ms: int,
        modified_ms: int | None = None,
        suffix: str = "",
        is_new: bool = False,
    ) -> None:
        self.directory = directory
        self.base_offset = base_offset
        self.suffix = suffix
        self.size = size
        self.created_ms = created_ms
        self.modified_ms = created_ms if modified_ms is None else modified_ms
        self.bytes_since_index_entry = 0
        self.recently_used = False
        self.is_pinned = False
        # The log was opened without reading its last batches: the first append does it.
        self.is_tail_unread = False
        self._pool = pool
        self._file: File | None = None
        self._first_timestamp: int | None = None
        self._read_ends: dict[int, int] = _NO_READ_ENDS
        self._largest: TimestampOffset | None = NO_TIMESTAMP if is_new else None
        # The search for the largest timestamp, while it waits for the disk.
        self._waiting_search: LargestSearch | None = None
        self._is_new = is_new
        self._indexes: SegmentIndexes | None = None

    @classmethod
    def create(
        cls,
        directory: str,
        base_offset: int,
        pool: OpenFiles,
        *,
        now_ms: int,
        suffix: str = "",
        preallocate_bytes: int = 0,
        has_remains: bool = True,
    ) -> Segment:
        """A new, empty segment on disk. Files of the same name that a crash has left are emptied."""
        segment = cls(directory, base_offset, pool, size=0, created_ms=now_ms, suffix=suffix, is_new=True)
        file = segment.file
        if file.size:
            file.truncate(0)
        if preallocate_bytes:
            # The file is longer than its content until the segment is closed, so it must not be reopened by its length.
            file.preallocate(preallocate_bytes)
            segment.is_pinned = True
        # Creating files is the largest cost of a new partition, so an index file is created with its first entries.
        if has_remains:
            for kind in (INDEX_SUFFIX, TIME_INDEX_SUFFIX, TRANSACTION_INDEX_SUFFIX):
                if pool.files.exists(segment.path_of(kind)):
                    pool.files.remove(segment.path_of(kind))
        return segment

    def __repr__(self) -> str:
        return f"Segment({self.path!r}, size={self.size})"

    @property
    def path(self) -> str:
        return self.path_of(LOG_SUFFIX)

    def path_of(self, kind: str) -> str:
        return f"{self.directory}/{offset_file_name(self.base_offset, kind)}{self.suffix}"

    @property
    def file(self) -> File:
        """The log file, which is opened on first use."""
        file = self._file
        if file is None:
            file = self._pool.open(self, self.path)
            if file.size > self.size:
                # The bytes of a failed write that could not be truncated at the time. No batch is written after them.
                file.truncate(self.size)
            self._file = file
        self.recently_used = True
        return file

    @property
    def indexes(self) -> SegmentIndexes:
        indexes = self._indexes
        if indexes is None:
            indexes = SegmentIndexes(self.path_of, self.base_offset, self._pool, is_new=self._is_new)
            self._indexes = indexes
        return indexes

    @property
    def offset_index(self) -> OffsetIndex:
        return self.indexes.offsets

    @property
    def time_index(self) -> TimeIndex:
        return self.indexes.times

    @property
    def transaction_index(self) -> TransactionIndex:
        return self.indexes.transactions

    def release(self) -> bool:
        if self.is_pinned:
            return False
        if self._file is not None:
            self._file.trim()
        self._file = None
        return True

    # ---- writing

    def append(self, buffer: Buffer, batches: Sequence[BatchHeader], *, index_interval_bytes: int, now_ms: int) -> int:
        """Writes whole batches with one write and returns their position. On OSError nothing has changed."""
        start = position = self.size
        # Before the write, because it may read index and log, which may be refused.
        largest = self._largest or self.largest()
        file = self._file or self.file
        self.recently_used = True
        file.append(buffer)
        if position == 0:
            self._first_timestamp = batches[0].max_timestamp
        unindexed = self.bytes_since_index_entry
        for batch in batches:
            if batch.max_timestamp > largest[0]:
                self._largest = largest = TimestampOffset(
                    batch.max_timestamp, batch.base_offset + batch.last_offset_delta
                )
            if unindexed > index_interval_bytes:
                self.offset_index.append(batch.base_offset + batch.last_offset_delta, position)
                self.time_index.append(largest[0], largest[1])
                unindexed = 0
            size = LENGTH_OVERHEAD + batch.batch_length
            unindexed += size
            position += size
        self.bytes_since_index_entry = unindexed
        self.size = position
        self.modified_ms = now_ms
        assert position - start == len(buffer), "the buffer is not exactly the batches it was announced as"
        return position

    def open_file(self) -> tuple[File, int] | None:
        """The log file and the size that it must have on disk; None if it is not open."""
        return None if self._file is None else (self._file, self.size)

    def find_damage(self) -> str | None:
        """The damage that another program did to the open log file; None if the file is closed or intact."""
        file = self._file
        stored = self.size if file is None else file.stored_size()
        if stored >= self.size:
            return None
        if stored < 0:
            return f"{self.path} was removed"
        assert file is not None
        # Some file systems store zeros in a record as a hole.
        end = 0
        for batch in scan_checked(file, 0, self.size):
            end = batch.position + batch.header.size
        return None if end == self.size else f"{self.path} was truncated: it has lost bytes from position {end} on"

    def is_index_full(self, *, index_interval_bytes: int, bytes_max: int) -> bool:
        """True if `segment.index.bytes` has no room for another entry. The time index reserves an entry for closing."""
        if self.size <= self.size_without_full_index(index_interval_bytes=index_interval_bytes, bytes_max=bytes_max):
            return False
        return (
            self.offset_index.bytes_used + _OFFSET_ENTRY_BYTES > bytes_max
            or self.time_index.bytes_used + 2 * _TIME_ENTRY_BYTES > bytes_max
        )

    def size_without_full_index(self, *, index_interval_bytes: int, bytes_max: int) -> int:
        """Up to this size no index is full, because an entry covers more than one index interval."""
        return index_interval_bytes * (bytes_max // _TIME_ENTRY_BYTES - 1)

    def close_for_appends(self) -> None:
        """The segment is not active any more: writes the last time index entry and trims preallocated space."""
        if self.is_pinned:
            self.file.truncate(self.size)
            self.is_pinned = False
        elif self._file is not None:
            self._file.trim()
        if self.size:
            # Only closed segments are repaired, so a damaged one has to be closed. The index is a hint.
            with suppress(CorruptLog):
                self.time_index.append(*self.largest())
        self.offset_index.sync_file()
        self.time_index.sync_file()

    def truncate_to(self, offset: int) -> int:
        """Cuts the batch that contains `offset` and everything after it. Returns the end of the last remaining batch.

        That may be below `offset`, if there is a gap that compaction or damage has left.
        """
        place = self.find(offset)
        if place is not None:
            position = place[0]
            self.file.truncate(position)
            self.size = position
            self.offset_index.truncate_to(offset)
            self.time_index.truncate_to(offset)
            self.transaction_index.truncate_to(offset)
            self._largest = None
            self._waiting_search = None
            self._first_timestamp = None
            self._read_ends = _NO_READ_ENDS
            self.bytes_since_index_entry = 0
        return self.next_offset()

    def cut_file(self, size: int) -> None:
        """Recovery found damage at this position. The caller rebuilds the indexes."""
        self.file.truncate(size)
        self.size = size

    # ---- searching

    def holds_relative(self, offset: int) -> bool:
        """Whether the indexes can store the offset, which takes 31 bits above the base offset."""
        return 0 <= offset - self.base_offset <= _RELATIVE_OFFSET_MAX

    def find(self, offset: int, *, may_wait: bool = True) -> BatchPlace | None:
        """The batch that contains `offset`, or the next batch if compaction has left a gap there."""
        start = self._start_for(offset, may_wait=may_wait)
        for position, header in scan_headers(self.file, start, self.size, may_wait=may_wait):
            if header.base_offset + header.last_offset_delta >= offset:
                return position, header
        return None

    def note_read_end(self, position: int, header: BatchHeader) -> None:
        """A read ends before this batch. The next read probably begins with it, and then needs no search."""
        if header.magic != 2:
            return
        if self._read_ends is _NO_READ_ENDS:
            self._read_ends = {}
        elif len(self._read_ends) >= _READ_ENDS_MAX:
            del self._read_ends[next(iter(self._read_ends))]
        self._read_ends[header.base_offset] = position

    def noted_start(self, offset: int) -> int | None:
        """The position of the batch that begins with `offset`, if an earlier read has ended there."""
        return self._read_ends.get(offset)

    def boundary_at_most(self, position: int, *, may_wait: bool = True) -> int:
        """The last batch boundary at or before `position` in the index; 0 if there is none."""
        boundary = self.offset_index.boundary_at_most(position, may_wait=may_wait)
        return boundary if boundary <= self.size else 0

    def next_offset(self) -> int:
        """The offset after the last batch."""
        next_offset = self.base_offset
        for _, header in scan_headers(self.file, self._start_for(_RELATIVE_OFFSET_MAX + self.base_offset), self.size):
            next_offset = header.next_offset
        return next_offset

    @property
    def first_timestamp(self) -> int:
        """The largest timestamp of the first batch, from which the segment's age counts; -1 if empty."""
        if self._first_timestamp is None:
            if self.size == 0:
                return -1
            self._first_timestamp = read_header_at(self.file, 0, self.size).max_timestamp
        return self._first_timestamp

    def largest(self, *, may_wait: bool = True) -> TimestampOffset:
        """The largest timestamp, and the last offset of its batch; (-1, -1) if empty.

        Raises NotCached if index or headers have to be read from the disk, unless it `may_wait`.
        """
        if self._largest is None:
            self._largest = self._find_largest(may_wait=may_wait)
        return self._largest

    def largest_timestamp(self, *, may_wait: bool = True) -> int:
        """The time that retention uses: the largest timestamp, or the file's time if the records have none."""
        timestamp = self.largest(may_wait=may_wait).timestamp
        return timestamp if timestamp >= 0 else self.modified_ms

    # ---- indexes

    def rebuild_indexes(self, *, index_interval_bytes: int, is_active: bool) -> None:
        """Rebuilds offset and time index from the batch headers. The caller has checked the log."""
        self.offset_index.reset()
        self.time_index.reset()
        self.bytes_since_index_entry = 0
        largest = NO_TIMESTAMP
        for position, header in scan_headers(self.file, 0, self.size):
            if header.max_timestamp > largest.timestamp:
                largest = TimestampOffset(header.max_timestamp, header.last_offset)
            if self.bytes_since_index_entry > index_interval_bytes:
                self.offset_index.append(header.last_offset, position)
                self.time_index.append(*largest)
                self.bytes_since_index_entry = 0
            self.bytes_since_index_entry += header.size
        self._largest = largest
        if not is_active and self.size:
            self.time_index.append(*largest)

    # ---- files

    def syncable_files(self) -> list[File]:
        """The files to sync when the segment is closed."""
        return [*self.undoubted_files(), self.offset_index.sync_file(), self.time_index.sync_file()]

    def undoubted_files(self) -> list[File]:
        """Log and transaction index, which are trusted once they are durable. The other indexes are checked on use."""
        return [self.file, *self.transaction_index.syncable_files()]

    def relocate(self, *, directory: str | None = None, suffix: str | None = None) -> None:
        """The files were renamed, or are about to be. `paths` returns their new names."""
        self.directory = self.directory if directory is None else directory
        self.suffix = self.suffix if suffix is None else suffix
        if self._indexes is not None:
            self._indexes.relocate(self.path_of)

    def paths(self) -> list[str]:
        kinds = (LOG_SUFFIX, INDEX_SUFFIX, TIME_INDEX_SUFFIX, TRANSACTION_INDEX_SUFFIX)
        return [self.path_of(kind) for kind in kinds]

    def rename_suffix(self, suffix: str) -> None:
        """Renames the existing files. Only the log file makes a segment, so it becomes `.swap` last.

        The log file gets its final name first: a crash in between leaves indexes that can be matched to it.
        """
        self._rename(suffix, log_first=not suffix)

    def rename_deleted(self) -> None:
        """Renames the files to `.deleted`, the log file first, so that a crash leaves no segment without indexes."""
        self._rename(self.suffix + DELETED_SUFFIX, log_first=True)

    def _rename(self, suffix: str, *, log_first: bool) -> None:
        files, former = self._pool.files, self.suffix
        old = self.paths()
        if self._indexes is not None:
            self._indexes.write_pending()
        self.relocate(suffix=suffix)
        pairs = list(zip(old, self.paths(), strict=True))
        renamed: list[tuple[str, str]] = []
        try:
            for source, target in pairs if log_first else reversed(pairs):
                if files.exists(source):
                    files.rename(source, target)
                    renamed.append((source, target))
        except OSError:
            # A full disk may have no room for a longer name. The segment stays in service.
            self.relocate(suffix=former)
            for source, target in reversed(renamed):
                files.rename(target, source)
            raise

    def remove_files(self) -> None:
        """Removes the log file last: indexes without a log file would look like lost records."""
        self.discard()
        for path in reversed(self.paths()):
            if self._pool.files.exists(path):
                self._pool.files.remove(path)

    def close(self) -> None:
        if self.is_pinned:
            self.file.truncate(self.size)
            self.is_pinned = False
        elif self._file is not None:
            self._file.trim()
        if self.size and self._largest is not None:
            # Like in a roll: the next start finds both indexes, and gets the largest timestamp without a scan.
            self.time_index.append(*self._largest)
            self.offset_index.sync_file()
            self.time_index.sync_file()
        if self._indexes is not None:
            self._indexes.close()
        self._file = None
        self._pool.forget(self)

    def discard(self) -> None:
        """Drops the files without writing pending index entries."""
        if self._indexes is not None:
            self._indexes.discard()
        self._file = None
        self.is_pinned = False
        self._pool.forget(self)

    def use_pool(self, pool: OpenFiles) -> None:
        """Closes the files and moves the segment to another pool of open files."""
        self._file = None
        self._pool.forget(self)
        self._pool = pool
        if self._indexes is not None:
            self._indexes.use_pool(pool)

    # ---- helpers

    def _start_for(self, offset: int, *, may_wait: bool = True) -> int:
        """A position from which a scan finds `offset`: the position of the index entry, if the log matches it."""
        claimed, position = self.offset_index.lookup(offset, may_wait=may_wait)
        if position == 0:
            return 0
        try:
            if 0 < position < self.size:
                header = read_header_at(self.file, position, self.size, may_wait=may_wait)
                if self.base_offset <= header.base_offset <= claimed:
                    return position
        except CorruptLog:
            pass
        self.mend_indexes()
        return 0

    def _find_largest(self, *, may_wait: bool) -> TimestampOffset:
        if self.size == 0:
            return NO_TIMESTAMP
        search = self._waiting_search or LargestSearch(self, may_wait=may_wait)
        self._waiting_search = None
        try:
            return search.finish(self, may_wait=may_wait)
        except NotCached:
            self._waiting_search = search
            raise

    def mend_indexes(self) -> None:
        """Called if an index entry does not match the log: scans the whole log to find out which of them is damaged.

        If the log is damaged, this raises CorruptLog and keeps the indexes, so that the batches around the damage can
        still be found. An empty log file has lost its records, which its indexes show.
        """
        if self.size == 0:
            return
        for _ in scan_headers(self.file, 0, self.size):
            pass
        self.rebuild_indexes(index_interval_bytes=_REBUILD_INTERVAL_BYTES, is_active=False)
