"""Periodic tasks for all logs: retention, flushes, checkpoints, expiration of producers.

A task has its own interval, starts `log.initial.task.delay.ms` after the node, and handles the logs in slices, so that
ten thousand logs do not block the loop. Checkpoint files are written on a worker. A later checkpoint never has older
offsets: a periodic one, whose offsets are read in slices, gives way to one whose offsets are read at once, because a
log was deleted or truncated, or the node stops. Tasks that are due at once get a turn each.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING

from ottla.model.config import BrokerConfig
from ottla.model.deferred import Deferred, gather
from ottla.model.errors import KafkaError
from ottla.model.ports import Files, Lane, Timer, World
from ottla.storage.checkpoint_writes import CheckpointWrites, Offsets
from ottla.storage.clean_logs import write_clean_logs
from ottla.storage.cold_lookups import look_up
from ottla.storage.directories import LogDirectory
from ottla.storage.errors import StorageError
from ottla.storage.flusher import sync_job
from ottla.storage.log import PartitionLog
from ottla.storage.log_files import is_any_short
from ottla.storage.names import (
    LOG_START_OFFSET_FILE,
    RECOVERY_POINT_FILE,
    REPLICATION_OFFSET_FILE,
    offset_of_file,
)
from ottla.storage.prompt_checkpoints import PromptCheckpoints
from ottla.storage.retention import delete_expired

if TYPE_CHECKING:
    from ottla.storage.manager import LogManager
    from ottla.storage.scrub import Scrubber

__all__ = ["Maintenance", "flush_all", "gather"]

logger = logging.getLogger(__name__)

# Of a task, for one log.
_Action = Callable[[PartitionLog], Deferred[None] | None]

_SLICE_LOGS = 100
# For a task that only reads.
_SLICE_LOGS_READ = 2_000
_NEVER_MS = 10 * 365 * 86_400_000
_FLUSH_CHECK_INTERVAL_MS = 1000
_FLUSHES_IN_FLIGHT_MAX = 8
# Recovery reads everything behind the recovery points in the checkpoint. After so many bytes of closed segments the
# checkpoint is written soon, not only when its interval is over.
_CLOSED_BYTES_MAX = 256 << 20
_CLOSED_BYTES_DELAY_S = 5.0
_CLOSED_TASK = "closed segments"


class Maintenance:
    """The periodic tasks of a `LogManager`."""

    def __init__(self, world: World, manager: LogManager) -> None:
        self._world = world
        self._manager = manager
        self._timers: dict[str, Timer] = {}
        # Tasks that are due.
        self._due: deque[Callable[[], object]] = deque()
        self._is_stopped = False
        self._checkpoints = CheckpointWrites(self._submit)
        # The checkpoints whose offsets are being read, by the name of the file.
        self._readings: dict[str, _OffsetsReading] = {}
        self.prompt_checkpoints = PromptCheckpoints(world.scheduler, self.checkpoint, manager.online_directories)
        self._closed_bytes = 0
        self._scrubber: Scrubber | None = None

    def start(self) -> None:
        self._world.files.on_short_file = self.on_short_file
        self._manager.pool.on_closed = self._on_segment_closed
        self.expire_producers()
        delay_ms = self._manager.config.log_initial_task_delay_ms
        self._every("retention", lambda c: c.log_retention_check_interval_ms, delay_ms, self.apply_retention)
        self._every("flush", _flush_interval_ms, delay_ms, self.flush_due)
        self._every("damage", lambda c: c.log_flush_offset_checkpoint_interval_ms, delay_ms, self.find_damage)
        self._every(
            "recovery points",
            lambda c: c.log_flush_offset_checkpoint_interval_ms,
            delay_ms,
            lambda: self._checkpoint_in_slices(RECOVERY_POINT_FILE),
        )
        self._every(
            "start offsets",
            lambda c: c.log_flush_start_offset_checkpoint_interval_ms,
            delay_ms,
            lambda: self._checkpoint_in_slices(LOG_START_OFFSET_FILE),
        )
        self._every(
            "high watermarks",
            lambda c: c.replica_high_watermark_checkpoint_interval_ms,
            0,
            lambda: self._checkpoint_in_slices(REPLICATION_OFFSET_FILE),
        )
        self._every("producers", lambda c: c.producer_id_expiration_check_interval_ms, 0, self.expire_producers)
        self.on_config()

    def stop(self) -> None:
        self._is_stopped = True
        self.prompt_checkpoints.stop()
        self._world.files.on_short_file = None
        self._manager.pool.on_closed = None
        if self._scrubber is not None:
            self._scrubber.stop()
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()

    def on_config(self) -> None:
        """Starts, changes or stops the scrub. Other tasks read the configuration with every run."""
        config = self._manager.config
        rate = config.ottla_log_scrub_bytes_per_second
        if self._scrubber is None and rate > 0 and self._timers:
            # Off by default.
            from ottla.storage.scrub import Scrubber

            self._scrubber = Scrubber(self._world, lambda: self._manager)
        if self._scrubber is not None:
            self._scrubber.configure(bytes_per_second=rate, interval_ms=config.ottla_log_scrub_interval_ms)

    @property
    def scrubbed_bytes(self) -> int:
        return 0 if self._scrubber is None else self._scrubber.bytes_read

    def apply_retention(self) -> None:
        readers = self._world.workers.lane(Lane.READS)
        self._for_each_log(lambda log: look_up(readers, partial(self._delete_expired, log)))

    def _delete_expired(self, log: PartitionLog, may_wait: bool) -> None:
        # The node may have stopped, or the disk failed, while a worker read the timestamps of the log.
        if not (self._is_stopped or log.is_offline):
            delete_expired(log, self._world.clock.now_ms(), may_wait=may_wait)

    def find_damage(self) -> None:
        """Detects files that were truncated or removed while the node runs. A worker reads their sizes."""
        self._find_damage_of(iter(list(self._manager)))

    def _find_damage_of(self, logs: Iterator[PartitionLog]) -> None:
        slice_of_logs = list(islice(logs, _SLICE_LOGS_READ))
        if not slice_of_logs or self._is_stopped:
            return
        written = [(log, log.files.written_files(log.recovery_point)) for log in slice_of_logs if not log.is_offline]

        def find_suspects() -> list[PartitionLog]:
            return [log for log, files in written if is_any_short(files)]

        def check(suspects: list[PartitionLog]) -> None:
            for log in suspects:
                log.files.find_damage(log.recovery_point)

        self._world.workers.submit(find_suspects).then(check).recover(BaseException, _ignore)
        self._world.scheduler.call_soon(self._find_damage_of, logs)

    def on_short_file(self, path: str) -> None:
        """A file ended before a region that was to be sent: it was truncated, unless the log has done so itself."""
        directory, _, name = path.rpartition("/")
        base_offset = offset_of_file(name)
        for log in self._manager:
            if log.directory != directory or base_offset is None or log.is_offline:
                continue
            segment = log.segments[log.segments.number_of(base_offset)]
            if segment is log.segments.active:
                log.files.find_damage(log.recovery_point)
            elif segment.base_offset == base_offset and _size_of(self._world.files, path) < segment.size:
                log.files.failures.note_damaged(base_offset, f"{path} was truncated")

    def flush_due(self) -> None:
        """Flushes logs whose last flush is `flush.ms` ago."""
        now_ms = self._world.clock.now_ms()

        def flush(log: PartitionLog) -> None:
            if log.recovery_point < log.log_end_offset and now_ms - log.last_flush_ms >= log.config.flush_ms:
                log.flush()

        # This runs every second, and few logs have `flush.ms`: one pass selects them.
        self._next_slice(iter([log for log in self._manager if log.config.flush_ms < _NEVER_MS]), flush)

    def expire_producers(self) -> None:
        now_ms = self._world.clock.now_ms()
        expiration_ms = self._manager.config.producer_id_expiration_ms

        def expire(log: PartitionLog) -> None:
            log.producers.state.expire(now_ms, expiration_ms)

        self._for_each_log(expire)

    def checkpoint(self) -> Deferred[None]:
        """Writes all checkpoint files with the offsets of now."""
        return all_done([self._checkpoint_at_once(name) for name in _OFFSETS])

    def _on_segment_closed(self, size: int) -> None:
        self._closed_bytes += size
        if self._closed_bytes >= _CLOSED_BYTES_MAX and _CLOSED_TASK not in self._timers:
            self._timers[_CLOSED_TASK] = self._world.scheduler.call_later(_CLOSED_BYTES_DELAY_S, self._note_closed)

    def _note_closed(self) -> None:
        del self._timers[_CLOSED_TASK]
        self._checkpoint_in_slices(RECOVERY_POINT_FILE)

    def close_all(self, broker_epoch: int) -> Deferred[None]:
        """Flushes and closes every log, then writes the checkpoints, then marks each directory as cleanly shut down."""
        unclean: set[LogDirectory] = set()

        def close(_: None) -> Deferred[None]:
            # A failed flush has taken its directory offline. The other directories shut down cleanly.
            unsynced: dict[LogDirectory, list[str]] = {
                directory: [] for directory in self._manager.online_directories()
            }
            for log in self._manager:
                directory = self._manager.directory_of(log.topic_partition)
                if directory is None:
                    # The directory failed when an earlier log in it was closed, and has taken this log out of service.
                    continue
                if log.doubtful_from is not None:
                    # The next start has to find the doubt again.
                    unclean.add(directory)
                elif not _is_flushed(log):
                    logger.warning("%s is not shut down cleanly: its flush has failed", log.topic_partition)
                    unclean.add(directory)
                try:
                    unsynced[directory] += log.close()
                except StorageError as error:
                    # No room for the snapshot. Without the marker, the next start rebuilds the state from the log.
                    logger.warning("%s is not shut down cleanly: %s", log.topic_partition, error.message)
                    unclean.add(directory)
            syncs = [
                self._submit(directory, sync_job(self._world.files, [], paths)) for directory, paths in unsynced.items()
            ]
            # `_submit` handles errors, so none of these fails.
            return all_done(syncs).and_then(lambda _: self.checkpoint()).and_then(mark)

        def mark(_: None) -> Deferred[None]:
            online = self._manager.online_directories()
            # With an old checkpoint, the next start might treat offsets of truncated records as valid.
            clean = [directory for directory in online if directory.has_all_checkpoints and directory not in unclean]
            clean = [directory for directory in clean if not directory.unrecovered]
            return all_done([self._submit(directory, self._mark_clean, directory, broker_epoch) for directory in clean])

        return flush_all(list(self._manager)).and_then(close)

    def _mark_clean(self, directory: LogDirectory, broker_epoch: int) -> None:
        """Runs on a worker: the logs are closed and do not change any more."""
        directory.write_clean_shutdown_marker(broker_epoch)
        manager = self._manager
        logs = [
            (log, manager.topic_id_of(log.topic_partition))
            for log in manager
            if manager.directory_of(log.topic_partition) is directory
        ]
        write_clean_logs(self._world.files, directory.path, logs, marker_stamp=directory.marker_stamp)

    def _checkpoint_at_once(self, name: str) -> Deferred[None]:
        reading = self._begin_reading(name)
        reading.read(None)
        return self._write_checkpoint(reading)

    def _checkpoint_in_slices(self, name: str) -> None:
        self._read_slice(self._begin_reading(name))

    def _begin_reading(self, name: str) -> _OffsetsReading:
        """Begins a reading. An older reading of the file ends without a write: its offsets may be of a deleted log."""
        if name == RECOVERY_POINT_FILE:
            self._closed_bytes = 0
        reading = self._readings[name] = _OffsetsReading(name, self._manager)
        return reading

    def _read_slice(self, reading: _OffsetsReading) -> None:
        if self._is_stopped or self._readings.get(reading.name) is not reading:
            return
        if reading.read(_SLICE_LOGS_READ):
            self._write_checkpoint(reading)
        else:
            self._world.scheduler.call_soon(self._read_slice, reading)

    def _write_checkpoint(self, reading: _OffsetsReading) -> Deferred[None]:
        del self._readings[reading.name]
        reading.add_refused(self._manager)
        name, write = reading.name, self._checkpoints.write
        return all_done([write(directory, name, offsets) for directory, offsets in reading.offsets.items()])

    def _submit(self, directory: LogDirectory, function: Callable[..., None], *arguments: object) -> Deferred[None]:
        """Runs a function on a worker. An error other than a full disk takes the directory out of service."""
        submitted = self._world.workers.submit(function, *arguments)
        return submitted.recover(OSError, lambda error: directory.tolerate(error)).recover(BaseException, _ignore)

    def _for_each_log(self, action: _Action) -> None:
        self._next_slice(iter(list(self._manager)), action)

    def _next_slice(self, logs: Iterator[PartitionLog], action: _Action) -> None:
        """Runs the action for some logs. If it has to wait for the disk, the logs behind it wait as well."""
        for _ in range(_SLICE_LOGS):
            log = next(logs, None)
            if log is None or self._is_stopped:
                return
            if log.is_offline:
                continue
            try:
                outcome = action(log)
            except (KafkaError, OSError) as error:
                _warn(log, error)
                continue
            if outcome is None:
                continue
            if not outcome.done:
                outcome.when_done(partial(self._continue_behind, log, logs, action))
                return
            _warn_of_failure(log, outcome)
        self._world.scheduler.call_soon(self._next_slice, logs, action)

    def _continue_behind(
        self, log: PartitionLog, logs: Iterator[PartitionLog], action: _Action, outcome: Deferred[None]
    ) -> None:
        _warn_of_failure(log, outcome)
        self._next_slice(logs, action)

    def _run_due(self) -> None:
        """Runs one task. The tasks behind it come in later turns of the loop."""
        if self._due and not self._is_stopped:
            try:
                self._due[0]()
            finally:
                self._world.scheduler.call_soon(self._end_of_turn)

    def _end_of_turn(self) -> None:
        self._due.popleft()
        self._run_due()

    def _every(
        self, name: str, interval_ms_of: Callable[[BrokerConfig], int], delay_ms: int, duty: Callable[[], object]
    ) -> None:
        """Runs a task periodically. A changed interval applies from the next run on."""

        def wait(milliseconds: int) -> None:
            self._timers[name] = self._world.scheduler.call_later(_bounded_seconds(milliseconds), run)

        def run() -> None:
            if not self._is_stopped:
                wait(interval_ms_of(self._manager.config))
                self._due.append(duty)
                if len(self._due) == 1:
                    self._run_due()

        wait(delay_ms if delay_ms else interval_ms_of(self._manager.config))


class _OffsetsReading:
    """The offsets for a checkpoint file of each directory, while they are read."""

    __slots__ = ("_offset_of", "_places", "name", "offsets")

    def __init__(self, name: str, manager: LogManager) -> None:
        self.name = name
        self._offset_of = _OFFSETS[name]
        self._places = manager.places()
        self.offsets: dict[LogDirectory, Offsets] = {directory: {} for directory in manager.online_directories()}
        for log, directory in manager.unrecovered():
            # Like for `damage`: the log was written up to its end, so the next start detects that records are missing.
            offset = log.log_end_offset if name == RECOVERY_POINT_FILE else self._offset_of(log)
            if offset is not None and directory in self.offsets:
                self.offsets[directory][log.topic_partition] = offset

    def read(self, logs_max: int | None) -> bool:
        """Reads the offsets of at most `logs_max` more logs; returns True after the last log."""
        offset_of, offsets = self._offset_of, self.offsets
        count = 0
        for log, directory in islice(self._places, logs_max):
            count += 1
            offset = offset_of(log)
            if offset is not None and directory in offsets:
                offsets[directory][log.topic_partition] = offset
        return logs_max is None or count < logs_max

    def add_refused(self, manager: LogManager) -> None:
        """Adds logs that could not be opened. Called last: the log of a former topic may have been set aside."""
        number = list(_OFFSETS).index(self.name)
        for directory, offsets in self.offsets.items():
            for topic_partition, offsets_of_log in directory.offsets_of_refused.items():
                if offsets_of_log[number] > 0 and manager.is_refused(topic_partition):
                    offsets[topic_partition] = offsets_of_log[number]


def _checkpointed_start(log: PartitionLog) -> int | None:
    """The start of a log that begins inside a segment; None if it equals the name of the first segment."""
    return log.log_start_offset if log.log_start_offset > log.segments[0].base_offset else None


# The offset of a log in each checkpoint file, in the order of `LogDirectory.offsets_of_refused`.
_OFFSETS: dict[str, Callable[[PartitionLog], int | None]] = {
    RECOVERY_POINT_FILE: lambda log: log.recovery_point,
    LOG_START_OFFSET_FILE: _checkpointed_start,
    REPLICATION_OFFSET_FILE: lambda log: log.high_watermark,
}


def all_done(deferreds: list[Deferred[None]]) -> Deferred[None]:
    """Resolves after the last completion; fails with the first error, in the order of the list."""
    return gather(deferreds).then(_ignore)


def flush_all(logs: list[PartitionLog]) -> Deferred[None]:
    """Flushes the logs, a few at a time."""
    waiting = iter(logs)
    done: Deferred[None] = Deferred()
    running = 1

    def next_one(_: object = None) -> None:
        nonlocal running
        for log in waiting:
            flushed = log.flush()
            if not flushed.done:
                flushed.when_done(next_one)
                return
        running -= 1
        if running == 0:
            done.resolve(None)

    for _ in range(min(len(logs), _FLUSHES_IN_FLIGHT_MAX)):
        running += 1
        next_one()
    next_one()
    return done


def _is_flushed(log: PartitionLog) -> bool:
    """False if a flush has failed, for lack of memory or open files for example."""
    return log.recovery_point >= log.log_end_offset and log.files.is_synced


def _warn_of_failure(log: PartitionLog, outcome: Deferred[None]) -> None:
    """Raises errors that are defects."""
    try:
        outcome.result()
    except (KafkaError, OSError) as error:
        _warn(log, error)


def _warn(log: PartitionLog, error: KafkaError | OSError) -> None:
    # The directory is out of service, the disk is full or a segment damaged: the next run tries again.
    logger.warning("Maintenance of %s failed: %s", log.topic_partition, _reason(log, error))


def _reason(log: PartitionLog, error: KafkaError | OSError) -> str:
    """The reason why the maintenance of a log failed. An OSError also has its effect on the log."""
    if isinstance(error, OSError):
        error = log.files.refusal(error, "maintain", end_offset=log.log_end_offset)
    return error.message


def _size_of(files: Files, path: str) -> int:
    try:
        return files.size_of(path)
    except OSError:
        return -1


def _ignore(_outcome: object) -> None:
    """Ignores the outcome, because only the completion matters."""


def _bounded_seconds(milliseconds: int) -> float:
    """Limits an interval: "never" is a number of milliseconds that no timer accepts."""
    return min(milliseconds, _NEVER_MS) / 1000


def _flush_interval_ms(config: BrokerConfig) -> int:
    """`log.flush.scheduler.interval.ms` is "never" by default, but a topic's `flush.ms` has to work."""
    interval_ms = config.log_flush_scheduler_interval_ms
    return interval_ms if interval_ms < _NEVER_MS else _FLUSH_CHECK_INTERVAL_MS
