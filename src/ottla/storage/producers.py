"""The producer state of a log with its snapshots: writes snapshots, and rebuilds the state from snapshot and log."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from ottla.model.errors import ErrorCode, KafkaError
from ottla.model.ports import Files
from ottla.records.control import EndTransactionMarker, read_end_transaction_marker
from ottla.records.header import CONTROL_BIT, LENGTH_OVERHEAD, BatchHeader
from ottla.records.iterate import Batch, iterate_records
from ottla.records.validate import AppendOrigin
from ottla.storage.errors import CorruptLog
from ottla.storage.names import DELETED_SUFFIX
from ottla.storage.producer_snapshot import (
    CorruptSnapshot,
    decode_snapshot,
    encode_snapshot,
    snapshot_path,
)
from ottla.storage.producer_state import ProducerBatch, ProducerState, is_expired
from ottla.storage.recall import recall_batches
from ottla.storage.scan import scan_headers
from ottla.storage.segment import Segment
from ottla.storage.segments import Segments
from ottla.storage.transaction_index import AbortedTransaction

__all__ = ["ProducerLedger", "marker_of"]


class ProducerLedger:
    """The `ProducerState` of a log, and its snapshots in the partition's directory."""

    __slots__ = ("_files", "_saved_offset", "_snapshots", "directory", "expiration_ms", "state")

    def __init__(self, files: Files, directory: str, *, expiration_ms: int, snapshots: Iterable[int]) -> None:
        """`snapshots` are the offsets of the snapshots in the directory, lowest first."""
        self._files = files
        self.directory = directory
        self.expiration_ms = expiration_ms
        self.state = ProducerState()
        self._snapshots = tuple(snapshots)
        # The state at this offset is on disk, or was empty.
        self._saved_offset = 0

    @property
    def snapshots(self) -> tuple[int, ...]:
        """Offsets of the snapshots on disk, lowest first."""
        return self._snapshots

    def paths(self) -> list[str]:
        return [snapshot_path(self.directory, offset) for offset in self._snapshots]

    def take_snapshot(self, end_offset: int, *, durable: bool) -> str | None:
        """Writes the state at the log's end, unless it is on disk already. Returns the path of a new snapshot."""
        if end_offset <= self._saved_offset:
            return None
        path = snapshot_path(self.directory, end_offset)
        self._files.write_atomically(path, encode_snapshot(self.state.entries()), durable=durable)
        self._snapshots += (end_offset,)
        self._saved_offset = end_offset
        return path

    def forget_missing_snapshots(self) -> None:
        """Forgets snapshots that another program has removed. The next `take_snapshot` writes the state."""
        missing = [
            offset for offset in self._snapshots if not self._files.exists(snapshot_path(self.directory, offset))
        ]
        for offset in missing:
            self._drop(offset)
        if missing:
            self._saved_offset = 0

    def relocate(self, directory: str) -> None:
        self.directory = directory

    def continue_from(self, former: ProducerLedger) -> None:
        """The log continues with a copy of its files, which contains the same batches.

        The former state also has the high watermark, pending verifications and producers whose batches were deleted.
        """
        self.state = former.state

    def begin_at(self, offset: int) -> None:
        """The state is empty up to the offset."""
        self.state.clear(offset)
        self._saved_offset = offset

    def check(
        self,
        headers: list[BatchHeader],
        positions: list[int],
        buffer: memoryview,
        origin: AppendOrigin,
        segments: Segments,
    ) -> ProducerBatch | None:
        """Checks batches before they are appended. Returns the earlier batch if they are a duplicate.

        Raises KafkaError for a refused batch, and OSError if reading the log fails.
        """
        state = self.state
        if len(headers) == 1:
            try:
                duplicate = state.check(headers[0], origin)
            except KafkaError as error:
                if error.code is not ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER or not self._recall(headers[0], segments):
                    raise
                duplicate = state.check(headers[0], origin)
            if not headers[0].attributes & CONTROL_BIT:
                return duplicate
        else:
            duplicate = state.check_all(headers, origin)
        for header, position in zip(headers, positions, strict=True):
            if header.attributes & CONTROL_BIT and header.producer_id >= 0:
                marker = marker_of(header, buffer[position : position + header.size])
                if marker is not None:
                    state.check_marker(header, marker)
        return duplicate

    def _recall(self, header: BatchHeader, segments: Segments) -> bool:
        """Reads forgotten batches of the producer from the log. False if that cannot change the check's outcome."""
        entry = self.state.get(header.producer_id)
        if entry is None or not entry.may_know_less_than_log or header.producer_epoch != entry.epoch:
            return False
        try:
            recall_batches(segments, entry)
        except CorruptLog:
            # The next read of these batches reports the damage.
            entry.recall()
            return False
        return True

    def update_all(self, headers: list[BatchHeader], buffer: memoryview, segment: Segment) -> None:
        """Batches were appended to the segment. Raises OSError if the transaction index cannot be written."""
        position = 0
        for header in headers:
            end = position + LENGTH_OVERHEAD + header.batch_length
            if header.producer_id >= 0:
                self.update(header, buffer[position:end], segment)
            position = end

    def update(self, header: BatchHeader, batch: memoryview, segment: Segment) -> None:
        """A batch with a producer id was appended: updates the state, and the index of aborted transactions."""
        state = self.state
        if not header.is_control:
            state.update(header)
            return
        marker = marker_of(header, batch)
        if marker is None:
            return
        completed = state.update_marker(header, marker, header.max_timestamp)
        if completed is not None:
            if completed.is_aborted:
                segment.transaction_index.append_or_hold(
                    AbortedTransaction(
                        completed.producer_id,
                        completed.first_offset,
                        completed.last_offset,
                        state.last_stable_offset_after(completed),
                    )
                )
            state.complete(completed)

    def rebuild(
        self,
        segments: Sequence[Segment],
        *,
        log_start_offset: int,
        end_offset: int,
        now_ms: int,
        rebuild_transactions_from: int,
    ) -> None:
        """Rebuilds the state at `end_offset` from the latest intact snapshot and the batches after it.

        Also rebuilds the transaction indexes of segments from `rebuild_transactions_from` on.
        """
        self._forget([offset for offset in self._snapshots if offset > end_offset])
        start = self._load_latest(log_start_offset, now_ms, at_most=end_offset)
        indexed = [segment for segment in segments if segment.base_offset >= rebuild_transactions_from]
        for segment in indexed:
            segment.transaction_index.reset()
        if indexed and indexed[0].base_offset < start:
            # The state needs no batches before the snapshot, but the indexes do.
            state, self.state = self.state, ProducerState()
            before = self._load_latest(log_start_offset, now_ms, at_most=indexed[0].base_offset)
            self._replay(segments, indexed, start=before, end_offset=start)
            self.state, self._saved_offset = state, start
        self._replay(segments, indexed, start=start, end_offset=end_offset)

    def load_snapshot(self, offset: int, now_ms: int) -> bool:
        """Loads the snapshot at the offset. False if there is none, or it is damaged: no file is changed."""
        if offset not in self._snapshots:
            return False
        try:
            self._load(offset, now_ms)
        except (CorruptSnapshot, FileNotFoundError):
            return False
        return True

    def remove_strays(self, segment_bases: Collection[int]) -> None:
        """Removes snapshots without a segment, except the latest, which a clean shutdown has written."""
        strays = [offset for offset in self._snapshots if offset not in segment_bases]
        if strays and strays[-1] >= max(segment_bases, default=0):
            strays.pop()
        self._forget(strays)

    def mark_deleted(self, offset: int) -> str | None:
        """Renames the snapshot of a deleted segment. Returns the path to remove later.

        Another program may have removed it. Raises OSError with nothing changed.
        """
        if offset not in self._snapshots:
            return None
        path = snapshot_path(self.directory, offset)
        is_there = self._files.exists(path)
        if is_there:
            self._files.rename(path, path + DELETED_SUFFIX)
        self._drop(offset)
        return path + DELETED_SUFFIX if is_there else None

    def clear(self, end_offset: int) -> None:
        """The log is empty and begins at the offset."""
        self._forget(list(self._snapshots))
        self.begin_at(end_offset)
        self.state.on_high_watermark(end_offset)

    def _load_latest(self, log_start_offset: int, now_ms: int, *, at_most: int) -> int:
        """Loads the latest intact snapshot and returns its offset. Damaged snapshots are removed."""
        for offset in [offset for offset in reversed(self._snapshots) if offset <= at_most]:
            try:
                self._load(offset, now_ms)
            except CorruptSnapshot:
                self._forget([offset])
                continue
            return offset
        self.begin_at(log_start_offset)
        return log_start_offset

    def _load(self, offset: int, now_ms: int) -> None:
        """Raises CorruptSnapshot and OSError with nothing changed."""
        entries = decode_snapshot(self._files.read_bytes(snapshot_path(self.directory, offset)))
        self.begin_at(offset)
        for entry in entries:
            if not is_expired(entry, now_ms, self.expiration_ms):
                self.state.load(entry)

    def _replay(
        self, segments: Sequence[Segment], indexed: Collection[Segment], *, start: int, end_offset: int
    ) -> None:
        """Replays the batches between two offsets. Aborted transactions of `indexed` segments go into their index."""
        for number, segment in enumerate(segments):
            follows = segments[number + 1].base_offset if number + 1 < len(segments) else end_offset
            if follows > start and segment.base_offset < end_offset:
                self._replay_segment(segment, start=start, end_offset=end_offset, writes_index=segment in indexed)

    def _replay_segment(self, segment: Segment, *, start: int, end_offset: int, writes_index: bool) -> None:
        place = segment.find(max(start, segment.base_offset))
        if place is None:
            return
        for position, header in scan_headers(segment.file, place[0], segment.size):
            if header.base_offset >= end_offset:
                return
            if header.producer_id < 0 or header.last_offset < start:
                continue
            if not header.is_control:
                self.state.update(header)
            elif writes_index:
                self.update(header, memoryview(segment.file.read(position, header.size)), segment)
            else:
                marker = marker_of(header, memoryview(segment.file.read(position, header.size)))
                completed = self.state.update_marker(header, marker, header.max_timestamp) if marker else None
                if completed is not None:
                    self.state.complete(completed)

    def _forget(self, offsets: list[int]) -> None:
        for offset in offsets:
            self._drop(offset)
            self._files.remove(snapshot_path(self.directory, offset))

    def _drop(self, offset: int) -> None:
        self._snapshots = tuple(kept for kept in self._snapshots if kept != offset)


def marker_of(header: BatchHeader, batch: memoryview) -> EndTransactionMarker | None:
    """The transaction marker in a control batch; None for other control batches and for empty ones."""
    for record in iterate_records(Batch(header, 0, batch)):
        return read_end_transaction_marker(record)
    return None
