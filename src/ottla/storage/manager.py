"""All logs of a node, over the directories of `log.dirs`.

`open` locks and identifies the directories and opens every log in them: at once after a clean shutdown, on workers
after a crash (`loading`). A new partition goes to the directory with the fewest partitions. `maintenance` runs periodic
tasks, `mover` moves a partition to another directory.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping

from ottla.model.config import BrokerConfig, LogConfig
from ottla.model.deferred import Deferred
from ottla.model.errors import ErrorCode, KafkaError
from ottla.model.ids import TopicPartition, Uuid
from ottla.model.ports import World
from ottla.storage.beginning import create_log
from ottla.storage.cleaner.cleaner import CleanerSettings, LogCleaner
from ottla.storage.damage import recover_on_worker
from ottla.storage.descriptions import DirectoryDescription, ReplicaDescription
from ottla.storage.directories import LogDirectory, is_reserved
from ottla.storage.errors import (
    DirectoryRefused,
    LogDirectoryOffline,
    StorageError,
    is_disk_full,
    is_of_one_path,
    is_shortage,
)
from ottla.storage.load_jobs import LoadedLog
from ottla.storage.loading import Loader
from ottla.storage.log import PartitionLog
from ottla.storage.maintenance import Maintenance
from ottla.storage.mover import Mover, checked_target
from ottla.storage.names import delete_directory_name, stray_directory_name
from ottla.storage.open_files import OpenFiles
from ottla.storage.postponed_logs import PostponedLogs
from ottla.storage.refused_logs import RefusedLogs

__all__ = ["OPEN_FILES_MAX", "DirectoryDescription", "LogManager", "ReplicaDescription"]

logger = logging.getLogger(__name__)

OPEN_FILES_MAX = 4096
_PREFERRED_MAX = 10_000

NO_OVERRIDES: Mapping[str, str] = {}


class _Entry:
    """A log, its log directory and its topic id."""

    __slots__ = ("directory", "log", "topic_id")

    def __init__(self, log: PartitionLog, directory: LogDirectory, topic_id: Uuid) -> None:
        self.log = log
        self.directory = directory
        self.topic_id = topic_id


class LogManager:
    """`open` must have completed before any other call."""

    def __init__(
        self,
        world: World,
        config: BrokerConfig,
        *,
        cluster_id: str,
        node_id: int | None = None,
        open_files_max: int = OPEN_FILES_MAX,
    ) -> None:
        self._world = world
        self._config = config
        self._cluster_id = cluster_id
        self._node_id = config.node_id if node_id is None else node_id
        self.pool = OpenFiles(world.files, limit=open_files_max)
        self.directories = [LogDirectory(world.files, path) for path in dict.fromkeys(config.log_dirs)]
        self._entries: dict[TopicPartition, _Entry] = {}
        self._mover = Mover(world, self)
        self.maintenance = Maintenance(world, self)
        self.cleaner = LogCleaner(
            world, self.pool, settings=CleanerSettings.from_broker_config(config), logs=self.__iter__
        )
        # Shared by all logs.
        self._on_cut = self._on_log_cut
        self._on_damage = self._on_log_damaged
        self._is_closing = False
        # Directories to remove. A worker removes the first one.
        self._removals: deque[tuple[LogDirectory, str]] = deque()
        self._refused = RefusedLogs(world, self.maintenance.prompt_checkpoints.forget)
        self._postponed = PostponedLogs(world, self._refused, self._on_opened_late)
        # Topic ids of logs in failed directories. A new topic of the same name may be created elsewhere.
        self._lost: dict[TopicPartition, Uuid] = {}
        self._preferred: dict[TopicPartition, LogDirectory] = {}
        self.on_moved: list[Callable[[TopicPartition], None]] = []
        self.on_log_failure: list[Callable[[TopicPartition], None]] = []
        """Called after a damaged log was removed here. Once it is recovered, `get_or_create` returns it again."""
        self.on_opened_late: list[Callable[[TopicPartition, Uuid], None]] = []
        """Called after a log was opened here that the start could not open for a shortage, with its topic id."""
        self.on_segment_damaged: list[Callable[[TopicPartition, int], None]] = []
        """Called with the base offset of a damaged segment, which stays in service."""
        self.on_directory_failure: list[Callable[[LogDirectory, list[TopicPartition]], None]] = []
        """Called with the directory and its partitions, after their logs have been removed here."""
        self.previous_broker_epoch = -1
        """The broker epoch of the last run if it shut down all directories cleanly, or -1 (KIP-966)."""
        self.had_clean_shutdown = True

    @property
    def config(self) -> BrokerConfig:
        return self._config

    @config.setter
    def config(self, config: BrokerConfig) -> None:
        """Applies a dynamic change. Periodic tasks use it from their next run on."""
        self._config = config
        self.cleaner.reconfigure(CleanerSettings.from_broker_config(config))
        self.maintenance.on_config()

    # ---- opening

    def open(
        self,
        overrides_of: Callable[[str], Mapping[str, str]] = lambda _: NO_OVERRIDES,
        *,
        begins_upkeep: bool = True,
    ) -> Deferred[None]:
        """Opens all logs with their topics' configurations. Fails with DirectoryRefused if the node must not start.

        Without `begins_upkeep` nothing is deleted or compacted before `begin_upkeep`, because the known configurations
        may be outdated.
        """
        try:
            self._open_directories()
        except DirectoryRefused as error:
            self._release_locks()
            return Deferred.failed(error)
        for directory in self.directories:
            directory.on_failure = self._on_directory_failure
        loader = Loader(self._world, self.pool, self.config, overrides_of)
        online = self.online_directories()
        # A failed directory may not have been shut down cleanly.
        loader.had_clean_shutdown = len(online) == len(self.directories)
        done = loader.load(online).then(lambda loaded: self._on_loaded(loader, loaded))
        done.when_done(lambda outcome: self._release_locks() if outcome.error is not None else None)
        return done.then(lambda _: self.begin_upkeep()) if begins_upkeep else done

    def begin_upkeep(self) -> None:
        """Starts retention, compaction and the other periodic tasks."""
        self.maintenance.start()
        self.cleaner.start()
        # Started only now, because the replicas have the metadata and the configurations of these logs.
        self._postponed.start()

    def _open_directories(self) -> None:
        for directory in self.directories:
            directory.open(self._world, cluster_id=self._cluster_id, node_id=self._node_id)
        path_by_id: dict[Uuid, str] = {}
        for directory in self.online_directories():
            other = path_by_id.setdefault(directory.directory_id, directory.path)
            if other != directory.path:
                raise DirectoryRefused(
                    f"The log directories {other} and {directory.path} carry the same directory.id: "
                    f"one is a copy of the other, or they are the same directory under two names."
                )
        if not path_by_id:
            reasons = "; ".join(f"{directory.path}: {directory.error}" for directory in self.directories)
            raise DirectoryRefused(f"None of the log directories can be used: {reasons}.")

    def _on_loaded(self, loader: Loader, logs: list[LoadedLog]) -> None:
        self.previous_broker_epoch = loader.previous_broker_epoch
        self.had_clean_shutdown = loader.had_clean_shutdown
        for loaded in logs:
            if not loaded.directory.is_offline:
                self._add(_Entry(loaded.log, loaded.directory, loaded.topic_id or Uuid.ZERO))
        for directory, name in loader.deleted:
            self.remove_tree_later(directory, f"{directory.path}/{name}")
        self._refused.add_all(loader.refused)
        loader.refused.clear()
        for topic_partition, directory in loader.missing:
            self.maintenance.prompt_checkpoints.forget(topic_partition, directory)
        self._postponed.take(loader)
        for topic_partition, directory, name in loader.futures:
            if topic_partition in self._entries:
                # The copy is started again: its former files are removed.
                self.remove_tree_later(directory, f"{directory.path}/{name}")
                self._mover.resume(topic_partition, directory)

    # ---- lookups

    def online_directories(self) -> list[LogDirectory]:
        return [directory for directory in self.directories if not directory.is_offline]

    def cordoned_directories(self) -> list[LogDirectory]:
        """Directories that keep their partitions but take no new ones (KIP-1066)."""
        cordoned = set(self.config.cordoned_log_dirs)
        return [directory for directory in self.online_directories() if directory.path in cordoned or "*" in cordoned]

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[PartitionLog]:
        return iter([entry.log for entry in self._entries.values()])

    def places(self) -> Iterator[tuple[PartitionLog, LogDirectory]]:
        return ((entry.log, entry.directory) for entry in list(self._entries.values()))

    def unrecovered(self) -> list[tuple[PartitionLog, LogDirectory]]:
        return self._refused.unrecovered() if self._is_closing else []

    def get(self, topic_partition: TopicPartition) -> PartitionLog | None:
        entry = self._entries.get(topic_partition)
        return None if entry is None else entry.log

    def is_refused(self, topic_partition: TopicPartition) -> bool:
        """True if the log is on disk and cannot be used. It is not replaced by an empty log."""
        return topic_partition in self._refused

    def is_postponed(self, topic_partition: TopicPartition) -> bool:
        """True if the log is refused only because of a shortage. `on_opened_late` is called when it is opened."""
        return self._refused.is_postponed(topic_partition)

    def topic_id_of(self, topic_partition: TopicPartition) -> Uuid | None:
        entry = self._entries.get(topic_partition)
        return self._refused.topic_id_of(topic_partition) if entry is None else entry.topic_id

    def directory_of(self, topic_partition: TopicPartition) -> LogDirectory | None:
        entry = self._entries.get(topic_partition)
        return None if entry is None else entry.directory

    def directory_at(self, path: str) -> LogDirectory | None:
        return next((directory for directory in self.directories if directory.path == path), None)

    def partitions(self) -> list[tuple[TopicPartition, Uuid]]:
        """The partitions on disk with their topic ids, to compare with the metadata."""
        return [(topic_partition, entry.topic_id) for topic_partition, entry in self._entries.items()]

    # ---- creating and deleting

    def get_or_create(
        self,
        topic_partition: TopicPartition,
        topic_id: Uuid,
        config: LogConfig,
        *,
        directory_id: Uuid | None = None,
    ) -> PartitionLog:
        """The partition's log. A new log is created in the given directory, or in that with the fewest partitions.

        A log in a failed directory is not replaced by an empty log in another one: `directory_id` from the metadata
        (KIP-858) says where the log is, and logs that were lost while the node ran are remembered.
        """
        entry = self._entries.get(topic_partition)
        if entry is not None:
            if entry.topic_id != topic_id and entry.topic_id and topic_id:
                raise KafkaError(
                    ErrorCode.INCONSISTENT_TOPIC_ID,
                    f"{topic_partition} on disk belongs to topic id {entry.topic_id}, not {topic_id}",
                )
            if topic_id and not entry.topic_id:
                entry.log.files.write_topic_id(topic_id)
                entry.topic_id = topic_id
            entry.log.configure(config)
            return entry.log
        self._refused.check(topic_partition, topic_id)
        directory = self._directory_for_new(topic_partition, topic_id, directory_id)
        try:
            log = create_log(
                self._world,
                self.pool,
                topic_partition=topic_partition,
                topic_id=topic_id,
                path=f"{directory.path}/{topic_partition}",
                config=config,
                producer_id_expiration_ms=self.config.producer_id_expiration_ms,
                on_failure=directory.fail,
            )
        except OSError as error:
            directory.clear_away(f"{directory.path}/{topic_partition}")
            # The caller logs the error and retries.
            if not is_disk_full(error) and not is_shortage(error) and not is_of_one_path(error):
                directory.fail(error)
            raise StorageError(f"Could not create the log of {topic_partition} in {directory.path}: {error}") from error
        self._add(_Entry(log, directory, topic_id))
        return log

    def _directory_for_new(
        self, topic_partition: TopicPartition, topic_id: Uuid, directory_id: Uuid | None
    ) -> LogDirectory:
        online = self.online_directories()
        for directory in online:
            if directory_id is not None and directory.directory_id == directory_id:
                return directory
        is_assigned = directory_id is not None and not is_reserved(directory_id)
        if self._lost.get(topic_partition) == topic_id or (is_assigned and len(online) < len(self.directories)):
            raise LogDirectoryOffline(f"The log of {topic_partition} is in a log directory that is out of service")
        preferred = self._preferred.pop(topic_partition, None)
        if preferred in online:
            return preferred
        cordoned = self.cordoned_directories()
        open_to_new = [directory for directory in online if directory not in cordoned]
        if not open_to_new:
            raise LogDirectoryOffline("No log directory can take a new partition")
        return min(open_to_new, key=lambda directory: directory.partition_count)

    def delete(self, topic_partition: TopicPartition) -> None:
        """Deletes a partition. Its directory is renamed now and removed after `file.delete.delay.ms`."""
        self._lost.pop(topic_partition, None)
        self._refused.on_deleted(topic_partition)
        self._mover.cancel(topic_partition)
        self._set_aside(topic_partition, delete_directory_name, removes=True)

    def set_aside_stray(self, topic_partition: TopicPartition) -> None:
        """Renames a partition directory that is not in the metadata, and keeps it for the operator."""
        self._set_aside(topic_partition, stray_directory_name, removes=False)

    def _set_aside(
        self, topic_partition: TopicPartition, name_for: Callable[[TopicPartition, Uuid], str], *, removes: bool
    ) -> None:
        entry = self._entries.pop(topic_partition, None)
        if entry is None:
            return
        entry.directory.partition_count -= 1
        self.maintenance.prompt_checkpoints.forget(topic_partition, entry.directory)
        self.cleaner.on_log_deleted(topic_partition, entry.directory.path)
        target = f"{entry.directory.path}/{name_for(topic_partition, Uuid.random(self._world.random))}"
        if entry.directory.set_aside(entry.log.directory, target, removes=removes):
            entry.log.files.relocate(target)
            if removes:
                self.remove_tree_later(entry.directory, target)
        entry.log.files.take_offline(StorageError(f"{topic_partition} was deleted"))

    def remove_tree_later(self, directory: LogDirectory, path: str) -> None:
        self._world.scheduler.call_later(
            self.config.log_segment_delete_delay_ms / 1000, self._remove_tree, directory, path
        )

    def _remove_tree(self, directory: LogDirectory, path: str) -> None:
        """Removes directories one after another: a topic may have had thousands, and flushes must not wait for all."""
        self._removals.append((directory, path))
        if len(self._removals) == 1:
            self._remove_next()

    def _remove_next(self) -> None:
        removals = self._removals
        while removals and (self._is_closing or removals[0][0].is_offline):
            removals.popleft()
        if removals:
            self._world.workers.submit(self._world.files.remove_tree, removals[0][1]).when_done(self._on_removed)

    def _on_removed(self, outcome: Deferred[None]) -> None:
        directory, _ = self._removals.popleft()
        if isinstance(outcome.error, OSError) and not is_shortage(outcome.error):
            directory.fail(outcome.error)
        self._remove_next()

    def _add(self, entry: _Entry) -> None:
        self._entries[entry.log.topic_partition] = entry
        entry.directory.partition_count += 1
        entry.directory.forget_refused(entry.log.topic_partition)
        entry.log.on_cut = self._on_cut
        entry.log.files.failures.report_to(self._on_damage, self.on_segment_damaged)

    def _on_log_cut(self, topic_partition: TopicPartition, offset: int, goes_behind_checkpoints: bool) -> None:
        self._mover.on_cut(topic_partition, offset)
        if goes_behind_checkpoints:
            self.maintenance.prompt_checkpoints.write_soon()

    # ---- moving between directories

    def move(self, topic_partition: TopicPartition, path: str) -> None:
        """Moves a partition to another directory in the background (KIP-113). Raises if that is impossible."""
        directory = checked_target(topic_partition, path, self.directory_at(path), self.cordoned_directories())
        if topic_partition not in self._entries:
            # Like in Kafka, a partition that is assigned to this node later is created in that directory.
            if len(self._preferred) < _PREFERRED_MAX:
                self._preferred[topic_partition] = directory
            raise KafkaError(ErrorCode.REPLICA_NOT_AVAILABLE, f"{topic_partition} has no replica on this node")
        self._mover.move(topic_partition, directory)

    def moved(self, topic_partition: TopicPartition, directory: LogDirectory) -> None:
        """Called when the mover has moved the log to another directory."""
        entry = self._entries[topic_partition]
        self.cleaner.on_log_moved(topic_partition, source=entry.directory.path, target=directory.path)
        entry.directory.partition_count -= 1
        directory.partition_count += 1
        entry.directory = directory
        for callback in self.on_moved:
            callback(topic_partition)

    # ---- failures

    def _on_directory_failure(self, directory: LogDirectory, error: OSError) -> None:
        failure = LogDirectoryOffline(f"The log directory {directory.path} is out of service: {error}")
        lost = [topic_partition for topic_partition, entry in self._entries.items() if entry.directory is directory]
        for topic_partition in lost:
            entry = self._entries.pop(topic_partition)
            self._lost[topic_partition] = entry.topic_id
            entry.log.files.take_offline(failure)
        self._mover.directory_failed(directory)
        for callback in self.on_directory_failure:
            callback(directory, lost)

    def _on_log_damaged(self, topic_partition: TopicPartition, error: StorageError) -> None:
        """Takes the log out of service and opens it again on a worker."""
        entry = None if self._is_closing else self._entries.pop(topic_partition, None)
        if entry is None:
            return
        entry.directory.partition_count -= 1
        self._refused.add_damaged(topic_partition, error, entry.topic_id, (entry.log, entry.directory))
        self._mover.cancel(topic_partition)
        entry.log.files.discard()
        for callback in self.on_log_failure:
            callback(topic_partition)
        recovered = recover_on_worker(
            *(self._world, self.pool, entry.log, entry.topic_id, entry.directory),
            *(self.maintenance.prompt_checkpoints, lambda: not self._is_closing),
        )
        recovered.when_done(lambda outcome: self._on_log_recovered(entry, outcome))

    def _on_log_recovered(self, entry: _Entry, outcome: Deferred[PartitionLog]) -> None:
        topic_partition = entry.log.topic_partition
        if outcome.error is not None:
            logger.error("%s could not be recovered, restart the node: %s", topic_partition, outcome.error)
            self._refused.fail_recovery(topic_partition)
        elif self._is_closing or entry.directory.is_offline or not self._refused.end_recovery(topic_partition):
            outcome.result().files.discard()
        else:
            self._add(_Entry(outcome.result(), entry.directory, entry.topic_id))

    def _on_opened_late(self, loaded: LoadedLog, deleted_id: Uuid | None) -> None:
        topic_partition, topic_id = loaded.log.topic_partition, loaded.topic_id or Uuid.ZERO
        self.had_clean_shutdown = self.had_clean_shutdown and loaded.report.lost_from < 0
        self._add(_Entry(loaded.log, loaded.directory, topic_id))
        if deleted_id is not None and deleted_id == topic_id:
            self.delete(topic_partition)
            return
        for callback in self.on_opened_late:
            callback(topic_partition, topic_id)

    # ---- describing

    def describe(
        self, wanted: Iterable[TopicPartition] | None = None, *, per_slice: int
    ) -> Generator[None, None, list[DirectoryDescription]]:
        """Every directory with its replicas, including future ones. Pauses after every `per_slice` replicas."""
        chosen, descriptions = self._entries.keys() if wanted is None else frozenset(wanted), []
        entries = list(self._entries.items())
        if wanted is not None:
            entries = [
                (topic_partition, self._entries[topic_partition])
                for topic_partition in chosen
                if topic_partition in self._entries
            ]
        for directory in self.directories:
            total, usable = -1, -1
            if not directory.is_offline:
                try:
                    total, usable = self._world.files.free_bytes(directory.path)
                except OSError as error:
                    directory.fail(error)
            replicas = []
            for number, (topic_partition, entry) in enumerate(entries, 1):
                if number % per_slice == 0:
                    yield
                if entry.directory is directory:
                    log = entry.log
                    lag = max(0, log.high_watermark - log.log_end_offset)
                    replicas.append(ReplicaDescription(topic_partition, log.size_bytes, lag, False))
            for log in self._mover.futures_in(directory):
                if log.topic_partition in chosen:
                    lag = max(0, self._entries[log.topic_partition].log.log_end_offset - log.log_end_offset)
                    replicas.append(ReplicaDescription(log.topic_partition, log.size_bytes, lag, True))
            descriptions.append(
                DirectoryDescription(directory.path, directory.directory_id, directory.error, total, usable, replicas)
            )
        return descriptions

    # ---- closing

    def checkpoint(self) -> Deferred[None]:
        """Writes recovery points, high watermarks and start offsets of all directories, on a worker."""
        return self.maintenance.checkpoint()

    def close(self, *, broker_epoch: int = -1) -> Deferred[None]:
        """A clean shutdown: flushes and closes logs, writes checkpoints and markers. Resolves when all is durable."""
        self._is_closing = True
        self.maintenance.stop()
        self.cleaner.stop()
        self._mover.stop()
        self._postponed.stop()
        return self.maintenance.close_all(broker_epoch).finally_do(self._release_locks)

    def _release_locks(self) -> None:
        for directory in self.directories:
            directory.close()
