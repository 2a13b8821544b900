"""A log as files: begun, rolled, made durable, cut, thinned out, replaced, moved and closed.

This is the lower half of `PartitionLog`. It knows segments and what lies beside them (producer snapshots, leader
epochs), keeps them consistent with one another, and decides what an OSError means.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence

from ottla.model.config import LogConfig
from ottla.model.deferred import Deferred
from ottla.model.ids import TopicPartition
from ottla.model.ports import World
from ottla.storage.deletion import mark_deleted, remove_later
from ottla.storage.errors import DiskFull, LogDirectoryOffline, StorageError, is_disk_full, is_shortage
from ottla.storage.flusher import Flusher, sync_job
from ottla.storage.leader_epochs import LeaderEpochs
from ottla.storage.names import SWAP_SUFFIX
from ottla.storage.open_files import OpenFiles
from ottla.storage.producers import ProducerLedger
from ottla.storage.rolling import RollBounds
from ottla.storage.segment import Segment
from ottla.storage.segments import Segments

__all__ = ["LogFiles"]

logger = logging.getLogger(__name__)

_NEVER = (1 << 63) - 1
_FULL_LOG_INTERVAL_MS = 10_000


class LogFiles:
    """State and files of one log. All of it belongs to one thread; only syncing and removing go to workers."""

    __slots__ = (
        "_flush_started",
        "_flush_target",
        "_flusher",
        "_flushing_paths",
        "_full_at",
        "_full_logged_ms",
        "_next_offset",
        "_offline",
        "_on_failure",
        "_pool",
        "_recent",
        "_roll_bounds",
        "_roll_jitter_ms",
        "_unsynced_paths",
        "_world",
        "config",
        "directory",
        "doubtful_from",
        "epochs",
        "high_watermark",
        "last_flush_ms",
        "log_start_offset",
        "on_cut",
        "producers",
        "recovery_point",
        "segments",
        "topic_partition",
    )

    def __init__(
        self,
        world: World,
        pool: OpenFiles,
        *,
        topic_partition: TopicPartition,
        directory: str,
        config: LogConfig,
        segments: Iterable[Segment],
        producers: ProducerLedger,
        epochs: LeaderEpochs,
        log_start_offset: int,
        next_offset: int,
        recovery_point: int,
        doubtful_from: int | None = None,
        on_failure: Callable[[OSError], None] | None = None,
    ) -> None:
        self._world = world
        self._pool = pool
        self.topic_partition = topic_partition
        self.directory = directory
        self.config = config
        self.segments = Segments(segments)
        self.producers = producers
        self.epochs = epochs
        self.log_start_offset = log_start_offset
        self.high_watermark = log_start_offset
        self.recovery_point = recovery_point
        # Recovery has found a gap in the offsets from here on that may be honest or damage. A follower has the leader
        # send all of it again; a leader has nobody to ask, and keeps it.
        self.doubtful_from = doubtful_from
        # Told where the log ends after each truncation, and whether the checkpoints may say more than is true now.
        self.on_cut: Callable[[TopicPartition, int, bool], None] | None = None
        self.last_flush_ms = world.clock.now_ms()
        self._next_offset = next_offset
        self._on_failure = on_failure
        self._offline: StorageError | None = None
        self._recent: dict[int, int] = {}
        self._roll_jitter_ms = self._draw_jitter()
        # What the active segment surely has room for; made at the first append, and again when it no longer holds.
        self._roll_bounds: RollBounds | None = None
        self._unsynced_paths: list[str] = []
        self._flushing_paths: Sequence[str] = ()
        self._flush_target = next_offset
        self._flush_started = 0.0
        # Where the log ended when there was no room for more; while it ends there, the batch refused is missing.
        self._full_at = -1
        self._full_logged_ms = 0
        self._flusher = Flusher(world.workers, collect=self._collect_flush, on_done=self._on_flush_done)

    def __repr__(self) -> str:
        return f"PartitionLog({self.topic_partition}, {self.log_start_offset}..{self._next_offset})"

    @property
    def log_end_offset(self) -> int:
        """The offset the next record will get."""
        return self._next_offset

    @property
    def size_bytes(self) -> int:
        return self.segments.size_bytes

    @property
    def is_offline(self) -> bool:
        return self._offline is not None

    def configure(self, config: LogConfig) -> None:
        """Applies the topic's configuration from the next append on."""
        self.config = config

    def resolve_doubt(self) -> None:
        """The gap that recovery found is accepted, or has been cut off."""
        self.doubtful_from = None

    # ---- rolling

    def roll(self, *, now_ms: int | None = None) -> Segment:
        """Closes the active segment, unless it is empty, and begins a new one."""
        if self._offline is not None:
            raise self._offline
        if self.segments.active.size == 0:
            return self.segments.active
        try:
            return self._roll(self._next_offset, self._world.clock.now_ms() if now_ms is None else now_ms)
        except OSError as error:
            raise self._failure(error, "roll") from error

    def skip_to(self, offset: int) -> None:
        """The log goes on at the offset; that there is nothing before it, an empty segment says."""
        try:
            self._roll(offset, self._world.clock.now_ms())
        except OSError as error:
            raise self._failure(error, "roll") from error
        self._next_offset = offset

    def _roll(self, base_offset: int, now_ms: int) -> Segment:
        old = self.segments.active
        preallocate_bytes = self.config.segment_bytes if self.config.preallocate else 0
        if old.base_offset == base_offset and old.size == 0:
            # The empty active segment cannot take the offset relatively, or its index is full: begin it anew.
            return old
        new = Segment.create(
            self.directory, base_offset, self._pool, now_ms=now_ms, preallocate_bytes=preallocate_bytes
        )
        try:
            # With the snapshot, a restart after a crash reads the log from here, not from its beginning.
            self.producers.state.end_offset = base_offset
            path = self.producers.take_snapshot(durable=False)
            old.close_for_appends()
        except OSError:
            new.remove_files()
            raise
        if path is not None:
            self._unsynced_paths.append(path)
        self._unsynced_paths.append(self.directory)
        self.segments.add(new)
        if old.size == 0:
            self._remove_now(old)
        self._recent.clear()
        self._roll_jitter_ms = self._draw_jitter()
        self._world.scheduler.call_soon(self.flush)
        return new

    def _draw_jitter(self) -> int:
        limit = min(self.config.segment_jitter_ms, self.config.segment_ms)
        return self._world.random.randrange(limit) if limit > 0 else 0

    def _remove_now(self, segment: Segment) -> None:
        self.segments.remove([segment])
        segment.remove_files()

    # ---- flushing

    def flush(self) -> Deferred[None]:
        """Resolves when everything appended before the call is durable."""
        if self._offline is not None:
            return Deferred.failed(self._offline)
        if self.recovery_point >= self._next_offset:
            # What lies beside an empty log can wait: losing it in a power cut loses nothing.
            is_empty = self.log_start_offset == self._next_offset and len(self.segments) == 1
            if is_empty or not (self._unsynced_paths or self.epochs.is_unsynced):
                return Deferred.resolved(None)
        return self._flusher.flush()

    def sync_with_next_flush(self, *paths: str) -> None:
        """Files beside the segments that have to be durable when the recovery point moves."""
        self._unsynced_paths.extend(paths)

    def _collect_flush(self) -> Callable[[], None]:
        active = self.segments.active
        open_files = active.undoubted_files()
        for segment in self.segments.from_offset(self.recovery_point):
            if segment is not active:
                open_files.extend(segment.syncable_files())
        self._flush_target = self._next_offset
        self._flush_started = self._world.clock.monotonic()
        paths, self._unsynced_paths = self._unsynced_paths, []
        if self.epochs.is_unsynced:
            paths.append(self.epochs.path)
            self.epochs.is_unsynced = False
        self._flushing_paths = paths
        return sync_job(self._world.files, open_files, list(dict.fromkeys(paths)))

    def _on_flush_done(self, error: BaseException | None) -> BaseException | None:
        if isinstance(error, OSError):
            if is_shortage(error):
                # It came from opening a file; nothing counts as synced, and the next flush tries again.
                self._unsynced_paths += self._flushing_paths
                return self._failure(error, "flush")
            # After a failed fsync nobody knows what the disk holds: even a full disk takes the directory out here.
            return self._fail(error, "flush")
        if error is None:
            self.recovery_point = max(self.recovery_point, self._flush_target)
            self.last_flush_ms = self._world.clock.now_ms()
            self._pool.count_flush(self._world.clock.monotonic() - self._flush_started)
        return error

    # ---- failing

    def _failure(self, error: OSError, action: str) -> StorageError:
        """What to raise for an OSError in a write that has left nothing behind."""
        if is_disk_full(error):
            full = self._no_room(action, error.strerror)
            self._full_at = self._next_offset
            now_ms = self._world.clock.now_ms()
            if now_ms - self._full_logged_ms >= _FULL_LOG_INTERVAL_MS:
                # Producers try again and again; one line in a while is enough.
                self._full_logged_ms = now_ms
                logger.warning("%s", full.message)
            return full
        if is_shortage(error):
            return StorageError(f"Could not {action} {self.topic_partition} for now: {error}")
        return self._fail(error, action)

    def _no_room(self, action: str, reason: str | None = None) -> DiskFull:
        why = "" if reason is None else f": {reason}"
        return DiskFull(f"No room to {action} {self.topic_partition} in {self.directory}{why}")

    def _fail(self, error: OSError, action: str) -> StorageError:
        """The log directory is broken: refuse everything from now on, and tell its owner."""
        if self._offline is None:
            self._offline = LogDirectoryOffline(f"Could not {action} {self.topic_partition}: {error}")
            if self._on_failure is not None:
                self._on_failure(error)
        return self._offline

    # ---- cutting

    def truncate_to(self, offset: int) -> bool:
        """Cuts everything at and above the offset; whether there was anything to cut.

        That may be an epoch alone: one that was noted for a batch that could not be written. The log then ends with the
        last batch that is left, which may be further down: a log that ended behind a hole would never be given what is
        missing there. Where it is a gap that compaction has left, asking for it again brings nothing and costs nothing.
        """
        if offset >= self._next_offset:
            latest = self.epochs.latest
            self.epochs.truncate_from_end(self._next_offset)
            return self.epochs.latest != latest
        if offset < self.segments[0].base_offset:
            self.truncate_fully_and_start_at(offset)
            return True
        try:
            self._truncate_to(offset)
        except OSError as error:
            raise self._fail(error, "truncate") from error
        return True

    def _truncate_to(self, offset: int) -> None:
        number = self.segments.number_of(offset)
        later = self.segments.from_offset(offset)[1:]
        keep = self.segments[number]
        if later:
            self.segments.remove(later)
            # From the end on, so that a crash in between leaves no hole.
            self._remove_later(mark_deleted(later[::-1], self.producers))
        # Records below the log's start are not missed.
        offset = max(keep.truncate_to(offset), self.log_start_offset)
        self._unsynced_paths += [keep.path, keep.transaction_index.path]
        self.epochs.truncate_from_end(offset)
        self._reset_end(offset)
        self.producers.rebuild(
            list(self.segments),
            log_start_offset=self.log_start_offset,
            end_offset=offset,
            now_ms=self._world.clock.now_ms(),
            rebuild_transactions_from=_NEVER,
        )
        # What ended below the high watermark is settled: it may be long until that moves again.
        self.producers.state.on_high_watermark(self.high_watermark)

    def truncate_fully_and_start_at(self, offset: int) -> None:
        """Throws everything away and begins anew at the offset."""
        try:
            old = list(self.segments)
            paths = mark_deleted(old, self.producers)
            self.segments.replace_all(
                Segment.create(self.directory, offset, self._pool, now_ms=self._world.clock.now_ms())
            )
            self._remove_later(paths)
            self.epochs.clear()
            self.producers.clear(offset)
        except OSError as error:
            raise self._fail(error, "empty") from error
        self._reset_end(offset)
        self.doubtful_from = None
        self.log_start_offset = offset
        self.high_watermark = offset

    def _reset_end(self, offset: int) -> None:
        goes_behind_checkpoints = offset < max(self.recovery_point, self.log_start_offset)
        self._next_offset = offset
        self._recent.clear()
        self._roll_bounds = None
        self.recovery_point = min(self.recovery_point, offset)
        self.high_watermark = min(self.high_watermark, offset)
        # A flush on its way has synced bytes that are gone: it may not move the recovery point past the cut.
        self._flush_target = min(self._flush_target, offset)
        if self.doubtful_from is not None and offset <= self.doubtful_from:
            self.doubtful_from = None
        if self.on_cut is not None:
            self.on_cut(self.topic_partition, offset, goes_behind_checkpoints)

    # ---- taking segments out

    def delete_segments(self, segments: Sequence[Segment]) -> None:
        """Removes closed segments from the log's beginning; readers lose them now, the disk a while later."""
        if self._offline is not None:
            raise self._offline
        try:
            if segments and segments[-1] is self.segments.active:
                self._roll(self._next_offset, self._world.clock.now_ms())
            gone = list(segments)
            self.segments.remove(gone)
            paths = mark_deleted(gone, self.producers)
        except OSError as error:
            raise self._failure(error, "delete segments of") from error
        self._remove_later(paths)
        start = self.segments[0].base_offset
        if start > self.log_start_offset:
            self.log_start_offset = start
            self.epochs.truncate_from_start(start)
            self.producers.state.on_log_start_offset(start)

    def replace_segments(self, old: Sequence[Segment], new: Sequence[Segment]) -> None:
        """Puts cleaned segments (suffix `.cleaned`, complete and synced) in the place of closed ones.

        First they become `.swap`, which is the point of no return: a crash after that finishes the replacement.
        """
        try:
            for segment in reversed(new):
                segment.rename_suffix(SWAP_SUFFIX)
            # Snapshots belong to offsets that are still there.
            kept = {segment.base_offset for segment in new}
            self.segments.replace(old, new)
            paths = mark_deleted([segment for segment in old if segment.base_offset not in kept], self.producers)
            paths += mark_deleted([segment for segment in old if segment.base_offset in kept], None)
            for segment in new:
                segment.rename_suffix("")
        except OSError as error:
            raise self._fail(error, "replace segments of") from error
        self._unsynced_paths.append(self.directory)
        self._remove_later(paths)

    def _remove_later(self, paths: list[str]) -> None:
        remove_later(self._world, paths, delay_ms=self.config.file_delete_delay_ms)

    # ---- closing and moving

    def take_offline(self, error: StorageError) -> None:
        """The directory failed elsewhere: refuse everything, touch nothing."""
        if self._offline is None:
            self._offline = error
        for segment in self.segments:
            segment.discard()

    def relocate(self, directory: str) -> None:
        """The partition's directory was renamed; open files stay open."""
        self.directory = directory
        self.epochs.directory = directory
        self.producers.directory = directory
        self._unsynced_paths = []
        for segment in self.segments:
            segment.relocate(directory=directory)

    def adopt(self, future: LogFiles) -> None:
        """Goes on with the files of a complete copy, which is not used by itself any more."""
        for segment in self.segments:
            segment.discard()
        self.directory = future.directory
        self.segments = future.segments
        # The copy has seen the same batches, but neither the high watermark, nor what is asked of coordinators, nor
        # producers whose batches were deleted.
        future.producers.state = self.producers.state
        self.producers = future.producers
        self.epochs = future.epochs
        self.log_start_offset = max(self.log_start_offset, future.log_start_offset)
        self.recovery_point = future.recovery_point
        self._on_failure = future._on_failure
        self._unsynced_paths = future._unsynced_paths
        self._recent.clear()
        # A flush on its way has synced the old files only.
        self._flush_target = self.recovery_point
        assert self._next_offset == future._next_offset, "the copy ends where the log ends"

    def close(self) -> list[str]:
        """Writes what a clean shutdown needs and closes the files. Flush first: closing is not syncing.

        Returns what has to be synced, on a worker, before the shutdown may be called clean.
        """
        unsynced: list[str] = []
        if self._offline is None:
            try:
                snapshot = self.producers.take_snapshot(durable=False)
                if snapshot is not None:
                    unsynced = [snapshot, self.directory]
                for segment in self.segments:
                    segment.close()
            except OSError as error:
                raise self._failure(error, "close") from error
        self._offline = self._offline or LogDirectoryOffline(f"{self.topic_partition} is closed")
        return unsynced
