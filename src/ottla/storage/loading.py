"""Opens every log of every directory when a node starts.

After a clean shutdown opening a log takes a few system calls and is done at once. After a crash every log may have to
be read from its recovery point on, so workers open the logs: for each directory one worker opens the empty and short
logs, then `num.recovery.threads.per.data.dir` workers open the long ones (reading and checksums release Python's
global lock).
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Mapping
from functools import partial

from ottla.model.config import BrokerConfig, LogConfig
from ottla.model.deferred import Deferred
from ottla.model.errors import KafkaError
from ottla.model.ids import TopicPartition, Uuid
from ottla.model.ports import World
from ottla.storage.beginning import reopen_empty_log
from ottla.storage.clean_logs import read_clean_logs, reopen_log
from ottla.storage.directories import CheckpointsAtStart, LogDirectory
from ottla.storage.errors import DirectoryRefused, StorageError, is_of_one_path, is_temporary
from ottla.storage.load_jobs import LoadedLog, LoadJob
from ottla.storage.names import (
    CLUSTER_METADATA_TOPIC,
    LOG_SUFFIX,
    DirectoryKind,
    delete_directory_name,
    name_of_replaced_original,
    parse_directory_name,
)
from ottla.storage.open_files import OpenFiles
from ottla.storage.partition_metadata import read_topic_id, topic_id_if_readable
from ottla.storage.recovery import RecoveryReport, open_log
from ottla.storage.twins import copy_without_records

__all__ = ["LoadedLog", "Loader"]

logger = logging.getLogger(__name__)

_NEVER_MS = (1 << 63) - 1
# The logs that a worker opens before it returns.
_JOBS_AT_ONCE_MAX = 64
_LIGHT_JOBS_AT_ONCE_MAX = 256
# A log of this size is checked in a fraction of a millisecond.
_LIGHT_BYTES_MAX = 64 * 1024
_NOTHING_DONE = RecoveryReport()


_Opened = tuple[LoadJob, LoadedLog | BaseException]


class Loader:
    """Used once. Also finds directories that wait for deletion, and interrupted copies."""

    def __init__(
        self,
        world: World,
        pool: OpenFiles,
        config: BrokerConfig,
        overrides_of: Callable[[str], Mapping[str, str]],
    ) -> None:
        self._world = world
        self._pool = pool
        self._config = config
        self._overrides_of = overrides_of
        self._topic_configs: dict[str, LogConfig] = {}
        self._topic_ids: dict[str, Uuid] = {}
        self._now_ms = world.clock.now_ms()
        self._loaded: list[LoadedLog] = []
        self._done: Deferred[list[LoadedLog]] = Deferred()
        self._running = 0
        self.deleted: list[tuple[LogDirectory, str]] = []
        self.futures: list[tuple[TopicPartition, LogDirectory, str]] = []
        self.refused: list[tuple[TopicPartition, KafkaError, LogDirectory, Uuid | None]] = []
        """Logs that cannot be opened, with the error, the directory and the topic id, if it is known."""
        self.postponed: deque[LoadJob] = deque()
        """Those of them that cannot be opened for now (`postponed_logs`)."""
        self.missing: list[tuple[TopicPartition, LogDirectory]] = []
        """Logs whose offsets are in the checkpoint files, but whose directories were renamed or removed."""
        self._epochs_left_behind: set[int] = set()
        self.had_clean_shutdown = True

    @property
    def previous_broker_epoch(self) -> int:
        """The broker epoch of the last run if it shut down every directory cleanly, otherwise -1 (KIP-966).

        A directory without a clean shutdown may have lost the end of its logs, and the controller uses the epoch for
        all replicas of the broker.
        """
        if not self.had_clean_shutdown or len(self._epochs_left_behind) != 1:
            return -1
        return next(iter(self._epochs_left_behind))

    def load(self, directories: list[LogDirectory]) -> Deferred[list[LoadedLog]]:
        queues: list[deque[LoadJob]] = []
        try:
            for directory in directories:
                try:
                    queues.append(deque(self._find_jobs(directory)))
                except OSError as error:
                    self.had_clean_shutdown = False
                    directory.fail(error)
            self._refuse_twins(queues)
        except DirectoryRefused as error:
            return Deferred.failed(error)
        self._running = 1
        self._promote_lone_futures(queues)
        for queue in queues:
            while queue and queue[0].is_clean:
                self._load_now(queue.popleft())
            if queue:
                self._running += 1
                self._load_light(queue, deque())
        self._one_finished()
        return self._done

    def _find_jobs(self, directory: LogDirectory) -> list[LoadJob]:
        marker_stamp = directory.marker_stamp
        epoch = directory.take_clean_shutdown_marker()
        left_logs = read_clean_logs(self._world.files, directory.path, marker_stamp=marker_stamp)
        if epoch is None:
            self.had_clean_shutdown = False
        else:
            self._epochs_left_behind.add(epoch)
        checkpoints = CheckpointsAtStart(directory)
        cleaned = directory.read_cleaned()
        on_failure = directory.fail
        jobs: list[LoadJob] = []
        names = self._world.files.list_directory(directory.path)
        for name in names:
            parsed = parse_directory_name(name)
            if parsed is None:
                continue
            topic_partition, kind = parsed
            left = left_logs.get(name) if kind is DirectoryKind.CURRENT else None
            # The directory of a log that a clean shutdown has left is checked later, by its stamp (`reopen_log`).
            if left is None and not self._world.files.is_directory(f"{directory.path}/{name}"):
                continue
            if kind is DirectoryKind.DELETED:
                self.deleted.append((directory, name))
            elif kind is DirectoryKind.FUTURE:
                self.futures.append((topic_partition, directory, name))
            elif kind is DirectoryKind.CURRENT and topic_partition.topic != CLUSTER_METADATA_TOPIC:
                jobs.append(
                    LoadJob(
                        topic_partition,
                        directory,
                        self._config_of(topic_partition.topic),
                        epoch is not None,
                        checkpoints,
                        0 if cleaned is None else cleaned.get(topic_partition),
                        on_failure,
                        left,
                    )
                )
        if epoch is None or any(job.left is None for job in jobs):
            # Read now, because an error takes the directory out of service before any of its logs is opened.
            checkpoints.read()
        missing = checkpoints.topic_partitions().difference(job.topic_partition for job in jobs)
        # After a clean shutdown the checkpoints may be unread, but have the same logs.
        missing.update(parsed[0] for name in left_logs.keys() - names if (parsed := parse_directory_name(name)))
        self.missing += ((topic_partition, directory) for topic_partition in sorted(missing))
        return jobs

    def _refuse_twins(self, queues: list[deque[LoadJob]]) -> None:
        if len(queues) == 1:
            return
        chosen: dict[TopicPartition, tuple[LoadJob, deque[LoadJob]]] = {}
        for queue in queues:
            for job in list(queue):
                other, its_queue = chosen.setdefault(job.topic_partition, (job, queue))
                if other is job:
                    continue
                left_out = copy_without_records(self._world.files, job.topic_partition, other.directory, job.directory)
                if left_out is job.directory:
                    self._leave_out(job, queue)
                else:
                    self._leave_out(other, its_queue)
                    chosen[job.topic_partition] = (job, queue)

    def _leave_out(self, job: LoadJob, queue: deque[LoadJob]) -> None:
        """Renames the directory at once, because the partition may be created there again before it is removed."""
        queue.remove(job)
        directory, topic_partition = job.directory, job.topic_partition
        name = delete_directory_name(topic_partition, Uuid.random(self._world.random))
        try:
            self._world.files.rename(f"{directory.path}/{topic_partition}", f"{directory.path}/{name}")
        except OSError as error:
            directory.fail(error)
        else:
            self.deleted.append((directory, name))

    def _promote_lone_futures(self, queues: list[deque[LoadJob]]) -> None:
        """Takes over a future replica whose original waits for deletion: a crash interrupted the swap.

        In that case the copy was complete. If no original exists, its disk is missing, and the copy may be incomplete.
        """
        if not self.futures:
            return
        current = {job.topic_partition for queue in queues for job in queue}
        for future in list(self.futures):
            topic_partition, directory, name = future
            if topic_partition not in current and self._has_deleted_original(directory, name):
                self.futures.remove(future)
                current.add(topic_partition)
                try:
                    self._world.files.rename(f"{directory.path}/{name}", f"{directory.path}/{topic_partition}")
                except OSError as error:
                    directory.fail(error)
                    continue
                config = self._config_of(topic_partition.topic)
                queues.append(deque([LoadJob(topic_partition, directory, config, False, None, 0, directory.fail)]))

    def _has_deleted_original(self, copied_to: LogDirectory, future_name: str) -> bool:
        """True if the swap of this copy had begun. Deleted topics and cancelled moves leave other names."""
        original = name_of_replaced_original(future_name)
        return any(directory is not copied_to and name == original for directory, name in self.deleted)

    def _config_of(self, topic: str) -> LogConfig:
        config = self._topic_configs.get(topic)
        if config is None:
            # Invalid values are logged when the topic's partitions are created.
            config, _ = LogConfig.from_stored(self._config, self._overrides_of(topic))
            self._topic_configs[topic] = config
        return config

    def _load_now(self, job: LoadJob) -> None:
        try:
            self._keep(self.open(job))
        except Exception as error:  # noqa: BLE001 (as for a log that a worker opens)
            self.refuse(job, error)

    def _load_light(self, queue: deque[LoadJob], heavy: deque[LoadJob]) -> None:
        """After a crash one worker opens the empty and short logs; then several workers recover the others.

        A short log takes a few short system calls. Several threads would spend more time on handing Python's global
        lock to one another.
        """
        while queue:
            jobs = [queue.popleft() for _ in range(min(len(queue), _LIGHT_JOBS_AT_ONCE_MAX))]
            opened = self._world.workers.submit(self._open_light, jobs)
            if not opened.done:
                opened.when_done(partial(self._on_light_opened, queue, heavy))
                return
            self._note_light(heavy, opened)
        for _ in range(min(len(heavy), self._config.num_recovery_threads_per_data_dir)):
            self._running += 1
            self._load_next(heavy)
        self._one_finished()

    def _on_light_opened(
        self, queue: deque[LoadJob], heavy: deque[LoadJob], outcome: Deferred[tuple[list[_Opened], list[LoadJob]]]
    ) -> None:
        self._note_light(heavy, outcome)
        self._load_light(queue, heavy)

    def _note_light(self, heavy: deque[LoadJob], outcome: Deferred[tuple[list[_Opened], list[LoadJob]]]) -> None:
        opened, heavy_jobs = outcome.result()
        self._keep_all(opened)
        heavy.extend(heavy_jobs)

    def _open_light(self, jobs: list[LoadJob]) -> tuple[list[_Opened], list[LoadJob]]:
        """Runs on a worker. Opens the light logs; returns the jobs of the heavy logs, too."""
        outcomes: list[_Opened] = []
        heavy_jobs: list[LoadJob] = []
        for job in jobs:
            names = self._list(job)
            loaded = self._opened_if_empty(job, names)
            if loaded is not None:
                outcomes.append((job, loaded))
            elif self._is_light(job, names):
                outcomes += self._open_all([job], names)
            else:
                heavy_jobs.append(job)
        return outcomes, heavy_jobs

    def _list(self, job: LoadJob) -> list[str]:
        """The files of a log, listed once for everything that opens a light log; none if that is not possible."""
        try:
            return [] if job.directory.is_offline else self._world.files.list_directory(job.path)
        except OSError:
            return []

    def _is_light(self, job: LoadJob, names: list[str]) -> bool:
        """True if reading the whole log takes little time."""
        try:
            sizes = [self._world.files.size_of(f"{job.path}/{name}") for name in names if name.endswith(LOG_SUFFIX)]
        except OSError:
            return False
        return bool(sizes) and sum(sizes) <= _LIGHT_BYTES_MAX

    def _opened_if_empty(self, job: LoadJob, names: list[str]) -> LoadedLog | None:
        if job.is_clean or not names or job.checkpoints is None:
            return None
        path = job.path
        try:
            if any(job.checkpoints.of(job.topic_partition)):
                return None
            log = reopen_empty_log(
                self._world,
                self._pool,
                topic_partition=job.topic_partition,
                directory=path,
                listed=names,
                config=job.config,
                producer_id_expiration_ms=_NEVER_MS,
                on_failure=job.on_failure,
            )
            if log is None:
                return None
            topic_id = read_topic_id(self._world.files, path)
        except (OSError, ValueError):
            # `open_log` gets the same error and reports it.
            return None
        log.files.note_history(is_compacted=job.cleaned_to is not None, damaged={})
        return LoadedLog(log, job.directory, topic_id, _NOTHING_DONE)

    def _load_next(self, queue: deque[LoadJob]) -> None:
        """A worker opens several logs: most are empty or short, and the way to a worker and back costs more."""
        while queue:
            # The last logs go to the workers one by one, so that no worker has to wait for the others.
            count = max(1, min(_JOBS_AT_ONCE_MAX, len(queue) // (4 * self._config.num_recovery_threads_per_data_dir)))
            jobs = [job for job in [queue.popleft() for _ in range(count)] if not job.directory.is_offline]
            opened = self._world.workers.submit(self._open_all, jobs)
            if not opened.done:
                opened.when_done(partial(self._on_opened, queue))
                return
            self._note(opened)
        self._one_finished()

    def _on_opened(self, queue: deque[LoadJob], outcome: Deferred[list[_Opened]]) -> None:
        self._note(outcome)
        self._load_next(queue)

    def _note(self, outcome: Deferred[list[_Opened]]) -> None:
        self._keep_all(outcome.result())

    def _keep_all(self, outcomes: list[_Opened]) -> None:
        for job, opened in outcomes:
            if isinstance(opened, LoadedLog):
                self._keep(opened)
            else:
                self.refuse(job, opened)

    def _open_all(self, jobs: list[LoadJob], listed: list[str] | None = None) -> list[_Opened]:
        outcomes: list[_Opened] = []
        for job in jobs:
            try:
                outcomes.append((job, self.open(job, listed)))
            except BaseException as error:  # noqa: BLE001 (the loop's thread handles it)
                outcomes.append((job, error))
        return outcomes

    def _keep(self, loaded: LoadedLog) -> None:
        self._loaded.append(loaded)
        self.note_loss(loaded)

    def note_loss(self, loaded: LoadedLog) -> None:
        log, report = loaded.log, loaded.report
        if report.lost_from >= 0:
            # The controller removes the replicas of a broker without a clean shutdown from the in-sync sets.
            self.had_clean_shutdown = False
            logger.error(
                "%s has lost the records from offset %d to %d: files are missing or damaged in %s. The log ends at %d. "
                "If another replica leads, the records are fetched from it again; otherwise they stay missing.",
                log.topic_partition,
                report.lost_from,
                report.lost_to - 1,
                log.directory,
                log.log_end_offset,
            )

    def _one_finished(self) -> None:
        self._running -= 1
        if self._running == 0:
            state = "after a clean shutdown" if self.had_clean_shutdown else "after a crash, or for the first time"
            logger.info("Opened %d logs %s", len(self._loaded), state)
            self._done.resolve(self._loaded)

    def refuse(self, job: LoadJob, error: BaseException) -> None:
        """Takes a partition out of service whose log cannot be opened. Only disk errors affect other partitions."""
        if not isinstance(error, Exception):
            raise error
        if isinstance(error, OSError) and not is_of_one_path(error) and not is_temporary(error):
            job.directory.fail(error)
            return
        if not job.is_clean:
            job.directory.unrecovered.add(job.topic_partition)
        offsets = job.offsets()
        if offsets is not None:
            job.directory.offsets_of_refused[job.topic_partition] = offsets
        path, reason = job.path, error.message if isinstance(error, KafkaError) else str(error)
        refusal = StorageError(f"The log in {path} cannot be opened: {reason}")
        topic_id = topic_id_if_readable(self._world.files, path) if job.left is None else Uuid.parse(job.left.topic_id)
        self.refused.append((job.topic_partition, refusal, job.directory, topic_id or None))
        if isinstance(error, OSError) and is_temporary(error):
            self.postponed.append(job)
            logger.warning(
                "%s is out of service because the log in %s cannot be opened for now: %s. It is tried again every "
                "second.",
                job.topic_partition,
                path,
                reason,
            )
            return
        is_foreseen = isinstance(error, (KafkaError, OSError, ValueError))
        logger.error(
            "%s is out of service because the log in %s cannot be opened: %s. Other partitions are not affected. "
            "Remove the foreign or damaged file and restart the node.",
            job.topic_partition,
            path,
            reason,
            exc_info=None if is_foreseen else error,
        )

    def open(self, job: LoadJob, listed: list[str] | None = None) -> LoadedLog:
        """May run on a worker."""
        return self._reopen(job) or self._open_from_files(job, listed)

    def _reopen(self, job: LoadJob) -> LoadedLog | None:
        """The log as the last clean shutdown left it; None if its files have changed since then."""
        left = job.left
        if left is None:
            return None
        log = reopen_log(
            self._world,
            self._pool,
            left,
            topic_partition=job.topic_partition,
            directory=job.path,
            config=job.config,
            cleaned_to=job.cleaned_to,
            producer_id_expiration_ms=_NEVER_MS,
            on_failure=job.on_failure,
            now_ms=self._now_ms,
        )
        if log is None:
            return None
        return LoadedLog(log, job.directory, self._shared_id(left.topic_id), _NOTHING_DONE)

    def _shared_id(self, text: str) -> Uuid:
        """Partitions of a topic share one object."""
        topic_id = self._topic_ids.get(text)
        if topic_id is None:
            topic_id = self._topic_ids[text] = Uuid.parse(text)
        return topic_id

    def _open_from_files(self, job: LoadJob, listed: list[str] | None) -> LoadedLog:
        path = job.path
        topic_id = read_topic_id(self._world.files, path)
        offsets = (0, 0, 0) if job.checkpoints is None else job.checkpoints.of(job.topic_partition)
        recovery_point, log_start_offset, high_watermark = offsets
        log, report = open_log(
            self._world,
            self._pool,
            topic_partition=job.topic_partition,
            directory=path,
            listed=listed,
            config=job.config,
            clean_shutdown=job.is_clean,
            recovery_point=recovery_point,
            log_start_offset=log_start_offset,
            cleaned_to=job.cleaned_to,
            # The expiration of producers is a dynamic configuration, which may not be known yet. The periodic task
            # applies it later.
            producer_id_expiration_ms=_NEVER_MS,
            on_failure=job.on_failure,
        )
        if report.bytes_cut:
            logger.warning(
                "%s: truncated %d bytes behind the last intact batch (%d segments removed); the log ends at %d",
                job.topic_partition,
                report.bytes_cut,
                report.segments_dropped,
                log.log_end_offset,
            )
        log.update_high_watermark(min(max(high_watermark, log.log_start_offset), report.high_watermark_max(log)))
        return LoadedLog(log, job.directory, topic_id, report)
