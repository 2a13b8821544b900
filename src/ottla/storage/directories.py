"""One directory of `log.dirs`: its lock, its identity, its checkpoints, and whether it is in service.

A directory that fails (with any I/O error except a full disk) is out of service with all of its logs until the node
restarts. Other directories are not affected.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping

from ottla.model.ids import TopicPartition, Uuid
from ottla.model.ports import DirectoryLocked, Files, Lock, World
from ottla.storage.checkpoints import CorruptCheckpoint, read_offsets, write_offsets
from ottla.storage.errors import DirectoryRefused, is_disk_full, is_shortage, is_temporary
from ottla.storage.meta_properties import MetaProperties, read_meta_properties, write_meta_properties
from ottla.storage.names import (
    CLEAN_SHUTDOWN_FILE,
    CLEANER_CHECKPOINT_FILE,
    LOCK_FILE,
    LOG_START_OFFSET_FILE,
    RECOVERY_POINT_FILE,
    REPLICATION_OFFSET_FILE,
)

__all__ = ["CHECKPOINT_FILES", "CheckpointsAtStart", "LogDirectory", "is_reserved", "lock_directory"]

logger = logging.getLogger(__name__)

CHECKPOINT_FILES = (RECOVERY_POINT_FILE, REPLICATION_OFFSET_FILE, LOG_START_OFFSET_FILE)


def lock_directory(files: Files, path: str) -> Lock:
    """Locks the directory, or raises DirectoryRefused."""
    try:
        return files.lock(f"{path}/{LOCK_FILE}")
    except DirectoryLocked:
        raise DirectoryRefused(
            f"The log directory {path} is locked by another process: a second node may not use the same directory."
        ) from None


class LogDirectory:
    """Opened once at start. `error` is set for good when it fails."""

    __slots__ = (
        "_files",
        "_last_written",
        "_lock",
        "directory_id",
        "error",
        "offsets_of_refused",
        "on_failure",
        "partition_count",
        "path",
        "unrecovered",
    )

    def __init__(self, files: Files, path: str) -> None:
        self._files = files
        self.path = path
        self.directory_id = Uuid.ZERO
        self.error: OSError | None = None
        self.partition_count = 0
        # Logs that a crash has left, and that could not be opened yet: the next start has to recover them.
        self.unrecovered: set[TopicPartition] = set()
        # Of logs that could not be opened: recovery point, log start offset and high watermark. The checkpoints keep
        # them, because a later start may open the log.
        self.offsets_of_refused: dict[TopicPartition, tuple[int, int, int]] = {}
        self.on_failure: Callable[[LogDirectory, OSError], None] | None = None
        self._lock: Lock | None = None
        self._last_written: dict[str, Mapping[TopicPartition, int]] = {}

    def __repr__(self) -> str:
        return f"LogDirectory({self.path!r}{', offline' if self.is_offline else ''})"

    @property
    def is_offline(self) -> bool:
        return self.error is not None

    def fail(self, error: OSError) -> None:
        """Takes the directory out of service. Later errors are ignored."""
        if self.error is None:
            self.error = error
            logger.error("The log directory %s is out of service: %s", self.path, error)
            if self.on_failure is not None:
                self.on_failure(self, error)

    def tolerate(self, error: OSError) -> None:
        """A write beside the logs failed: any error except a full disk takes the directory out of service."""
        if is_disk_full(error) or is_shortage(error):
            logger.warning("A write to the log directory %s failed and will be retried: %s", self.path, error)
        else:
            self.fail(error)

    def clear_away(self, path: str) -> None:
        """Removes an unfinished partition directory, because the partition may be created in another directory."""
        try:
            if self._files.is_directory(path):
                self._files.remove_tree(path)
        except OSError as error:
            self.tolerate(error)

    def set_aside(self, path: str, target: str, *, removes: bool) -> bool:
        """Renames a partition directory, to remove it later or to keep it. Returns whether it has the new name."""
        try:
            self._files.rename(path, target)
        except OSError as error:
            if removes and is_temporary(error):
                # A full disk may have no room for a longer name.
                self.clear_away(path)
            if not removes or self._files.is_directory(path):
                self.fail(error)
            return False
        return True

    def open(self, world: World, *, cluster_id: str, node_id: int) -> None:
        """Locks the directory and checks its identity; a new directory gets one.

        Raises DirectoryRefused if the node must not start. An OSError takes this directory out of service.
        """
        try:
            self._files.make_directories(self.path)
            self._lock = lock_directory(self._files, self.path)
            self._identify(world, cluster_id=cluster_id, node_id=node_id)
        except OSError as error:
            self.fail(error)

    def forget_refused(self, topic_partition: TopicPartition) -> None:
        """The log is open, and its own offsets belong into the checkpoints from now on; or it has been set aside."""
        self.unrecovered.discard(topic_partition)
        self.offsets_of_refused.pop(topic_partition, None)

    @property
    def marker_stamp(self) -> int:
        """The stamp of the marker of a clean shutdown; -1 if there is none."""
        return self._files.stamp_of(f"{self.path}/{CLEAN_SHUTDOWN_FILE}")

    def take_clean_shutdown_marker(self) -> int | None:
        """Removes the marker. Returns its broker epoch (-1 without one), or None after a crash."""
        path = f"{self.path}/{CLEAN_SHUTDOWN_FILE}"
        if not self._files.exists(path):
            return None
        data = self._files.read_bytes(path)
        self._files.remove(path)
        # If the marker came back after a power loss, the next start would trust incomplete files of this run.
        self._files.sync_directory(self.path)
        # KIP-966: {"version":0,"brokerEpoch":n}. Older releases wrote an empty file.
        _, separator, value = data.partition(b'"brokerEpoch":')
        digits = value.strip(b" }\n")
        return int(digits) if separator and digits.isdigit() else -1

    def write_clean_shutdown_marker(self, broker_epoch: int) -> None:
        data = b'{"version":0,"brokerEpoch":%d}' % broker_epoch
        self._files.write_atomically(f"{self.path}/{CLEAN_SHUTDOWN_FILE}", data)

    def read_checkpoint(self, name: str) -> dict[TopicPartition, int]:
        """The offsets in a checkpoint file. A damaged file counts as empty: recovery then checks more."""
        try:
            return read_offsets(self._files, f"{self.path}/{name}")
        except CorruptCheckpoint:
            return {}

    def read_cleaned(self) -> dict[TopicPartition, int] | None:
        """The logs in the cleaner's checkpoint; None if it cannot be read: then any log may have gaps."""
        try:
            return read_offsets(self._files, f"{self.path}/{CLEANER_CHECKPOINT_FILE}")
        except CorruptCheckpoint:
            return None

    def write_checkpoint(self, name: str, offsets: Mapping[TopicPartition, int]) -> None:
        """Replaces a checkpoint file, unless its content is the same. May run on a worker."""
        if self._last_written.get(name) != offsets:
            # A failed write may leave either content.
            self._last_written.pop(name, None)
            write_offsets(self._files, f"{self.path}/{name}", offsets)
            self._last_written[name] = offsets

    @property
    def has_all_checkpoints(self) -> bool:
        """True if the last write of every checkpoint file has succeeded."""
        return all(name in self._last_written for name in CHECKPOINT_FILES)

    def close(self) -> None:
        lock, self._lock = self._lock, None
        if lock is not None:
            lock.release()

    def _identify(self, world: World, *, cluster_id: str, node_id: int) -> None:
        properties = read_meta_properties(self._files, self.path)
        if properties is not None:
            if properties.cluster_id is not None and properties.cluster_id != cluster_id:
                raise DirectoryRefused(
                    f"The log directory {self.path} belongs to cluster {properties.cluster_id}, not {cluster_id}."
                )
            if properties.node_id is not None and properties.node_id != node_id:
                raise DirectoryRefused(
                    f"The log directory {self.path} belongs to node {properties.node_id}, not {node_id}."
                )
        if (
            properties is None
            or properties.directory_id is None
            or properties.cluster_id is None
            or properties.node_id is None
        ):
            directory_id = properties.directory_id if properties is not None else None
            properties = MetaProperties(
                cluster_id=cluster_id, node_id=node_id, directory_id=directory_id or Uuid.random(world.random)
            )
            write_meta_properties(self._files, self.path, properties)
        assert properties.directory_id is not None
        self.directory_id = properties.directory_id


