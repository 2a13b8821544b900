"""One partition's log: segments in order, the last of which is appended to.

Everything here runs on the thread that owns the node's state. An append stamps offsets and epoch into the buffer in
place, asks the producer state, rolls if the active segment is full, writes once, and updates the indexes. A read
returns whole batches as a region of a file; the bytes never pass through Python.

Durability: an append is in the page cache when it returns. As in Kafka, replication protects it, not fsync. `flush`
makes everything up to the current end durable on a worker and then moves the recovery point. It is called when a
segment rolls, by `flush.messages` and `flush.ms`, and before a clean shutdown. An append whose result has `flushed` may
be acknowledged only when that resolves.

Failures: a full disk raises `DiskFull` and changes nothing. Other errors take the log directory out of service, and the
log refuses every call with `LogDirectoryOffline`: see `failures`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ottla.model.config import LogConfig
from ottla.model.deferred import Deferred
from ottla.model.errors import ErrorCode, KafkaError
from ottla.model.ids import TopicPartition
from ottla.model.ports import Lane, World
from ottla.records.checksum import crc32c
from ottla.records.header import ATTRIBUTES_POSITION, HEAD, LENGTH_OVERHEAD, MAGIC, BatchHeader, read_header, stamp
from ottla.records.iterate import iterate_batches
from ottla.records.validate import AppendOrigin, ValidatedRecords
from ottla.storage import damaged_reads, lookups, timestamps
from ottla.storage.errors import CorruptLog, LogDirectoryOffline
from ottla.storage.leader_epochs import EpochEnd
from ottla.storage.log_files import LogFiles
from ottla.storage.lookups import ReadResult
from ottla.storage.open_files import OpenFiles
from ottla.storage.producer_state import ProducerEntry
from ottla.storage.segment import Segment
from ottla.storage.tail import AppendResult, LogTail
from ottla.storage.time_index import TimestampOffset
from ottla.storage.transaction_index import AbortedTransaction

__all__ = ["AppendResult", "PartitionLog", "ReadResult"]

# The constructor of a named tuple is a Python function, and every batch would pay for its call.
_new_tuple = tuple.__new__


class PartitionLog:
    """Opened by `recovery.open_log`, or begun by `beginning.begin_log`.

    `files` holds the segments and the files beside them. `segments`, `producers` and `epochs` are the same objects as
    in `files`, repeated here for the speed of appends and reads.
    """

    __slots__ = (
        "_failures",
        "_tail",
        "_world",
        "config",
        "doubtful_from",
        "epochs",
        "files",
        "high_watermark",
        "log_start_offset",
        "on_cut",
        "producers",
        "segments",
        "topic_partition",
    )

    def __init__(
        self,
        world: World,
        pool: OpenFiles,
        files: LogFiles,
        *,
        topic_partition: TopicPartition,
        config: LogConfig,
        log_start_offset: int,
        next_offset: int,
        recovery_point: int,
        doubtful_from: int | None = None,
    ) -> None:
        self._world = world
        self.topic_partition = topic_partition
        self.config = config
        self._use(files)
        self._tail = LogTail(
            world,
            pool,
            files,
            topic_partition=topic_partition,
            config=config,
            end_offset=next_offset,
            recovery_point=recovery_point,
        )
        self.log_start_offset = log_start_offset
        self.high_watermark = log_start_offset
        # Recovery found a gap in the offsets from here on, which compaction or damage may have left. A follower fetches
        # the rest again; a leader keeps it.
        self.doubtful_from = doubtful_from
        # Called after a truncation with the new end, and with whether checkpoints on disk may be above it.
        self.on_cut: Callable[[TopicPartition, int, bool], None] | None = None

    def _use(self, files: LogFiles) -> None:
        self.files = files
        self.segments = files.segments
        self.producers = files.producers
        self.epochs = files.epochs
        self._failures = files.failures

    def __repr__(self) -> str:
        return f"PartitionLog({self.topic_partition}, {self.log_start_offset}..{self._tail.end_offset})"

    @property
    def log_end_offset(self) -> int:
        """The offset the next record will get."""
        return self._tail.end_offset

    @property
    def directory(self) -> str:
        return self.files.directory

    @property
    def recovery_point(self) -> int:
        """Everything below it is on disk."""
        return self._tail.durability.recovery_point

    @property
    def last_flush_ms(self) -> int:
        return self._tail.durability.last_flush_ms

    @property
    def size_bytes(self) -> int:
        return self.segments.size_bytes

    @property
    def is_offline(self) -> bool:
        return self._failures.offline is not None

    @property
    def may_have_gaps(self) -> bool:
        """True if compaction may have removed offsets."""
        return self.config.compacts or self.files.was_compacted

    def invariants(self) -> None:
        """Holds between any two steps of the node, as long as the log is in service."""
        if self._failures.offline is None:
            end_offset = self._tail.end_offset
            assert 0 <= self.log_start_offset <= self.high_watermark <= end_offset, f"offsets in order: {self!r}"
            assert self.doubtful_from is None or self.doubtful_from < end_offset
            assert self.segments[0].base_offset <= self.log_start_offset, "the first record is in the first segment"
            assert self.epochs.latest_start_offset <= end_offset, "an epoch begins within the log, or at its end"
            self._tail.invariants()

    @property
    def first_unstable_offset(self) -> int | None:
        """The first offset of an undecided transaction, where a read-committed fetch ends; None if there is none."""
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
        """Stamps offsets and epoch into the buffer, and appends it."""
        buffer = records.buffer
        headers = records.headers
        tail = self._tail
        offset = first_offset = tail.end_offset
        header = headers[0]
        if len(headers) == 1:
            # The usual case: a producer sends one batch for a partition.
            header.base_offset = offset
            header.leader_epoch = leader_epoch
            stamp(buffer, 0, offset, header.batch_length, leader_epoch)
            offset += header.last_offset_delta + 1
        else:
            offset = self._stamp_all(records, offset, leader_epoch)
        if header.producer_id >= 0 or len(headers) > 1:
            try:
                duplicate = self.producers.check(headers, records.positions, buffer, origin, self.segments)
            except KafkaError as error:
                is_out_of_order = error.code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
                if is_out_of_order and self._failures.was_full_at(first_offset):
                    # The batch before it was refused because the disk was full, and the producer sends it again. With
                    # `DiskFull` a producer repeats both. With OUT_OF_ORDER librdkafka begins a new epoch and may write
                    # a batch twice.
                    raise self._failures.no_room("append to", directory=self.directory) from None
                raise
            except OSError as error:
                raise tail.refusal(error, f"read batches of producer {header.producer_id} in") from error
            if duplicate is not None:
                return AppendResult(
                    duplicate.first_offset,
                    duplicate.last_offset,
                    duplicate.timestamp,
                    self.log_start_offset,
                    True,
                    tail.flush_of_duplicate(duplicate.last_offset),
                )
        flushed = tail.append(buffer, headers, offset, now_ms)
        fields = (first_offset, offset - 1, records.append_time_ms, self.log_start_offset, False, flushed)
        return _new_tuple(AppendResult, fields)

    def append_built(
        self, buffer: bytearray, *, leader_epoch: int, now_ms: int, origin: AppendOrigin = AppendOrigin.COORDINATOR
    ) -> AppendResult:
        """`append_as_leader` for batches that this node has built."""
        view = memoryview(buffer)
        header = read_header(view)
        if header.producer_id < 0 and header.size == len(view):
            # Records of a coordinator: one batch without a producer id, so the producer state is not asked.
            first_offset = header.base_offset = self._tail.end_offset
            header.leader_epoch = leader_epoch
            stamp(view, 0, first_offset, header.batch_length, leader_epoch)
            next_offset = header.next_offset
            flushed = self._tail.append(view, [header], next_offset, now_ms)
            return AppendResult(first_offset, next_offset - 1, -1, self.log_start_offset, False, flushed)
        headers, positions = [header], [0]
        if header.size != len(view):
            batches = list(iterate_batches(view))
            headers = [batch.header for batch in batches]
            positions = [batch.position for batch in batches]
        records = ValidatedRecords(view, headers, positions, -1, 0, 0, -1)
        return self.append_as_leader(records, leader_epoch=leader_epoch, now_ms=now_ms, origin=origin)

    def append_record(self, checksummed: bytes, *, timestamp: int, leader_epoch: int, now_ms: int) -> AppendResult:
        """`append_built` for a batch of one record without a producer id. `checksummed` begins with its attributes.

        A coordinator appends thousands of them a second, and building and parsing a header would cost the most.
        """
        first_offset = self._tail.end_offset
        length = len(checksummed) + ATTRIBUTES_POSITION - LENGTH_OVERHEAD
        checksum = crc32c(checksummed)
        header = BatchHeader(first_offset, length, leader_epoch, 2, checksum, 0, 0, timestamp, timestamp, -1, -1, -1, 1)
        buffer = HEAD.pack(first_offset, length, leader_epoch, MAGIC, checksum) + checksummed
        flushed = self._tail.append(memoryview(buffer), [header], first_offset + 1, now_ms)
        return _new_tuple(AppendResult, (first_offset, first_offset, -1, self.log_start_offset, False, flushed))

    def append_as_follower(
        self,
        buffer: bytes | bytearray | memoryview,
        *,
        headers: list[BatchHeader] | None = None,
        now_ms: int | None = None,
    ) -> AppendResult:
        """Appends whole batches as the leader wrote them. A partial batch at the end of the buffer is ignored.

        With `headers`, the buffer consists of exactly these batches.
        """
        view = memoryview(buffer)
        expected = self._tail.end_offset
        if headers is None:
            batches = list(iterate_batches(view))
            if not batches:
                return AppendResult(expected, expected - 1, -1, self.log_start_offset)
            headers = [batch.header for batch in batches]
            view = view[: batches[-1].position + headers[-1].size]
        for header in headers:
            if header.base_offset < expected:
                raise KafkaError(
                    ErrorCode.OFFSET_OUT_OF_RANGE,
                    f"{self.topic_partition} expects offset {expected} next, but got {header.base_offset}",
                )
            expected = header.next_offset
        first_offset = headers[0].base_offset
        now = self._world.clock.now_ms() if now_ms is None else now_ms
        flushed = self._tail.append(view, headers, expected, now, is_replicated=True)
        return _new_tuple(AppendResult, (first_offset, expected - 1, -1, self.log_start_offset, False, flushed))

    def _stamp_all(self, records: ValidatedRecords, offset: int, leader_epoch: int) -> int:
        """Stamps offsets from this one on and the epoch into every batch. Returns the offset after the last."""
        for header, position in zip(records.headers, records.positions, strict=True):
            header.base_offset = offset
            header.leader_epoch = leader_epoch
            stamp(records.buffer, position, offset, header.batch_length, leader_epoch)
            offset += header.last_offset_delta + 1
        return offset

    # ---- reading

    def read(
        self, offset: int, *, max_bytes: int, end_offset: int, at_least_one_batch: bool = True, may_wait: bool = True
    ) -> ReadResult:
        """Whole batches from the batch that contains `offset`, below `end_offset` and within `max_bytes`.

        A read ends with its segment. With `at_least_one_batch`, the first batch is returned whatever its size.
        Raises NotCached if indexes or headers have to be read from the disk, unless it `may_wait`.
        """
        tail = self._tail
        next_offset = tail.end_offset
        if not self.log_start_offset <= offset <= next_offset:
            raise KafkaError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"Offset {offset} of {self.topic_partition} is not between {self.log_start_offset} and {next_offset}",
            )
        if (offline := self._failures.offline) is not None:
            raise offline
        segments = self.segments
        if offset >= end_offset or offset == next_offset:
            return ReadResult(None, segments.active.base_offset, segments.active.size)
        try:
            result = lookups.read_batches(
                segments,
                tail.recent,
                offset,
                max_bytes,
                end_offset if end_offset < next_offset else next_offset,
                next_offset,
                at_least_one_batch,
                may_wait,
            )
            if result.segment_base_offset > offset or self._failures.damaged_segments:
                return damaged_reads.check_read(self, offset, result)
        except CorruptLog as error:
            damaged_reads.note_corrupt(self, offset, error)
            raise
        except OSError as error:
            raise self._tail.refusal(error, "read") from error
        return result

    def offset_for_timestamp(self, timestamp: int) -> Deferred[TimestampOffset | None]:
        """The first record whose timestamp is at least the given one. A worker reads the batches."""
        return timestamps.find_first(self, self._world.workers.lane(Lane.READS), timestamp)

    def offset_of_max_timestamp(self) -> Deferred[TimestampOffset | None]:
        return timestamps.find_youngest(self, self._world.workers.lane(Lane.READS))

    def end_offset_for_epoch(self, epoch: int) -> EpochEnd:
        return self.epochs.end_offset_for(epoch, self._tail.end_offset)

    def aborted_in_read(
        self, read: ReadResult, *, start: int, end_offset: int, may_wait: bool = True
    ) -> list[AbortedTransaction]:
        """The aborted transactions with records in a read from `start` below `end_offset`."""
        try:
            return lookups.aborted_in_read(self.segments, read, start=start, end_offset=end_offset, may_wait=may_wait)
        except OSError as error:
            raise self._tail.refusal(error, "read") from error

    # ---- start, high watermark, end

    def update_high_watermark(self, offset: int) -> None:
        """Sets the high watermark. Transactions that ended below it are settled."""
        self.high_watermark = offset
        state = self.producers.state
        if state.has_unreplicated:
            state.on_high_watermark(offset)

    def advance_log_start_offset(self, offset: int) -> bool:
        """Deletes records below the offset: at once for readers, and with their segments on disk (KIP-107)."""
        if offset > self.high_watermark:
            raise KafkaError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"Records of {self.topic_partition} can be deleted up to {self.high_watermark}, not {offset}",
            )
        if offset <= self.log_start_offset:
            return False
        self._start_at(offset)
        return True

    def _start_at(self, offset: int) -> None:
        self.log_start_offset = offset
        self.files.remove_epochs_before(offset)
        self.producers.state.on_log_start_offset(offset)

    def configure(self, config: LogConfig) -> None:
        """Applies the topic's configuration from the next append on."""
        self.config = config
        self._tail.configure(config)

    def resolve_doubt(self) -> None:
        """The gap that recovery found is accepted, or has been cut off."""
        self.doubtful_from = None

    def flush(self) -> Deferred[None]:
        """Resolves when everything appended before the call is durable."""
        return self._tail.flush()

    def roll(self, *, now_ms: int | None = None) -> Segment:
        """Closes the active segment, unless it is empty, and begins a new one."""
        self._failures.check()
        if self.segments.active.size == 0:
            return self.segments.active
        try:
            return self._tail.roll(self._world.clock.now_ms() if now_ms is None else now_ms)
        except OSError as error:
            raise self._tail.refusal(error, "roll") from error

    def skip_to(self, offset: int) -> None:
        """The log continues at the offset; an empty segment shows that there is nothing before it."""
        try:
            self._tail.skip_to(offset)
        except OSError as error:
            raise self._tail.refusal(error, "roll") from error

    # ---- truncation

    def truncate_to(self, offset: int) -> bool:
        """Cuts everything at and above the offset. Returns whether there was anything to cut.

        That may be an epoch alone, assigned for a batch that could not be written. The log then ends with the last
        remaining batch, which may end below the offset: a log that ended behind a hole would never fetch the records
        that are missing there. If compaction left the gap, fetching from below it costs nothing.
        """
        end_offset = self._tail.end_offset
        if offset >= end_offset:
            return self.files.remove_epochs_from(end_offset)
        if offset < self.segments[0].base_offset:
            self.truncate_fully_and_start_at(offset)
            return True
        start = self.log_start_offset
        delay_ms = self.config.file_delete_delay_ms
        try:
            end_offset = self.files.truncate_to(
                offset, log_start_offset=start, end_offset=end_offset, delete_delay_ms=delay_ms
            )
            self._reset_end(end_offset)
            self.files.rebuild_producers(
                log_start_offset=start, end_offset=end_offset, high_watermark=self.high_watermark
            )
        except (OSError, CorruptLog) as error:
            raise self._failures.fail_halfway(error, "truncate") from error
        return True

    def truncate_fully_and_start_at(self, offset: int) -> None:
        """Removes everything; the log is empty and begins at the offset."""
        delay_ms = self.config.file_delete_delay_ms
        self.files.restart_at(offset, end_offset=self._tail.end_offset, delete_delay_ms=delay_ms)
        self._reset_end(offset)
        self.doubtful_from = None
        self.log_start_offset = offset
        self.high_watermark = offset

    def _reset_end(self, offset: int) -> None:
        goes_behind_checkpoints = offset < max(self.recovery_point, self.log_start_offset)
        self._tail.reset(offset)
        self.high_watermark = min(self.high_watermark, offset)
        if self.doubtful_from is not None and offset <= self.doubtful_from:
            self.doubtful_from = None
        if self.on_cut is not None:
            self.on_cut(self.topic_partition, offset, goes_behind_checkpoints)

    # ---- removing and replacing segments

    def delete_segments(self, segments: Sequence[Segment]) -> None:
        """Removes closed segments from the log's beginning; readers lose them now, the disk a while later."""
        self._failures.check()
        try:
            if segments and segments[-1] is self.segments.active:
                self._tail.roll(self._world.clock.now_ms())
            self.files.remove_segments(list(segments), delete_delay_ms=self.config.file_delete_delay_ms)
        except OSError as error:
            raise self._tail.refusal(error, "delete segments of") from error
        finally:
            if self.segments[0].base_offset > self.log_start_offset:
                self._start_at(self.segments[0].base_offset)

    def replace_segments(self, old: Sequence[Segment], new: Sequence[Segment]) -> None:
        """Puts cleaned segments in the place of closed ones: see `LogFiles.replace_segments`."""
        self.files.replace_segments(old, new, delete_delay_ms=self.config.file_delete_delay_ms)

    # ---- moving and closing

    def adopt(self, future: PartitionLog) -> None:
        """Continues with the files of a complete copy. The copy itself is no longer used."""
        self.files.discard()
        future.producers.continue_from(self.producers)
        future.files.continue_from(self.files)
        self._tail.adopt(future._tail)
        self._use(future.files)
        self.log_start_offset = max(self.log_start_offset, future.log_start_offset)

    def close(self) -> list[str]:
        """Writes the files of a clean shutdown and closes all files. Flush first: closing does not sync.

        Returns paths that a worker has to sync before the shutdown counts as clean.
        """
        unsynced: list[str] = []
        if self._failures.offline is None:
            try:
                unsynced = self.files.close(self._tail.end_offset)
            except OSError as error:
                raise self._tail.refusal(error, "close") from error
        self._failures.take_offline(LogDirectoryOffline(f"{self.topic_partition} is closed"))
        return unsynced
