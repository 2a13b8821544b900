"""One partition's log: an ordered run of segments, the last of which is appended to.

Everything here runs on the thread that owns the node's state. An append is: stamp offsets and epoch into the buffer
in place, ask the producer state, roll if the active segment is full, one write, and note the indexes. A read finds a
run of whole batches and returns it as a region of a file; the bytes never pass through Python.

Durability: an append is in the page cache when it returns (replication, not fsync, protects it; as in Kafka). `flush`
makes everything up to the current end durable on a worker and then moves the recovery point. It is called when a
segment rolls, by `flush.messages` and `flush.ms`, and before a clean shutdown. A result whose `flushed` is set should
be acknowledged only when that resolves.

Failures: a full disk raises `DiskFull` and leaves everything as it was; every other OSError is reported to the log
directory's owner (`on_failure`) and the log refuses work from then on with `LogDirectoryOffline`.
"""

from __future__ import annotations

from itertools import islice
from struct import Struct
from typing import NamedTuple

from ottla.model.deferred import Deferred
from ottla.model.errors import ErrorCode, KafkaError
from ottla.model.ports import FileRegion
from ottla.records.checksum import crc32c
from ottla.records.header import (
    ATTRIBUTES_POSITION,
    CONTROL_BIT,
    LENGTH_OVERHEAD,
    BatchHeader,
    read_header,
    stamp,
)
from ottla.records.iterate import iterate_batches
from ottla.records.validate import AppendOrigin, ValidatedRecords
from ottla.storage import lookups, timestamps
from ottla.storage.errors import CorruptLog
from ottla.storage.leader_epochs import EpochEnd
from ottla.storage.log_files import LogFiles
from ottla.storage.lookups import ReadResult
from ottla.storage.producer_state import ProducerBatch, ProducerEntry
from ottla.storage.producers import marker_of
from ottla.storage.recall import recall_batches
from ottla.storage.rolling import RollBounds, must_roll
from ottla.storage.segment import Segment
from ottla.storage.time_index import TimestampOffset
from ottla.storage.transaction_index import AbortedTransaction

__all__ = ["AppendResult", "PartitionLog", "ReadResult"]

_RECENT_MAX = 64
_RECENT_MIN = _RECENT_MAX // 2
"""Batches of the active segment whose place is remembered, so that reads near the end need no search.

The older half is forgotten at once when there are too many: one by one would cost every append."""


# All that a checksum does not cover, and the checksum.
_HEAD = Struct(">qiibI")

# A named tuple's own constructor is a function of Python's, and there is one for every batch.
_new_tuple = tuple.__new__


class AppendResult(NamedTuple):
    first_offset: int
    last_offset: int
    append_time_ms: int
    """The broker's time where the topic uses it, else -1."""
    log_start_offset: int
    duplicate: bool = False
    """The batch was appended before; the offsets are those it got then."""
    flushed: Deferred[None] | None = None
    """Set when `flush.messages` was reached: acknowledge after it resolves."""


