"""The end of a log, to which batches are appended.

`LogTail` appends to the active segment, rolls it when it is full or too old, and keeps the positions of the last
batches, so that reads near the end need no search in an index.

An append writes once. Memory and indexes follow the write, so that a refused or failed append leaves no trace.
"""

from __future__ import annotations

from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from ottla.model.deferred import Deferred
from ottla.model.errors import ErrorCode, KafkaError
from ottla.records.header import CONTROL_BIT, LENGTH_OVERHEAD, BatchHeader
from ottla.storage.durability import Durability
from ottla.storage.errors import CorruptLog
from ottla.storage.rolling import RollBounds, must_roll
from ottla.storage.segment_check import tail_is_intact

if TYPE_CHECKING:
    from ottla.model.config import LogConfig
    from ottla.model.ids import TopicPartition
    from ottla.model.ports import World
    from ottla.storage.errors import StorageError
    from ottla.storage.log_files import LogFiles
    from ottla.storage.open_files import OpenFiles
    from ottla.storage.segment import Segment

__all__ = ["AppendResult", "LogTail"]

# Positions of batches that are remembered. The older half is dropped at once, because dropping one position with every
# append would cost every append.
_RECENT_MAX = 64
_RECENT_MIN = _RECENT_MAX // 2


class AppendResult(NamedTuple):
    first_offset: int
    last_offset: int
    append_time_ms: int
    """The append time if the topic uses LogAppendTime, else -1."""
    log_start_offset: int
    duplicate: bool = False
    """The batch is a duplicate; the offsets are those of the earlier batch."""
    flushed: Deferred[None] | None = None
    """Set if `flush.messages` was reached: acknowledge after it resolves."""


