"""Opens a log, and repairs what a crash may have left.

After a clean shutdown the files are taken as they are; only the batches behind the last index entry are checked, which
costs almost nothing. After a crash every batch from the segment of the recovery point on is read, and its checksum is
compared. The log is truncated at the first incomplete batch, later segments are removed, and indexes, leader epochs and
producer state are rebuilt. Segments below the recovery point are durable and not read; their indexes are checked on
use.

Base offset and leader epoch are outside of a batch's checksum, so they are compared with other facts. Offsets increase
and do not reach into the next segment, and without compaction they have no gaps. An epoch is the one that the
checkpoint has for the offset, because the checkpoint is written before the first batch of an epoch.

In a compacted log a gap may be valid, even if this node's cleaner did not make it: a follower copies the gaps of its
leader. Or an offset is damaged, or a segment has lost its end. The log alone cannot distinguish these cases, and
truncating there might remove the only copy. So all records are kept, and `PartitionLog.doubtful_from` is the offset at
which the doubtful part begins.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import NamedTuple

from ottla.model.config import LogConfig
from ottla.model.ids import TopicPartition
from ottla.model.ports import World
from ottla.records.header import BatchHeader
from ottla.storage.errors import CorruptLog
from ottla.storage.failures import LogFailures
from ottla.storage.found_files import FoundFiles, find_files
from ottla.storage.leader_epochs import EpochStart, LeaderEpochs
from ottla.storage.log import PartitionLog
from ottla.storage.log_files import LogFiles
from ottla.storage.names import (
    INDEX_SUFFIX,
    SEGMENT_SUFFIXES,
    TIME_INDEX_SUFFIX,
    offset_file_name,
)
from ottla.storage.open_files import OpenFiles
from ottla.storage.producer_snapshot import snapshot_offsets
from ottla.storage.producers import ProducerLedger
from ottla.storage.scan import scan_checked
from ottla.storage.segment import Segment
from ottla.storage.segment_check import tail_is_intact

__all__ = ["OpenedLog", "RecoveryReport", "open_log"]

PRODUCER_ID_EXPIRATION_MS = 86_400_000
_NONE = (1 << 63) - 1
NOTHING_LOST = -1


class RecoveryReport(NamedTuple):
    """The actions of a recovery, for the log line."""

    segments_checked: int = 0
    bytes_cut: int = 0
    segments_dropped: int = 0
    indexes_rebuilt: int = 0
    lost_from: int = NOTHING_LOST
    """The first offset of records that were durable and are missing."""
    lost_to: int = NOTHING_LOST
    """The offset after the missing records, as far as the remaining files show."""

    def high_watermark_max(self, log: PartitionLog) -> int:
        """Up to this offset the opened log has all records."""
        doubtful_from = log.doubtful_from if self.lost_from >= 0 else None
        return log.log_end_offset if doubtful_from is None else doubtful_from


class OpenedLog(NamedTuple):
    log: PartitionLog
    report: RecoveryReport


def open_log(
    world: World,
    pool: OpenFiles,
    *,
    topic_partition: TopicPartition,
    directory: str,
    config: LogConfig,
    listed: Collection[str] | None = None,
    clean_shutdown: bool = False,
    is_damaged: bool = False,
    recovery_point: int = 0,
    log_start_offset: int = 0,
    cleaned_to: int | None = None,
    producer_id_expiration_ms: int = PRODUCER_ID_EXPIRATION_MS,
    on_failure: Callable[[OSError], None] | None = None,
) -> OpenedLog:
    """Opens the log in a directory, or begins a new one there. May run on a worker: it uses its own open files.

    `listed` are the names in the directory, if it was listed already. With `is_damaged` the files are known to have
    lost records, and the log had reached the recovery point. `cleaned_to` is the offset in the cleaner's checkpoint, if
    any: this node's cleaner made the gaps below it.
    """
    may_have_gaps = cleaned_to is not None or config.compacts
    files = find_files(world, directory, log_start_offset, may_have_gaps=may_have_gaps, listed=listed)
    segments, snapshots, epochs = files.segments, snapshot_offsets(files.names), files.load_epochs()
    producers = ProducerLedger(world.files, directory, expiration_ms=producer_id_expiration_ms, snapshots=snapshots)
    recovery = _Recovery(segments, epochs, config, cleaned_to=cleaned_to, names=files.names)
    if not clean_shutdown:
        recovery.check_from(recovery_point)
    recovery.rebuild_missing_indexes(files)
    next_offset = recovery.end_offset(log_start_offset)
    if not segments:
        files.begin_segment(log_start_offset)
    start = max(log_start_offset, segments[0].base_offset)
    is_damaged = is_damaged or recovery.has_cut or (not files.had_log_file and bool(epochs.entries))
    ends = (next_offset, recovery_point, producers.snapshots)
    known_end = files.known_end(*ends, is_clean=clean_shutdown, is_damaged=is_damaged)
    if next_offset < known_end:
        # No offset is given twice: the log continues where it is known to have ended.
        recovery.note_loss(next_offset, known_end)
        files.begin_segment(known_end)
        next_offset = known_end
    recovery.settle_ends(start, next_offset)
    _rebuild_producers(producers, segments, start, next_offset, files.now_ms, recovery.checked_from, clean_shutdown)
    files.use_pool(pool)
    failures = LogFailures(topic_partition, world.clock, on_failure=on_failure)
    log = PartitionLog(
        world,
        pool,
        LogFiles(world, pool, directory, segments=segments, producers=producers, epochs=epochs, failures=failures),
        topic_partition=topic_partition,
        config=config,
        log_start_offset=start,
        next_offset=next_offset,
        recovery_point=min(recovery_point, next_offset) if not clean_shutdown else next_offset,
        doubtful_from=recovery.doubtful_from(start, next_offset, is_crash=not clean_shutdown),
    )
    _sync_later(log, recovery.checked_from, clean_shutdown)
    log.files.note_history(is_compacted=cleaned_to is not None, damaged=files.damaged)
    return OpenedLog(log, recovery.report())


class _Recovery:
    """Checks and repairs the segments of one log."""

    def __init__(
        self,
        segments: list[Segment],
        epochs: LeaderEpochs,
        config: LogConfig,
        *,
        cleaned_to: int | None,
        names: Collection[str],
    ) -> None:
        self._segments = segments
        self._epochs = epochs
        self._config = config
        self._names = names
        self._may_have_gaps = cleaned_to is not None or config.compacts
        self._cleaned_to = 0 if cleaned_to is None else cleaned_to
        self._first_doubt = _NONE
        self._gap_of_loss = _NONE
        self._lost = (NOTHING_LOST, NOTHING_LOST)
        self._read_epochs: list[EpochStart] = []
        self._segments_checked = 0
        self._bytes_cut = 0
        self._segments_dropped = 0
        self._indexes_rebuilt = 0
        self.checked_from = _NONE
        """Base offset of the first segment that was checked."""

    @property
    def has_cut(self) -> bool:
        return self._bytes_cut > 0

    def report(self) -> RecoveryReport:
        return RecoveryReport(
            self._segments_checked, self._bytes_cut, self._segments_dropped, self._indexes_rebuilt, *self._lost
        )

    def doubtful_from(self, log_start_offset: int, log_end_offset: int, *, is_crash: bool) -> int | None:
        """The first offset of lost records, or the base offset of the batch before the first gap that this node's
        cleaner did not make.

        The gap counts only after a crash: then the replica is out of sync, and may fetch its end again. With lost
        records the shutdown does not count as clean, so the same is true.
        """
        offset = min(self._first_doubt if is_crash else _NONE, self._gap_of_loss)
        offset = max(offset, log_start_offset)
        return offset if offset < log_end_offset else None

    def note_loss(self, lost_from: int, lost_to: int) -> None:
        """Records that were durable are missing at the end of the log."""
        self._lost = (lost_from, lost_to)
        self._gap_of_loss = lost_from

    def settle_ends(self, log_start_offset: int, log_end_offset: int) -> None:
        """Epochs outside of the log are dropped, and the end of the log is doubted if it was lost earlier.

        An earlier start has found the end missing, and continued the log with an empty segment.
        """
        if len(self._segments) > 1 and self._segments[-1].size == 0 and not self._may_have_gaps:
            end_before = self._segments[-2].next_offset()
            if end_before < self._segments[-1].base_offset:
                self._gap_of_loss = min(self._gap_of_loss, end_before)
        self._epochs.truncate_from_end(log_end_offset)
        self._epochs.truncate_from_start(log_start_offset)

    def check_from(self, recovery_point: int) -> None:
        """Checks the segment of the recovery point and all later segments, up to the first damage."""
        first = 0
        for number, segment in enumerate(self._segments):
            if segment.base_offset <= recovery_point:
                first = number
        if not self._segments:
            return
        base = self._segments[first].base_offset
        self._read_epochs = [entry for entry in self._epochs.entries if entry.start_offset < base]
        number = first
        while number < len(self._segments):
            segment = self._segments[number]
            number += 1
            later = self._segments[number:]
            whole = self._check_segment(segment, end_max=later[0].base_offset if later else _NONE)
            if not whole or self._misses_its_end(segment, later):
                self._drop(later)
        self._epochs.replace(self._read_epochs)

    def _misses_its_end(self, segment: Segment, later: list[Segment]) -> bool:
        """True if a gap precedes the next segment: the segment has lost whole batches at its end."""
        if not later or self._last_magic < 2 or segment.next_offset() == later[0].base_offset:
            return False
        if self._may_have_gaps:
            self._doubt_gap(self._last_base_offset, later[0].base_offset)
        return not self._may_have_gaps

    def rebuild_missing_indexes(self, files: FoundFiles) -> None:
        """Rebuilds missing indexes of segments that were not checked. A check rebuilds them anyway."""
        for segment in list(self._segments):
            wanted = {offset_file_name(segment.base_offset, kind) for kind in (INDEX_SUFFIX, TIME_INDEX_SUFFIX)}
            if segment.size == 0 or segment.base_offset >= self.checked_from or wanted <= files.names:
                continue
            is_active = segment is self._segments[-1]
            try:
                segment.rebuild_indexes(index_interval_bytes=self._config.index_interval_bytes, is_active=is_active)
                self._indexes_rebuilt += 1
            except CorruptLog as error:
                if is_active:
                    self._check_segment(segment)
                else:
                    files.damaged[segment.base_offset] = error.message

    def end_offset(self, log_start_offset: int) -> int:
        """The offset after the last batch. Checks the tail even after a clean shutdown."""
        end_offset = self._end_of_segments()
        if end_offset < log_start_offset:
            # The records below the start offset were deleted, and the crash took the rest: the log is empty.
            self._drop(list(self._segments))
            return log_start_offset
        return end_offset

    def _end_of_segments(self) -> int:
        while self._segments:
            active = self._segments[-1]
            if active.size == 0:
                return active.base_offset
            try:
                if tail_is_intact(active):
                    return active.next_offset()
            except CorruptLog:
                pass
            # The shutdown was marked clean, but the bytes are damaged: the segment is checked.
            self._check_segment(active)
            if active.size or len(self._segments) == 1:
                return active.next_offset()
            self._drop([active])
        return 0

    def _check_segment(self, segment: Segment, *, end_max: int = _NONE) -> bool:
        """Reads the whole segment, truncates damage, rebuilds the indexes. Returns whether it was intact."""
        if segment.size == 0 and not self._has_indexes(segment):
            # The partition has no records, so there is nothing to check and no file to open.
            self._last_base_offset, self._last_magic = segment.base_offset, 2
            return True
        self.checked_from = min(self.checked_from, segment.base_offset)
        self._segments_checked += 1
        end = 0
        expected = self._last_base_offset = segment.base_offset
        self._last_magic = 2
        previous: BatchHeader | None = None
        previous_position = 0
        for batch in scan_checked(segment.file, 0, segment.size):
            header = batch.header
            if header.base_offset < expected and previous is not None and previous.base_offset > segment.base_offset:
                # Offsets decrease: one of the two is damaged. If there was a gap before the previous batch, it is that
                # one.
                if self._left_gap:
                    end = previous_position
                break
            if not self._is_plausible(segment, header, expected, end_max):
                break
            self._left_gap = header.base_offset > expected
            if self._left_gap and header.magic == self._last_magic == 2:
                self._doubt_gap(self._last_base_offset, header.base_offset)
            self._note_epoch(header)
            self._last_magic, self._last_base_offset = header.magic, header.base_offset
            previous, previous_position = header, batch.position
            end = batch.position + header.size
            expected = header.next_offset
        cut = segment.size - end
        if cut:
            segment.cut_file(end)
            self._bytes_cut += cut
        segment.rebuild_indexes(
            index_interval_bytes=self._config.index_interval_bytes, is_active=segment is self._segments[-1]
        )
        self._indexes_rebuilt += 1
        return cut == 0

    _left_gap = False
    _last_magic = 2
    _last_base_offset = 0

    def _has_indexes(self, segment: Segment) -> bool:
        return any(offset_file_name(segment.base_offset, kind) in self._names for kind in SEGMENT_SUFFIXES[1:])

    def _doubt_gap(self, base_offset_before: int, base_offset_behind: int) -> None:
        """Either of the two batches may have a damaged offset."""
        if base_offset_behind > self._cleaned_to:
            self._first_doubt = min(self._first_doubt, base_offset_before)

    def _is_plausible(self, segment: Segment, header: BatchHeader, expected: int, end_max: int) -> bool:
        if header.magic < 2:
            # A compressed wrapper has the offset of its last record; only its order can be checked.
            return header.base_offset >= expected
        if not segment.holds_relative(header.last_offset) or header.base_offset < expected:
            return False
        if header.next_offset > end_max:
            return False
        if header.base_offset > expected and not self._may_have_gaps:
            return False
        latest = self._read_epochs[-1].epoch if self._read_epochs else -1
        recorded = self._epochs.epoch_of(header.base_offset)
        return header.leader_epoch == recorded or (recorded < 0 and header.leader_epoch >= latest)

    def _note_epoch(self, header: BatchHeader) -> None:
        latest = self._read_epochs[-1].epoch if self._read_epochs else -1
        if header.magic == 2 and header.leader_epoch > latest:
            self._read_epochs.append(EpochStart(header.leader_epoch, header.base_offset))

    def _drop(self, segments: list[Segment]) -> None:
        for segment in segments:
            self._bytes_cut += segment.size
            self._segments_dropped += 1
            segment.remove_files()
        self._segments[:] = [segment for segment in self._segments if segment not in segments]


def _rebuild_producers(
    producers: ProducerLedger,
    segments: list[Segment],
    start: int,
    next_offset: int,
    now_ms: int,
    checked_from: int,
    clean_shutdown: bool,
) -> None:
    producers.remove_strays({segment.base_offset for segment in segments})
    is_empty = start == next_offset and checked_from == _NONE
    if (clean_shutdown or is_empty) and not producers.snapshots:
        # There was never a producer with an id, because every roll and shutdown would have written a snapshot. So there
        # is nothing to rebuild from the log.
        producers.begin_at(next_offset)
        return
    producers.rebuild(
        segments,
        log_start_offset=start,
        end_offset=next_offset,
        now_ms=now_ms,
        rebuild_transactions_from=checked_from,
    )


def _sync_later(log: PartitionLog, checked_from: int, clean_shutdown: bool) -> None:
    """Files beside the segments that may not be durable, although the recovery point covers them."""
    if not clean_shutdown:
        # The previous run may not have synced the file.
        log.epochs.mark_unsynced()
        log.files.sync_with_next_flush(*log.producers.paths())
    if not clean_shutdown or log.files.is_empty:
        # A flush passes over an empty log.
        log.files.sync_directory_with_next_flush()
    for segment in log.segments:
        if segment.base_offset >= checked_from:
            log.files.sync_with_next_flush(*[file.path for file in segment.transaction_index.open_files()])