class PartitionLog(LogFiles):
    """Made by `recovery.open_log`."""

    __slots__ = ()

    @property
    def first_unstable_offset(self) -> int | None:
        """Where a read-committed fetch has to stop; None when nothing is undecided."""
        first = self.producers.state.first_unstable_offset
        return first if first is None else max(first, self.log_start_offset)

    @property
    def last_stable_offset(self) -> int:
        first = self.first_unstable_offset
        return self.high_watermark if first is None else min(first, self.high_watermark)

    def active_producers(self) -> list[ProducerEntry]:
        return list(self.producers.state.entries())

    # ---- appending

    def append_as_leader(
        self,
        records: ValidatedRecords,
        *,
        leader_epoch: int,
        now_ms: int,
        origin: AppendOrigin = AppendOrigin.CLIENT,
    ) -> AppendResult:
        """Assigns offsets and the epoch in the buffer itself and appends it."""
        buffer = records.buffer
        headers = records.headers
        offset = first_offset = self._next_offset
        header = headers[0]
        if len(headers) == 1:
            # Nearly all of them: a producer sends one batch for a partition.
            header.base_offset = offset
            header.leader_epoch = leader_epoch
            stamp(buffer, 0, offset, header.batch_length, leader_epoch)
            offset += header.last_offset_delta + 1
        else:
            offset = self._stamp_all(records, offset, leader_epoch)
        if header.producer_id >= 0 or len(headers) > 1:
            try:
                duplicate = self._check_producers(headers, records.positions, buffer, origin)
            except KafkaError as error:
                if error.code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER and self._full_at == first_offset:
                    # What it should follow was refused for want of room, and is on its way again. Told so, a producer
                    # repeats both; told of a gap, librdkafka begins a new epoch and sends again what may be here.
                    raise self._no_room("append to") from None
                raise
            if duplicate is not None:
                return AppendResult(
                    duplicate.first_offset,
                    duplicate.last_offset,
                    duplicate.timestamp,
                    self.log_start_offset,
                    True,
                    self._flush_when_due(duplicate.last_offset),
                )
        flushed = self._append(buffer, headers, offset, now_ms)
        fields = (first_offset, offset - 1, records.append_time_ms, self.log_start_offset, False, flushed)
        return _new_tuple(AppendResult, fields)

    def append_built(
        self, buffer: bytearray, *, leader_epoch: int, now_ms: int, origin: AppendOrigin = AppendOrigin.COORDINATOR
    ) -> AppendResult:
        """`append_as_leader` for batches that the node itself has built."""
        view = memoryview(buffer)
        header = read_header(view)
        if header.producer_id < 0 and header.size == len(view):
            # A coordinator's records, by the thousand: one batch, and no producer's state to be asked.
            first_offset = header.base_offset = self._next_offset
            header.leader_epoch = leader_epoch
            stamp(view, 0, first_offset, header.batch_length, leader_epoch)
            next_offset = header.next_offset
            flushed = self._append(view, [header], next_offset, now_ms)
            return AppendResult(first_offset, next_offset - 1, -1, self.log_start_offset, False, flushed)
        headers, positions = [header], [0]
        if header.size != len(view):
            batches = list(iterate_batches(view))
            headers = [batch.header for batch in batches]
            positions = [batch.position for batch in batches]
        records = ValidatedRecords(view, headers, positions, -1, 0, 0, -1)
        return self.append_as_leader(records, leader_epoch=leader_epoch, now_ms=now_ms, origin=origin)

    def append_record(self, checksummed: bytes, *, timestamp: int, leader_epoch: int, now_ms: int) -> AppendResult:
        """`append_built` for a batch of one record and no producer, given from its attributes on.

        A coordinator writes thousands of them a second; a header that is built and read again would cost the most.
        """
        first_offset = self._next_offset
        length = len(checksummed) + ATTRIBUTES_POSITION - LENGTH_OVERHEAD
        checksum = crc32c(checksummed)
        header = BatchHeader(first_offset, length, leader_epoch, 2, checksum, 0, 0, timestamp, timestamp, -1, -1, -1, 1)
        buffer = _HEAD.pack(first_offset, length, leader_epoch, 2, checksum) + checksummed
        flushed = self._append(memoryview(buffer), [header], first_offset + 1, now_ms)
        return _new_tuple(AppendResult, (first_offset, first_offset, -1, self.log_start_offset, False, flushed))

    def append_as_follower(
        self,
        buffer: bytes | bytearray | memoryview,
        *,
        headers: list[BatchHeader] | None = None,
        now_ms: int | None = None,
    ) -> AppendResult:
        """Appends whole batches as the leader wrote them; a part of a batch at the end of the buffer is left out.

        Whoever has looked at the batches already gives their headers; then the buffer holds nothing else.
        """
        view = memoryview(buffer)
        if headers is None:
            batches = list(iterate_batches(view))
            if not batches:
                return AppendResult(self._next_offset, self._next_offset - 1, -1, self.log_start_offset)
            headers = [batch.header for batch in batches]
            view = view[: batches[-1].position + headers[-1].size]
        expected = self._next_offset
        for header in headers:
            if header.base_offset < expected:
                raise KafkaError(
                    ErrorCode.OFFSET_OUT_OF_RANGE,
                    f"{self.topic_partition} expects offset {expected} next, but was given {header.base_offset}",
                )
            expected = header.next_offset
        first_offset = headers[0].base_offset
        now = self._world.clock.now_ms() if now_ms is None else now_ms
        flushed = self._append(view, headers, expected, now)
        return _new_tuple(AppendResult, (first_offset, expected - 1, -1, self.log_start_offset, False, flushed))

    def _append(
        self, buffer: memoryview, headers: list[BatchHeader], next_offset: int, now_ms: int
    ) -> Deferred[None] | None:
        if self._offline is not None:
            raise self._offline
        size = len(buffer)
        header = headers[0]
        is_single = len(headers) == 1
        max_timestamp = header.max_timestamp if is_single else max([one.max_timestamp for one in headers])
        config = self.config
        segment = self.segments.active
        bounds = self._roll_bounds
        try:
            if (
                bounds is None
                or bounds.segment is not segment
                or bounds.config is not config
                or segment.size + size > bounds.size_max
                or max_timestamp > bounds.timestamp_max
                or next_offset > bounds.next_offset_max
            ):
                segment = self._segment_for(size, headers, next_offset, now_ms)
            if header.leader_epoch != self.epochs.latest or not is_single:
                self._assign_epochs(headers)
            position = segment.size
            segment.append(buffer, headers, index_interval_bytes=config.index_interval_bytes, now_ms=now_ms)
        except OSError as error:
            raise self._failure(error, "append to") from error
        self._next_offset = next_offset
        producers = self.producers
        recent = self._recent
        if is_single:
            if header.producer_id >= 0:
                if header.attributes & CONTROL_BIT:
                    self._update_producers(headers, buffer, segment)
                else:
                    producers.state.update(header)
            if header.magic == 2:
                recent[header.base_offset] = position
        else:
            self._update_producers(headers, buffer, segment)
            for header in headers:
                if header.magic == 2:
                    recent[header.base_offset] = position
                position += LENGTH_OVERHEAD + header.batch_length
        producers.state.end_offset = next_offset
        if len(recent) > _RECENT_MAX:
            self._recent = dict(islice(recent.items(), len(recent) - _RECENT_MIN, None))
        if next_offset - self.recovery_point >= config.flush_messages:
            return self.flush()
        return None

    def _flush_when_due(self, offset: int) -> Deferred[None] | None:
        """What comes again is acknowledged no sooner than at first: that flush may be under way, or have failed."""
        if offset < self.recovery_point or self._next_offset - self.recovery_point < self.config.flush_messages:
            return None
        return self.flush()

    def _segment_for(self, size: int, headers: list[BatchHeader], next_offset: int, now_ms: int) -> Segment:
        """The segment that takes these batches: the active one, or a new one where that is full or too old."""
        config = self.config
        if size > config.segment_bytes:
            raise KafkaError(
                ErrorCode.RECORD_LIST_TOO_LARGE,
                f"{size} bytes are more than a whole segment of {self.topic_partition} ({config.segment_bytes} bytes)",
            )
        segment = self.segments.active
        if must_roll(
            segment,
            config,
            added_bytes=size,
            max_timestamp=max(header.max_timestamp for header in headers),
            next_offset=next_offset,
            now_ms=now_ms,
            jitter_ms=self._roll_jitter_ms,
        ):
            segment = self._roll(max(headers[0].base_offset, self._next_offset), now_ms)
        self._roll_bounds = RollBounds(segment, config, jitter_ms=self._roll_jitter_ms)
        return segment

    def _stamp_all(self, records: ValidatedRecords, offset: int, leader_epoch: int) -> int:
        """Gives every batch its offset, from this one on, and the epoch; returns the offset after the last."""
        for header, position in zip(records.headers, records.positions, strict=True):
            header.base_offset = offset
            header.leader_epoch = leader_epoch
            stamp(records.buffer, position, offset, header.batch_length, leader_epoch)
            offset += header.last_offset_delta + 1
        return offset

    def _assign_epochs(self, headers: list[BatchHeader]) -> None:
        epochs = self.epochs
        for header in headers:
            if header.leader_epoch != epochs.latest:
                if header.magic == 2:
                    epochs.assign(header.leader_epoch, header.base_offset)
                elif epochs.entries:
                    # Old formats carry no epoch: without a gapless history, truncation goes by the high watermark.
                    epochs.clear()

    def _check_producers(
        self, headers: list[BatchHeader], positions: list[int], buffer: memoryview, origin: AppendOrigin
    ) -> ProducerBatch | None:
        state = self.producers.state
        if len(headers) == 1:
            try:
                duplicate = state.check(headers[0], origin)
            except KafkaError as error:
                if error.code is not ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER or not self._recall(headers[0]):
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

    def _recall(self, header: BatchHeader) -> bool:
        """Whether more is known now of the batch's producer, and the batch is worth a second look."""
        entry = self.producers.state.get(header.producer_id)
        if entry is None or not entry.may_know_less_than_log or header.producer_epoch != entry.epoch:
            return False
        try:
            recall_batches(self.segments, entry)
        except CorruptLog:
            # What cannot be read helps nobody; whoever reads it is told.
            return False
        except OSError as error:
            raise self._fail(error, f"look for batches of producer {header.producer_id} in") from error
        return True

    def _update_producers(self, headers: list[BatchHeader], buffer: memoryview, segment: Segment) -> None:
        producers = self.producers
        position = 0
        for header in headers:
            end = position + LENGTH_OVERHEAD + header.batch_length
            if header.producer_id >= 0:
                try:
                    producers.update(header, buffer[position:end], segment)
                except OSError as error:
                    # The marker is in the log, its entry is not in the transaction index: only recovery can mend it.
                    raise self._fail(error, f"index the marker at {header.base_offset} of") from error
            position = end

    # ---- reading

    def read(self, offset: int, *, max_bytes: int, end_offset: int, at_least_one_batch: bool = True) -> ReadResult:
        """Whole batches from the one that holds `offset` on, below `end_offset` and within `max_bytes`.

        A read ends with its segment. With `at_least_one_batch`, the first batch is returned however large it is.
        """
        next_offset = self._next_offset
        if not self.log_start_offset <= offset <= next_offset:
            raise KafkaError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"Offset {offset} of {self.topic_partition} is not between {self.log_start_offset} and {next_offset}",
            )
        if self._offline is not None:
            raise self._offline
        segment = self.segments.active
        if offset >= end_offset or offset == next_offset:
            return ReadResult(None, segment.base_offset, segment.size)
        try:
            return self._read(segment, offset, max_bytes, min(end_offset, next_offset), at_least_one_batch)
        except OSError as error:
            raise self._failure(error, "read") from error

    def _read(
        self, segment: Segment, offset: int, max_bytes: int, end_offset: int, at_least_one_batch: bool
    ) -> ReadResult:
        position = self._recent.get(offset)
        if position is None:
            if offset < segment.base_offset:
                segment = self.segments[self.segments.number_of(offset)]
            position = segment.noted_start(offset)
        if position is None:
            place = segment.find(offset)
            while place is None:
                # Compaction may have left the end of a segment empty.
                following = self.segments.after(segment)
                if following is None:
                    return ReadResult(None, segment.base_offset, segment.size)
                segment = following
                place = segment.find(offset)
            position = place[0]
        end = self._position_of_end(segment, end_offset)
        length = end - position
        if length > max_bytes:
            length = lookups.cut_to_batches(
                segment, position, end, max_bytes=max_bytes, at_least_one_batch=at_least_one_batch
            )
        if length <= 0:
            return ReadResult(None, segment.base_offset, position)
        return ReadResult(FileRegion(segment.file, position, length), segment.base_offset, position)

    def _position_of_end(self, segment: Segment, end_offset: int) -> int:
        """Where in the segment the batch of `end_offset` begins, or the segment's end when that is further on."""
        if end_offset == self._next_offset:
            return segment.size
        if segment is self.segments.active:
            position = self._recent.get(end_offset)
            if position is not None:
                return position
        else:
            following = self.segments.after(segment)
            if following is not None and following.base_offset <= end_offset:
                return segment.size
        place = segment.find(end_offset)
        return segment.size if place is None else place[0]

    def offset_for_timestamp(self, timestamp: int) -> Deferred[TimestampOffset | None]:
        """The first record whose timestamp is at least the given one; a worker looks into the batches."""
        return timestamps.find_first(self, self._world.workers, timestamp)

    def offset_of_max_timestamp(self) -> Deferred[TimestampOffset | None]:
        return timestamps.find_youngest(self, self._world.workers)

    def end_offset_for_epoch(self, epoch: int) -> EpochEnd:
        return self.epochs.end_offset_for(epoch, self._next_offset)

    def aborted_transactions(self, start: int, end: int) -> list[AbortedTransaction]:
        """The aborted transactions with records in [start, end)."""
        return lookups.aborted_transactions(self.segments, start, end)

    def aborted_in_read(self, read: ReadResult, *, start: int, end_offset: int) -> list[AbortedTransaction]:
        """The aborted transactions with records in what a read from `start` below `end_offset` has found."""
        try:
            return lookups.aborted_in_read(self.segments, read, start=start, end_offset=end_offset)
        except OSError as error:
            raise self._failure(error, "read") from error

    # ---- moving the ends

    def update_high_watermark(self, offset: int) -> None:
        """Tells the log how far replication has come: transactions that ended below it are settled."""
        self.high_watermark = offset
        state = self.producers.state
        if state.has_unreplicated:
            state.on_high_watermark(offset)

    def advance_log_start_offset(self, offset: int) -> bool:
        """Records below the offset are deleted, at once for readers and with their segments on disk (KIP-107)."""
        if offset > self.high_watermark:
            raise KafkaError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"Records of {self.topic_partition} can be deleted up to {self.high_watermark}, not {offset}",
            )
        if offset <= self.log_start_offset:
            return False
        self.log_start_offset = offset
        self.epochs.truncate_from_start(offset)
        self.producers.state.on_log_start_offset(offset)
        return True