class CheckpointsAtStart:
    """The checkpoints of a directory. A log that a clean shutdown left needs none, unless its files have changed."""

    __slots__ = ("_directory", "_offsets")

    def __init__(self, directory: LogDirectory) -> None:
        self._directory = directory
        self._offsets: tuple[dict[TopicPartition, int], ...] = ()

    def read(self) -> None:
        if not self._offsets:
            names = (RECOVERY_POINT_FILE, LOG_START_OFFSET_FILE, REPLICATION_OFFSET_FILE)
            self._offsets = tuple(self._directory.read_checkpoint(name) for name in names)

    def topic_partitions(self) -> set[TopicPartition]:
        """The logs in the files; none if the files were not read."""
        return set().union(*self._offsets)

    def of(self, topic_partition: TopicPartition) -> tuple[int, int, int]:
        """Recovery point, log start offset and high watermark."""
        self.read()
        recovery_points, start_offsets, high_watermarks = self._offsets
        return (
            recovery_points.get(topic_partition, 0),
            start_offsets.get(topic_partition, 0),
            high_watermarks.get(topic_partition, 0),
        )


def is_reserved(directory_id: Uuid) -> bool:
    """The first hundred ids mean "unassigned", "lost" and so on (KIP-858), not a directory."""
    return directory_id.bytes[:15] == bytes(15) and directory_id.bytes[15] < 100