class LogTail:
    """`end_offset` is the offset of the next record. `recent` maps base offsets to positions in the active segment."""

    __slots__ = (
        "_config",
        "_epochs",
        "_failures",
        "_files",
        "_producers",
        "_roll_bounds",
        "_roll_jitter_ms",
        "_segments",
        "_topic_partition",
        "_world",
        "durability",
        "end_offset",
        "recent",
    )

    def __init__(
        self,
        world: World,
        pool: OpenFiles,
        files: LogFiles,
        *,
        topic_partition: TopicPartition,
        config: LogConfig,
        end_offset: int,
        recovery_point: int,
    ) -> None:
        self._world = world
        self._topic_partition = topic_partition
        self._config = config
        self._use(files)
        self.end_offset = end_offset
        self.recent: dict[int, int] = {}
        self.durability = Durability(world, pool, files, recovery_point=recovery_point)
        self._roll_jitter_ms = self._draw_jitter()
        # Limits within which the active segment need not roll: computed at the first append, and when they are passed.
        self._roll_bounds: RollBounds | None = None

    def _use(self, files: LogFiles) -> None:
        self._files = files
        # Appends use these attributes directly.
        self._segments = files.segments
        self._producers = files.producers
        self._epochs = files.epochs
        self._failures = files.failures

    def invariants(self) -> None:
        active = self._segments.active
        assert self._segments is self._files.segments
        assert active.base_offset <= self.end_offset, "the active segment begins within the log, or at its end"
        assert self.durability.recovery_point <= self.end_offset, "nothing beyond the end is durable"
        for base_offset in (next(iter(self.recent), None), next(reversed(self.recent), None)):
            if base_offset is not None:
                assert active.base_offset <= base_offset < self.end_offset, "recent batches are in the active segment"
                assert self.recent[base_offset] < active.size

    def configure(self, config: LogConfig) -> None:
        self._config = config

    def append(
        self,
        buffer: memoryview,
        headers: list[BatchHeader],
        next_offset: int,
        now_ms: int,
        is_replicated: bool = False,
    ) -> Deferred[None] | None:
        """Writes stamped batches. Returns the flush to wait for, where `flush.messages` asks for one.

        Replicated batches may be larger than a segment: the leader appended them when `segment.bytes` was larger.
        """
        offline = self._failures.offline
        if offline is not None:
            raise offline
        size = len(buffer)
        header = headers[0]
        is_single = len(headers) == 1
        max_timestamp = header.max_timestamp if is_single else max([batch.max_timestamp for batch in headers])
        config = self._config
        segment = self._segments.active
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
                segment = self._segment_for(size, headers, next_offset, now_ms, is_replicated)
            if header.leader_epoch != self._epochs.latest_on_disk or not is_single:
                self._epochs.assign_from(headers)
            position = segment.size
            segment.append(buffer, headers, index_interval_bytes=config.index_interval_bytes, now_ms=now_ms)
        except OSError as error:
            raise self.refusal(error, "append to") from error
        self.end_offset = next_offset
        recent = self.recent
        if is_single:
            if header.producer_id >= 0:
                if header.attributes & CONTROL_BIT:
                    self._update_producers(headers, buffer, segment)
                else:
                    self._producers.state.update(header)
            if header.magic == 2:
                recent[header.base_offset] = position
        else:
            self._update_producers(headers, buffer, segment)
            for header in headers:
                if header.magic == 2:
                    recent[header.base_offset] = position
                position += LENGTH_OVERHEAD + header.batch_length
        if len(recent) > _RECENT_MAX:
            self.recent = dict(islice(recent.items(), len(recent) - _RECENT_MIN, None))
        if next_offset - self.durability.recovery_point >= config.flush_messages:
            return self.flush()
        return None

    def _update_producers(self, headers: list[BatchHeader], buffer: memoryview, segment: Segment) -> None:
        try:
            self._producers.update_all(headers, buffer, segment)
        except OSError as error:
            # A marker is in the log, but not in the transaction index, and not for lack of room: only recovery can
            # repair that.
            raise self._failures.fail(error, f"index a marker after {headers[0].base_offset} of") from error

    def flush_of_duplicate(self, offset: int) -> Deferred[None] | None:
        """A duplicate is acknowledged no earlier than the batch was: its flush may be under way, or have failed."""
        recovery_point = self.durability.recovery_point
        if offset < recovery_point or self.end_offset - recovery_point < self._config.flush_messages:
            return None
        return self.flush()

    def flush(self) -> Deferred[None]:
        """Resolves when everything appended before the call is durable."""
        offline = self._failures.offline
        if offline is not None:
            return Deferred.failed(offline)
        if self.durability.recovery_point >= self.end_offset and self._files.is_synced:
            return Deferred.resolved(None)
        return self.durability.flush(self.end_offset)

    def reset(self, end_offset: int) -> None:
        """The log was truncated."""
        self.end_offset = end_offset
        self.recent.clear()
        self._roll_bounds = None
        self.durability.on_truncated(end_offset)

    def adopt(self, future: LogTail) -> None:
        """The log continues with the files of a copy that ends at the same offset."""
        assert self.end_offset == future.end_offset, "the copy ends where the log ends"
        self._use(future._files)
        self.durability.adopt(future._files, recovery_point=future.durability.recovery_point)
        self.recent.clear()

    def refusal(self, error: OSError, action: str) -> StorageError:
        """The error to raise for an OSError of a call that left nothing behind."""
        return self._files.refusal(error, action, end_offset=self.end_offset)

    # ---- rolling

    def _segment_for(
        self, size: int, headers: list[BatchHeader], next_offset: int, now_ms: int, is_replicated: bool
    ) -> Segment:
        """The segment for these batches: the active segment, or a new segment if the active one is full or too old."""
        config = self._config
        if size > config.segment_bytes and not is_replicated:
            raise KafkaError(
                ErrorCode.RECORD_LIST_TOO_LARGE,
                f"{size} bytes are more than a whole segment of {self._topic_partition} ({config.segment_bytes} bytes)",
            )
        segment = self._segments.active
        if segment.is_tail_unread:
            self._check(segment)
        if must_roll(
            segment,
            config,
            added_bytes=size,
            max_timestamp=max(header.max_timestamp for header in headers),
            next_offset=next_offset,
            now_ms=now_ms,
            jitter_ms=self._roll_jitter_ms,
        ):
            segment = self._roll(max(headers[0].base_offset, self.end_offset), now_ms)
        self._roll_bounds = RollBounds(segment, config, jitter_ms=self._roll_jitter_ms)
        return segment

    def _check(self, segment: Segment) -> None:
        """Raises, and has the log recovered, if its last batches are damaged. No batch is appended behind damage."""
        try:
            is_intact = segment.size == 0 or tail_is_intact(segment)
        except CorruptLog:
            is_intact = False
        if not is_intact:
            raise self._failures.fail_log(f"the last batches in {segment.path} are damaged")
        segment.is_tail_unread = False

    def roll(self, now_ms: int) -> Segment:
        """Closes the active segment and begins a new one. Raises OSError with nothing changed."""
        return self._roll(self.end_offset, now_ms)

    def skip_to(self, offset: int) -> None:
        """The log continues at the offset: an empty segment begins there. Raises OSError with nothing changed."""
        self._roll(offset, self._world.clock.now_ms())
        self.end_offset = offset

    def _roll(self, base_offset: int, now_ms: int) -> Segment:
        old = self._segments.active
        new = self._files.roll(base_offset, self._config, now_ms=now_ms)
        if new is not old:
            self.recent.clear()
            self._roll_jitter_ms = self._draw_jitter()
            self._world.scheduler.call_soon(self._flush_closed, old.size)
        return new

    def _flush_closed(self, size: int) -> None:
        self.flush().when_done(partial(self.durability.count_closed, size))

    def _draw_jitter(self) -> int:
        limit = min(self._config.segment_jitter_ms, self._config.segment_ms)
        return self._world.random.randrange(limit) if limit > 0 else 0
