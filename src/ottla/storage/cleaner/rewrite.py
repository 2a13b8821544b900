"""The part of a cleaning that runs on a worker thread: reads closed segments, writes compacted ones.

It does not touch objects of the loop's thread: it opens segments by path, and has its own pool of open files. The work
is a generator, so that it can be done in steps. It yields the bytes that it has moved, which the cleaner counts for the
throttle, and finished `CleanedGroup`s, which the cleaner swaps in on the loop's thread before the next step.

Every batch is checked before it is copied: compaction must never write a new checksum for damaged bytes.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator

from ottla.model.ports import File, Files
from ottla.model.values import Value
from ottla.records.header import BatchHeader, read_header
from ottla.records.iterate import Batch, open_payload
from ottla.records.legacy import iterate_messages
from ottla.storage.cleaner.batch_filter import (
    DECOMPRESSED_BYTES_MAX,
    BatchFilter,
    FilterCounts,
    read_batch_control_type,
    spans_of,
)
from ottla.storage.cleaner.offset_map import OffsetMap
from ottla.storage.cleaner.plan import CleaningPlan, SegmentSource, group_sources
from ottla.storage.cleaner.transactions import CleanedTransactions
from ottla.storage.errors import CorruptLog
from ottla.storage.names import CLEANED_SUFFIX
from ottla.storage.open_files import OpenFiles
from ottla.storage.scan import scan_checked
from ottla.storage.segment import Segment
from ottla.storage.transaction_index import AbortedTransaction, TransactionIndex

__all__ = ["CleanedGroup", "Cleaning", "CleaningStep"]

_WRITE_BYTES = 256 * 1024
_OPEN_FILES_MAX = 8


class CleanedGroup(Value):
    """A finished `.cleaned` segment, durable and closed, and the segments that it replaces."""

    sources: tuple[SegmentSource, ...]
    segment: Segment
    is_unchanged: bool
    """The segment equals its only source, so it is not swapped in."""


class CleaningStep(Value):
    """The result of one step."""

    bytes_moved: int
    group: CleanedGroup | None
    is_finished: bool


class Cleaning:
    """One cleaning of one log. `step` runs on worker threads, one at a time; fields are read in between."""

    __slots__ = ("_files", "_plan", "_work", "counts", "map", "mapped_bytes", "next_dirty_offset")

    def __init__(self, files: Files, plan: CleaningPlan, offset_map: OffsetMap) -> None:
        self._files = files
        self._plan = plan
        self.map = offset_map
        self.counts = FilterCounts()
        self.mapped_bytes = 0
        self.next_dirty_offset = plan.first_dirty_offset
        """The first dirty offset after all groups are swapped in; valid from the first group on."""
        self._work = self._run()

    def step(self, bytes_max: int, batches_max: int) -> CleaningStep:
        """Works until about `bytes_max` bytes or `batches_max` batches were moved, or a group is finished."""
        moved = 0
        for batches, progress in enumerate(self._work, start=1):
            if isinstance(progress, CleanedGroup):
                return CleaningStep(bytes_moved=moved, group=progress, is_finished=False)
            moved += progress
            if moved >= bytes_max or batches >= batches_max:
                return CleaningStep(bytes_moved=moved, group=None, is_finished=False)
        return CleaningStep(bytes_moved=moved, group=None, is_finished=True)

    def abandon(self) -> None:
        """Ends the cleaning. An incomplete segment is removed."""
        self._work.close()

    def _run(self) -> Generator[int | CleanedGroup, None, None]:
        plan = self._plan
        aborted = self._read_aborted()
        yield from self._build_map(aborted)
        self.next_dirty_offset = self.map.latest_offset + 1
        transactions = CleanedTransactions()
        transactions.add_aborted(aborted)
        batch_filter = BatchFilter(
            self.map,
            transactions,
            now_ms=plan.now_ms,
            delete_retention_ms=plan.delete_retention_ms,
            last_records=plan.last_records,
            upper_bound_offset=plan.upper_bound_offset,
        )
        self.counts = batch_filter.counts
        sources = [source for source in plan.sources if source.base_offset < self.next_dirty_offset]
        groups = group_sources(sources, segment_bytes=plan.segment_bytes, segment_index_bytes=plan.segment_index_bytes)
        for group in groups:
            yield from self._clean_group(group, batch_filter, transactions)

    def _read_aborted(self) -> list[AbortedTransaction]:
        pool = OpenFiles(self._files, limit=_OPEN_FILES_MAX)
        aborted: list[AbortedTransaction] = []
        for path in self._plan.transaction_index_paths:
            aborted += TransactionIndex(path, pool).entries()
        return [*aborted, *self._plan.unwritten_aborted]

    def _build_map(self, aborted: list[AbortedTransaction]) -> Iterator[int]:
        plan = self._plan
        start = plan.first_dirty_offset
        transactions = CleanedTransactions()
        # A transaction that ended in a part that is not read here would seem open, and hide later transactions.
        transactions.add_aborted(transaction for transaction in aborted if transaction.last_offset >= start)
        self.map.latest_offset = start - 1
        for source in plan.sources:
            if source.end_offset <= start:
                continue
            for batch in self._read(source):
                header = batch.header
                if not self._add_to_map(batch, transactions, start):
                    return
                if header.last_offset >= start:
                    self.map.latest_offset = header.last_offset
                self.mapped_bytes += header.size
                yield header.size
            self.map.latest_offset = max(self.map.latest_offset, source.end_offset - 1)

    def _add_to_map(self, batch: Batch, transactions: CleanedTransactions, start: int) -> bool:
        """Adds the batch's keys to the map. Returns False if the map is full."""
        header = batch.header
        if header.is_control:
            transactions.on_marker(header, read_batch_control_type(batch))
            return True
        if transactions.on_batch(header) or header.last_offset < start:
            return True
        if header.magic < 2:
            messages = iterate_messages(batch.view, limit=DECOMPRESSED_BYTES_MAX)
            return self.map.put_all(
                {
                    bytes(record.key): record.offset
                    for record in messages
                    if record.key is not None and record.offset >= start
                }
            )
        payload = open_payload(batch.view, header, limit=DECOMPRESSED_BYTES_MAX)
        base_offset = header.base_offset
        fits = self.map.put_records(payload, header.record_count, base_offset, start)
        if fits is not None:
            return fits
        entries: dict[bytes, int] = {}
        for _, _, _, offset_delta, _, key_start, key_length, _ in spans_of(payload, header.record_count):
            offset = base_offset + offset_delta
            if key_length >= 0 and offset >= start:
                entries[bytes(payload[key_start : key_start + key_length])] = offset
        return self.map.put_all(entries)

    def _clean_group(
        self, group: list[SegmentSource], batch_filter: BatchFilter, transactions: CleanedTransactions
    ) -> Iterator[int | CleanedGroup]:
        plan = self._plan
        pool = OpenFiles(self._files, limit=_OPEN_FILES_MAX)
        target = Segment.create(
            plan.directory, group[0].base_offset, pool, now_ms=group[-1].modified_ms, suffix=CLEANED_SUFFIX
        )
        is_handed_over = False
        try:
            is_unchanged = len(group) == 1
            writer = _Writer(target, plan.index_interval_bytes, group[-1].modified_ms)
            for source in group:
                for batch in self._read(source):
                    kept = batch_filter.filter(batch)
                    if kept is not batch.view:
                        is_unchanged = False
                    moved = batch.header.size
                    if kept is not None:
                        writer.add(kept)
                        moved += len(kept)
                    yield moved
            writer.write()
            for transaction in transactions.take_kept_aborted():
                target.transaction_index.append(transaction)
            target.close_for_appends()
            for file in target.syncable_files():
                file.sync()
            target.close()
            finished = CleanedGroup(sources=tuple(group), segment=target, is_unchanged=is_unchanged)
            is_handed_over = True
        finally:
            if not is_handed_over:
                target.remove_files()
        yield finished

    def _read(self, source: SegmentSource) -> Iterator[Batch]:
        """The batches of a segment. Raises CorruptLog at a damaged batch."""
        file: File = self._files.open(source.path, create=False)
        try:
            end = 0
            for batch in scan_checked(file, 0, source.size):
                yield batch
                end = batch.position + batch.header.size
            if end != source.size:
                raise CorruptLog(f"{source.path} is damaged at position {end} and is not compacted")
        finally:
            file.close()


class _Writer:
    """Buffers batches, so that small batches share a write."""

    __slots__ = ("_buffer", "_headers", "_index_interval_bytes", "_now_ms", "_target")

    def __init__(self, target: Segment, index_interval_bytes: int, now_ms: int) -> None:
        self._target = target
        self._index_interval_bytes = index_interval_bytes
        self._now_ms = now_ms
        self._buffer = bytearray()
        self._headers: list[BatchHeader] = []

    def add(self, batch: bytes | bytearray | memoryview) -> None:
        self._headers.append(read_header(batch))
        self._buffer += batch
        if len(self._buffer) >= _WRITE_BYTES:
            self.write()

    def write(self) -> None:
        if self._headers:
            self._target.append(
                self._buffer, self._headers, index_interval_bytes=self._index_interval_bytes, now_ms=self._now_ms
            )
            self._buffer = bytearray()
            self._headers = []
