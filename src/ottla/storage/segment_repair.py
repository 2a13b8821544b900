"""Builds intact copies of damaged closed segments from batches that another replica has sent.

No segment is removed before the copy is complete and durable: the damaged segments and all later segments stay in
place, and one step replaces the segments (`LogFiles.replace_segments`, like after a compaction). So a repair that fails
in between, or another replica that is damaged, too, loses no records.

In a log without compaction the batches have to be contiguous. In a compacted log the two replicas may have removed
different records. Then all segments from the first segment on are copied: a deletion marker that the other replica has
removed is not needed, because the older records that it deletes are missing in that replica, too. All later segments
that can have been compacted here are also copied: a deletion marker that is removed here may be needed for older
records of the copy.

`add`, `finish` and `abandon` run on workers, one after another. The other methods run on the thread of the log.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from ottla.model.ports import Files
from ottla.records.control import ControlType
from ottla.records.iterate import Batch, iterate_batches, verify_checksum
from ottla.storage.cleaner.batch_filter import read_batch_control_type
from ottla.storage.names import REPAIRED_SUFFIX
from ottla.storage.open_files import OpenFiles
from ottla.storage.segment import Segment
from ottla.storage.transaction_index import AbortedTransaction

if TYPE_CHECKING:
    from ottla.storage.log import PartitionLog

__all__ = ["AbortedProducer", "RecordsMissing", "RepairRefused", "SegmentRepair", "begin_repair"]

_OPEN_FILES_MAX = 8
# Positions in an index have 31 bits.
_SEGMENT_BYTES_MAX = (1 << 31) - 1


class RepairRefused(Exception):
    """The batches of the other replica cannot replace the segment."""


class RecordsMissing(RepairRefused):
    """The other replica lacks records of the segment as well."""


class AbortedProducer(NamedTuple):
    """An aborted transaction, as a fetch response describes it."""

    producer_id: int
    first_offset: int


class _Marker(NamedTuple):
    offset: int
    is_abort: bool


class _Target(NamedTuple):
    """The copy of a segment, for batches below `end_offset`."""

    segment: Segment
    end_offset: int


def begin_repair(log: PartitionLog, damaged: Segment, files: Files) -> SegmentRepair:
    """The repair of a closed segment, which may replace earlier segments as well."""
    following = log.segments.after(damaged)
    assert following is not None, "only closed segments are repaired"
    count = log.segments.number_of(damaged.base_offset)
    if not log.may_have_gaps:
        return SegmentRepair(log, [damaged], files, end_offset=following.base_offset)
    segments = [log.segments[number] for number in range(count + 1)]
    while (later := log.segments.after(following)) is not None and later.base_offset <= log.last_stable_offset:
        segments.append(following)
        following = later
    return SegmentRepair(log, segments, files, end_offset=following.base_offset)


class SegmentRepair:
    """`next_offset` is the next offset to fetch, up to `end_offset`. `is_complete` is True if all records arrived."""

    def __init__(self, log: PartitionLog, segments: list[Segment], files: Files, *, end_offset: int) -> None:
        self._log = log
        self._replaced = segments
        self._sizes = [segment.size for segment in segments]
        self._may_have_gaps = log.may_have_gaps
        self._index_interval_bytes = log.config.index_interval_bytes
        self.end_offset = end_offset
        self.next_offset = max(segments[0].base_offset, log.log_start_offset)
        self.is_complete = False
        self._is_begun = False
        self._aborted: set[AbortedProducer] = set()
        self._markers: dict[int, list[_Marker]] = {}
        self._files = files
        self._targets: list[_Target] = []

    @property
    def first_offset(self) -> int:
        return self._replaced[0].base_offset

    def add(self, records: bytes, aborted: Iterable[AbortedProducer]) -> None:
        """Writes fetched batches from `next_offset` on. Raises RepairRefused and OSError."""
        if not self._targets:
            self._create_copies()
        self._aborted.update(aborted)
        batches: list[Batch] = []
        for batch in iterate_batches(memoryview(records)):
            if batch.header.base_offset >= self.end_offset:
                if not self._may_have_gaps and self.next_offset < self.end_offset:
                    raise RecordsMissing(f"it has no record at offset {self.next_offset}")
                self.is_complete = True
                break
            self._check(batch)
            batches.append(batch)
            self.next_offset = batch.header.next_offset
            self._is_begun = True
        for segment, end_offset in self._targets:
            part = [batch for batch in batches if segment.base_offset <= batch.header.base_offset < end_offset]
            if part:
                last = part[-1]
                view = memoryview(records)[part[0].position : last.position + last.header.size]
                if segment.size + len(view) > _SEGMENT_BYTES_MAX:
                    raise RepairRefused(f"its records from offset {segment.base_offset} on are too many for a segment")
                segment.append(
                    view,
                    [batch.header for batch in part],
                    index_interval_bytes=self._index_interval_bytes,
                    now_ms=segment.modified_ms,
                )
        self.is_complete = self.is_complete or self.next_offset >= self.end_offset

    def _create_copies(self) -> None:
        pool = OpenFiles(self._files, limit=_OPEN_FILES_MAX)
        ends = [*(segment.base_offset for segment in self._replaced[1:]), self.end_offset]
        for segment, end_offset in zip(self._replaced, ends, strict=True):
            copy = Segment.create(
                segment.directory, segment.base_offset, pool, now_ms=segment.modified_ms, suffix=REPAIRED_SUFFIX
            )
            self._targets.append(_Target(copy, end_offset))

    def _check(self, batch: Batch) -> None:
        header = batch.header
        if not verify_checksum(batch.view, header):
            raise RepairRefused(f"its batch at offset {header.base_offset} is damaged")
        # The log may begin within a batch.
        is_late = header.base_offset > self.next_offset
        is_early = header.base_offset < (self.next_offset if self._is_begun else self.first_offset)
        if is_late and not self._may_have_gaps:
            raise RecordsMissing(f"it has no record at offset {self.next_offset}")
        crosses = any(header.base_offset < end_offset < header.next_offset for _, end_offset in self._targets)
        if is_early or crosses:
            raise RepairRefused(f"its batch from offset {header.base_offset} to {header.last_offset} does not fit")
        if header.is_control and header.producer_id >= 0:
            is_abort = read_batch_control_type(batch) is ControlType.ABORT
            self._markers.setdefault(header.producer_id, []).append(_Marker(header.base_offset, is_abort))

    def finish(self) -> None:
        """Makes the copies durable. Raises OSError."""
        entries = sorted(self._aborted_transactions(), key=lambda entry: entry.last_offset)
        for segment, end_offset in self._targets:
            for entry in entries:
                if segment.base_offset <= entry.last_offset < end_offset:
                    segment.transaction_index.append(entry)
            segment.close_for_appends()
            for file in segment.syncable_files():
                file.sync()
            segment.close()

    def abandon(self) -> None:
        """Removes the copies."""
        for segment, _ in self._targets:
            segment.remove_files()

    def install(self, pool: OpenFiles) -> bool:
        """Puts the copies in the place of the damaged segments. Returns False if the log has changed meanwhile.

        Raises KafkaError.
        """
        log = self._log
        current = {id(segment) for segment in log.segments if segment is not log.segments.active}
        if (
            log.is_offline
            or log.directory != self._replaced[0].directory
            or any(
                id(segment) not in current or segment.size != size
                for segment, size in zip(self._replaced, self._sizes, strict=True)
            )
        ):
            return False
        for segment, _ in self._targets:
            segment.use_pool(pool)
        log.replace_segments(self._replaced, [segment for segment, _ in self._targets])
        return True

    def _aborted_transactions(self) -> Iterable[AbortedTransaction]:
        """A transaction ends with the producer's first marker behind its beginning."""
        for producer_id, first_offset in self._aborted:
            marker = next(
                (marker for marker in self._markers.get(producer_id, ()) if marker.offset > first_offset), None
            )
            if marker is not None and marker.is_abort:
                # The last stable offset at that time is unknown. With a lower one a search reads further than needed.
                yield AbortedTransaction(producer_id, first_offset, marker.offset, 0)
