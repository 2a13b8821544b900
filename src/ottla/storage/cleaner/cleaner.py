"""The log cleaner: several workers, which clean the dirtiest logs first.

All decisions are made on the loop's thread. Only `Cleaning.step`, which reads and writes files, runs on worker threads,
a small step at a time. Between two steps the loop is free, the throttle delays the next step, and a cleaning whose log
has changed (truncated, deleted, moved, segments removed by retention) is dropped. So there is no lock, and nothing
waits for the cleaner: a cleaned segment is swapped in only if all of its source segments are still there.

A log that cannot be cleaned (damaged bytes, a batch that cannot be decompressed, a failing disk) is marked as
uncleanable until the node restarts; other logs are still cleaned.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from ottla.model.config import BrokerConfig
from ottla.model.deferred import Deferred
from ottla.model.errors import KafkaError
from ottla.model.ids import TopicPartition
from ottla.model.ports import Lane, Timer, World
from ottla.model.values import Value
from ottla.storage.cleaner.checkpoint import CleanerCheckpoint
from ottla.storage.cleaner.offset_map import OffsetMap
from ottla.storage.cleaner.plan import CleaningPlan, Dirtiness, SegmentSource, measure, plan_cleaning
from ottla.storage.cleaner.throttle import Throttle
from ottla.storage.errors import LogDirectoryOffline, is_disk_full
from ottla.storage.log import PartitionLog
from ottla.storage.open_files import OpenFiles

if TYPE_CHECKING:
    from ottla.storage.cleaner.rewrite import CleanedGroup, Cleaning, CleaningStep

__all__ = ["CleanedLog", "CleanerSettings", "CleanerStatistics", "LogCleaner"]

logger = logging.getLogger("ottla.storage.cleaner")

STEP_BYTES = 1024 * 1024
STEP_BATCHES = 64
"""The most that one step moves. Python runs one thread at a time, and the work on a batch takes some 15 microseconds in
Python; the work on its records is done in C, where other threads run. So an append waits a millisecond for a step."""


class CleanerSettings(Value):
    threads: int = 1
    dedupe_buffer_bytes: int = 134_217_728
    dedupe_load_factor: float = 0.9
    io_bytes_per_second: float = 1.7976931348623157e308
    backoff_ms: int = 15_000
    is_enabled: bool = True

    @classmethod
    def from_broker_config(cls, config: BrokerConfig) -> CleanerSettings:
        return cls(
            threads=config.log_cleaner_threads,
            dedupe_buffer_bytes=config.log_cleaner_dedupe_buffer_size,
            dedupe_load_factor=config.log_cleaner_io_buffer_load_factor,
            io_bytes_per_second=config.log_cleaner_io_max_bytes_per_second,
            backoff_ms=config.log_cleaner_backoff_ms,
            is_enabled=config.log_cleaner_enable,
        )


class CleanedLog(Value):
    """The result of one cleaning, for the log line."""

    topic_partition: TopicPartition
    first_dirty_offset: int
    next_dirty_offset: int
    bytes_read: int
    bytes_kept: int
    records_read: int
    records_kept: int
    keyless_records: int
    map_utilization: float
    is_dropped: bool
    """The log changed meanwhile; segments that were not swapped in by then were discarded."""


class CleanerStatistics(Value):
    cleanings: int
    bytes_read: int
    bytes_kept: int
    running: int
    uncleanable: int
    dirtiest_ratio: float
    last_map_utilization: float
    last_run_ms: int


class _Job:
    __slots__ = ("cleaning", "is_aborted", "log", "plan", "remaining", "worker")

    def __init__(self, worker: int, log: PartitionLog, plan: CleaningPlan, cleaning: Cleaning) -> None:
        self.worker = worker
        self.log = log
        self.plan = plan
        self.cleaning = cleaning
        self.remaining = plan.sources
        """The sources that have not been replaced yet."""
        self.is_aborted = False


class LogCleaner:
    """Cleans the logs of a log manager, which reports their changes."""

    def __init__(
        self,
        world: World,
        pool: OpenFiles,
        *,
        settings: CleanerSettings,
        logs: Callable[[], Iterable[PartitionLog]],
    ) -> None:
        self._world = world
        self._pool = pool
        self._settings = settings
        self._logs = logs
        self._throttle = Throttle(bytes_per_second=settings.io_bytes_per_second)
        self._checkpoints: dict[str, CleanerCheckpoint] = {}
        self._jobs: dict[TopicPartition, _Job] = {}
        self._timers: dict[int, Timer] = {}
        self._workers_running: set[int] = set()
        self._is_running = False
        self.uncleanable: dict[TopicPartition, BaseException] = {}
        self.last_cleaned: CleanedLog | None = None
        self._cleanings = 0
        self._bytes_read = 0
        self._bytes_kept = 0
        self._dirtiest_ratio = 0.0
        self._last_map_utilization = 0.0
        self._last_run_ms = world.clock.now_ms()

    # ---- start and stop

    def start(self) -> None:
        """Starts the workers, unless `log.cleaner.enable` is false."""
        if self._settings.is_enabled and not self._is_running:
            self._is_running = True
            self._start_workers()

    def stop(self) -> None:
        """Starts no new steps. A step under way ends, and its output is removed."""
        self._is_running = False
        for worker in list(self._timers):
            self._timers.pop(worker).cancel()
            self._workers_running.discard(worker)
        for job in self._jobs.values():
            job.is_aborted = True

    def reconfigure(self, settings: CleanerSettings) -> None:
        """Applies settings to the next step (throttle) or the next cleaning (map size, workers)."""
        self._settings = settings
        self._throttle.bytes_per_second = settings.io_bytes_per_second
        if self._is_running:
            self._start_workers()

    def wake(self) -> None:
        """Ends the backoff of idle workers."""
        for worker in list(self._timers):
            self._timers.pop(worker).cancel()
            self._look_for_work(worker)

    def statistics(self) -> CleanerStatistics:
        return CleanerStatistics(
            cleanings=self._cleanings,
            bytes_read=self._bytes_read,
            bytes_kept=self._bytes_kept,
            running=len(self._jobs),
            uncleanable=len(self.uncleanable),
            dirtiest_ratio=self._dirtiest_ratio,
            last_map_utilization=self._last_map_utilization,
            last_run_ms=self._last_run_ms,
        )

    # ---- events of the log manager

    def abort(self, topic_partition: TopicPartition) -> None:
        """Drops the cleaning of a log that is truncated, moved or deleted. A later cleaning starts again."""
        job = self._jobs.get(topic_partition)
        if job is not None:
            job.is_aborted = True

    def on_log_repaired(self, log: PartitionLog) -> None:
        """Segments were replaced by another replica's segments: the log can be cleaned again, from its beginning.

        The other replica may not have been compacted. Its records are in no map, but may be older than a tombstone that
        is due for removal.
        """
        self.abort(log.topic_partition)
        self.uncleanable.pop(log.topic_partition, None)
        checkpoint = self._checkpoint(_parent(log.directory))
        if checkpoint.get(log.topic_partition) is not None:
            checkpoint.set(log.topic_partition, log.log_start_offset)

    def on_log_deleted(self, topic_partition: TopicPartition, log_directory: str) -> None:
        self.abort(topic_partition)
        self.uncleanable.pop(topic_partition, None)
        self._checkpoint(log_directory).remove(topic_partition)

    def on_log_truncated(self, log: PartitionLog, offset: int) -> None:
        """The log was truncated: new records at and above the offset are dirty."""
        self.abort(log.topic_partition)
        checkpoint = self._checkpoint(_parent(log.directory))
        cleaned = checkpoint.get(log.topic_partition)
        if cleaned is not None and cleaned > offset:
            checkpoint.set(log.topic_partition, offset)

    def note_gaps(self, log: PartitionLog) -> bool:
        """A follower is about to copy gaps that compaction has left in its leader's log.

        Recovery takes a gap for damage, unless this checkpoint contains the log. So the checkpoint has to contain the
        log before the first gap is appended, whatever the topic's cleanup policy. Returns whether that is durable.
        """
        checkpoint = self._checkpoint(_parent(log.directory))
        if checkpoint.get(log.topic_partition) is None:
            # The whole log is dirty.
            checkpoint.set(log.topic_partition, log.log_start_offset)
        log.files.note_compacted()
        return checkpoint.is_on_disk(log.topic_partition)

    def on_log_moving(self, log: PartitionLog, target: str) -> bool:
        """A copy in another directory is about to replace the log, with its gaps.

        Like in `note_gaps`, the checkpoint of that directory has to contain the log first. Returns True if the entry is
        durable or not needed.
        """
        offset = self.cleaned_offset(log)
        if offset is None:
            return True
        checkpoint = self._checkpoint(target)
        checkpoint.set(log.topic_partition, offset)
        return checkpoint.is_on_disk(log.topic_partition)

    def on_move_called_off(self, topic_partition: TopicPartition, target: str) -> None:
        self._checkpoint(target).remove(topic_partition)

    def on_log_moved(self, topic_partition: TopicPartition, *, source: str, target: str) -> None:
        """A partition has moved to another log directory with its cleaned part."""
        self.abort(topic_partition)
        offset = self._checkpoint(source).remove(topic_partition)
        if offset is not None:
            self._checkpoint(target).set(topic_partition, offset)

    def cleaned_offset(self, log: PartitionLog) -> int | None:
        """The first dirty offset of a log; None if it was never cleaned."""
        return self._checkpoint(_parent(log.directory)).get(log.topic_partition)

    # ---- workers

    def _start_workers(self) -> None:
        for worker in range(self._settings.threads):
            if worker not in self._workers_running:
                self._workers_running.add(worker)
                self._look_for_work(worker)

    def _look_for_work(self, worker: int) -> None:
        if not self._is_running or worker >= self._settings.threads:
            self._workers_running.discard(worker)
            return
        assert worker not in self._timers, "a worker that rests does not work"
        now_ms = self._world.clock.now_ms()
        self._last_run_ms = now_ms
        dirtiest = self._dirtiest(now_ms)
        if dirtiest is None:
            self._back_off(worker)
            return
        log, dirtiness = dirtiest
        try:
            plan = plan_cleaning(log, dirtiness, now_ms=now_ms)
        except (OSError, KafkaError) as error:
            self._set_aside(log, error)
            self._world.scheduler.call_soon(self._look_for_work, worker)
            return
        job = _Job(worker, log, plan, self._new_cleaning(plan))
        self._jobs[log.topic_partition] = job
        self._submit_step(job)

    def _new_cleaning(self, plan: CleaningPlan) -> Cleaning:
        # Imported here because many nodes have nothing to compact.
        from ottla.storage.cleaner.rewrite import Cleaning

        settings = self._settings
        offset_map = OffsetMap.of_bytes(
            settings.dedupe_buffer_bytes // settings.threads,
            load_factor=settings.dedupe_load_factor,
            secret=self._world.random.getrandbits(128).to_bytes(16, "little"),
            keys_max=plan.upper_bound_offset - plan.first_dirty_offset,
        )
        return Cleaning(self._world.files, plan, offset_map)

    def _back_off(self, worker: int) -> None:
        if self._is_running:
            delay_seconds = self._settings.backoff_ms / 1000
            self._timers[worker] = self._world.scheduler.call_later(delay_seconds, self._on_backoff_timeout, worker)
        else:
            self._workers_running.discard(worker)

    def _on_backoff_timeout(self, worker: int) -> None:
        self._timers.pop(worker, None)
        self._look_for_work(worker)

    def _dirtiest(self, now_ms: int) -> tuple[PartitionLog, Dirtiness] | None:
        """The log with the highest dirty ratio that is due and not being cleaned."""
        best: tuple[PartitionLog, Dirtiness] | None = None
        self._dirtiest_ratio = 0.0
        for log in self._logs():
            partition = log.topic_partition
            if not log.config.compacts or log.is_offline or partition in self._jobs or partition in self.uncleanable:
                continue
            checkpoint = self._checkpoint(_parent(log.directory))
            try:
                dirtiness = measure(log, checkpoint=checkpoint.get(partition), now_ms=now_ms)
            except (OSError, KafkaError) as error:
                self._set_aside(log, error)
                continue
            if dirtiness.is_checkpoint_invalid:
                checkpoint.set(partition, dirtiness.first_dirty_offset)
            self._dirtiest_ratio = max(self._dirtiest_ratio, dirtiness.ratio)
            if dirtiness.is_due(log.config.min_cleanable_dirty_ratio) and (
                best is None or dirtiness.ratio > best[1].ratio
            ):
                best = (log, dirtiness)
        return best

    # ---- one cleaning

    def _submit_step(self, job: _Job) -> None:
        if not self._is_running or job.is_aborted:
            self._drop(job)
            return
        self._world.workers.lane(Lane.COMPACTION).submit(job.cleaning.step, STEP_BYTES, STEP_BATCHES).when_done(
            partial(self._on_step, job)
        )

    def _on_step(self, job: _Job, outcome: Deferred[CleaningStep]) -> None:
        if outcome.error is not None:
            self._on_step_failed(job, outcome.error)
            return
        step = outcome.result()
        if step.group is not None and not self._swap(job, step.group):
            self._drop(job)
            return
        if step.is_finished:
            self._checkpoint(_parent(job.plan.directory)).set(job.log.topic_partition, job.cleaning.next_dirty_offset)
            self._finish(job, is_dropped=False)
            return
        delay_seconds = self._throttle.delay_seconds(step.bytes_moved, now=self._world.clock.monotonic())
        if delay_seconds > 0.001:
            self._world.scheduler.call_later(delay_seconds, self._submit_step, job)
        else:
            self._world.scheduler.call_soon(self._submit_step, job)

    def _on_step_failed(self, job: _Job, error: BaseException) -> None:
        if not isinstance(error, (OSError, KafkaError)):
            raise error
        if job.is_aborted or not _is_current(job, job.remaining):
            # The source files were removed meanwhile, which is not a failure.
            logger.info("Dropped the cleaning of %s: the log has changed", job.log.topic_partition)
        elif isinstance(error, OSError) and is_disk_full(error):
            logger.warning("No room to clean %s: %s", job.log.topic_partition, error)
        else:
            self._set_aside(job.log, error)
        self._finish(job, is_dropped=True)

    def _swap(self, job: _Job, group: CleanedGroup) -> bool:
        """Replaces source segments by a finished segment. Returns False if the log has changed meanwhile."""
        is_current = self._is_running and not job.is_aborted and _is_current(job, group.sources)
        job.remaining = job.remaining[len(group.sources) :]
        if not is_current or group.is_unchanged:
            self._tidy_up(group.segment.remove_files).when_done(_note_removal)
            return is_current
        checkpoint = self._checkpoint(_parent(job.plan.directory))
        if checkpoint.get(job.log.topic_partition) is None:
            # From the first swap on the log may have gaps, and recovery has to know it even if this cleaning fails.
            checkpoint.set(job.log.topic_partition, job.plan.first_dirty_offset)
        job.log.files.note_compacted()
        group.segment.use_pool(self._pool)
        try:
            job.log.replace_segments([source.segment for source in group.sources], [group.segment])
        except LogDirectoryOffline as error:
            self._set_aside(job.log, error)
            return False
        except KafkaError as error:
            logger.warning("%s is cleaned later: %s", job.log.topic_partition, error.message)
            return False
        return True

    def _drop(self, job: _Job) -> None:
        """Ends a cleaning early. A worker removes its incomplete output."""
        logger.info("Dropped the cleaning of %s", job.log.topic_partition)
        removal = self._tidy_up(job.cleaning.abandon)
        removal.when_done(_note_removal)
        removal.when_done(lambda _: self._finish(job, is_dropped=True))

    def _tidy_up(self, function: Callable[[], None]) -> Deferred[None]:
        """Removes files on a worker, or on this thread if the cleaner has stopped."""
        if self._is_running:
            return self._world.workers.submit(function)
        try:
            function()
        except OSError as error:
            return Deferred.failed(error)
        return Deferred.resolved(None)

    def _finish(self, job: _Job, *, is_dropped: bool) -> None:
        del self._jobs[job.log.topic_partition]
        counts = job.cleaning.counts
        cleaned = CleanedLog(
            topic_partition=job.log.topic_partition,
            first_dirty_offset=job.plan.first_dirty_offset,
            next_dirty_offset=job.plan.first_dirty_offset if is_dropped else job.cleaning.next_dirty_offset,
            bytes_read=counts.bytes_read,
            bytes_kept=counts.bytes_kept,
            records_read=counts.records_read,
            records_kept=counts.records_kept,
            keyless_records=counts.keyless_records,
            map_utilization=job.cleaning.map.utilization,
            is_dropped=is_dropped,
        )
        self.last_cleaned = cleaned
        self._cleanings += not is_dropped
        self._bytes_read += counts.bytes_read
        self._bytes_kept += counts.bytes_kept
        self._last_map_utilization = cleaned.map_utilization
        if is_dropped:
            # The next attempt waits, because the cause should be over by then.
            self._back_off(job.worker)
            return
        logger.info(
            "Cleaned %s from %d to %d: %d of %d bytes and %d of %d records kept",
            *(cleaned.topic_partition, cleaned.first_dirty_offset, cleaned.next_dirty_offset),
            *(cleaned.bytes_kept, cleaned.bytes_read, cleaned.records_kept, cleaned.records_read),
        )
        self._look_for_work(job.worker)

    def _set_aside(self, log: PartitionLog, error: BaseException) -> None:
        self.uncleanable[log.topic_partition] = error
        logger.warning("%s cannot be cleaned and is ignored until a restart: %s", log.topic_partition, error)

    def _checkpoint(self, log_directory: str) -> CleanerCheckpoint:
        checkpoint = self._checkpoints.get(log_directory)
        if checkpoint is None:
            checkpoint = CleanerCheckpoint(
                self._world, log_directory, on_error=partial(_note_checkpoint_error, log_directory)
            )
            self._checkpoints[log_directory] = checkpoint
        return checkpoint


def _is_current(job: _Job, sources: Sequence[SegmentSource]) -> bool:
    """Whether the source segments are still in the log and have the same size."""
    log = job.log
    if log.is_offline or log.directory != job.plan.directory or not log.config.compacts:
        return False
    current = {id(segment) for segment in log.segments if segment is not log.segments.active}
    return all(id(source.segment) in current and source.segment.size == source.size for source in sources)


def _parent(directory: str) -> str:
    """The log directory of a partition's directory."""
    return directory.rpartition("/")[0]


def _note_removal(outcome: Deferred[None]) -> None:
    # A remaining file has the suffix `.cleaned` and is removed when the log is opened next.
    if isinstance(outcome.error, OSError):
        logger.warning("Could not remove a discarded cleaned segment: %s", outcome.error)
    elif outcome.error is not None:
        raise outcome.error


def _note_checkpoint_error(log_directory: str, error: OSError) -> None:
    logger.warning("Could not write the cleaner's checkpoint in %s: %s", log_directory, error)
