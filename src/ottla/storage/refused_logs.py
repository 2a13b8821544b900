"""Logs that are on disk and cannot be used, until they are recovered or their topic is created again.

A refused log is not replaced by an empty log. A new topic of the same name has another topic id: then the files of the
former topic are set aside for the operator, like the files of a stray partition. The log of the new topic is created
when no checkpoint file contains the offsets of the former log (`prompt_checkpoints`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from ottla.model.ids import TopicPartition, Uuid
from ottla.storage.errors import StorageError
from ottla.storage.names import stray_directory_name

if TYPE_CHECKING:
    from ottla.model.errors import KafkaError
    from ottla.model.ports import World
    from ottla.storage.directories import LogDirectory
    from ottla.storage.log import PartitionLog

    _Place = tuple[PartitionLog, LogDirectory]

__all__ = ["RefusedLogs"]

logger = logging.getLogger(__name__)


class _RefusedLog:
    __slots__ = ("damaged", "directory", "error", "is_postponed", "is_recovering", "is_unwanted", "topic_id")

    def __init__(
        self, error: KafkaError, directory: LogDirectory, topic_id: Uuid | None, damaged: _Place | None
    ) -> None:
        self.error = error
        self.directory = directory
        self.topic_id = topic_id
        # The log whose files were damaged while the node ran.
        self.damaged = damaged
        # A worker uses the files.
        self.is_recovering = damaged is not None
        # True if opening the log is retried when descriptors and memory are available (`postponed_logs`).
        self.is_postponed = False
        self.is_unwanted = False


class RefusedLogs:
    """The refused logs of a node. `forget` is called after the files of a former topic were set aside."""

    def __init__(self, world: World, forget: Callable[[TopicPartition, LogDirectory], None]) -> None:
        self._world = world
        self._forget = forget
        self._logs: dict[TopicPartition, _RefusedLog] = {}

    def __contains__(self, topic_partition: TopicPartition) -> bool:
        return topic_partition in self._logs

    def add_damaged(self, topic_partition: TopicPartition, error: KafkaError, topic_id: Uuid, place: _Place) -> None:
        """The files of a log were damaged while the node ran: a worker recovers it."""
        self._logs[topic_partition] = _RefusedLog(error, place[1], topic_id, place)

    def unrecovered(self) -> list[_Place]:
        """Damaged logs that are not recovered yet, or could not be."""
        return [log.damaged for log in self._logs.values() if log.damaged is not None]

    def topic_id_of(self, topic_partition: TopicPartition) -> Uuid | None:
        log = self._logs.get(topic_partition)
        return None if log is None else log.topic_id

    def on_deleted(self, topic_partition: TopicPartition) -> None:
        """The topic was deleted: a log that is being recovered is set aside then, and a postponed log is deleted."""
        log = self._logs.get(topic_partition)
        if log is not None and (log.is_recovering or log.is_postponed):
            log.is_unwanted = True

    def add_all(self, logs: Iterable[tuple[TopicPartition, KafkaError, LogDirectory, Uuid | None]]) -> None:
        """Adds logs. A log without a known topic id counts as the log of the first topic that asks for it."""
        for topic_partition, error, directory, topic_id in logs:
            self._logs[topic_partition] = _RefusedLog(error, directory, topic_id, None)

    def check(self, topic_partition: TopicPartition, topic_id: Uuid) -> None:
        """Raises the error of a refused log. The log of a former topic is set aside, and the name is not free yet."""
        log = self._logs.get(topic_partition)
        if log is None:
            return
        log.topic_id = log.topic_id or topic_id
        if log.topic_id == topic_id or not topic_id:
            raise log.error
        if log.is_recovering:
            log.is_unwanted = True
            raise log.error
        if not self._set_aside(topic_partition, log):
            raise log.error
        raise StorageError(f"The checkpoint files of {log.directory.path} still contain {topic_partition}")

    def postpone(self, topic_partition: TopicPartition) -> None:
        self._logs[topic_partition].is_postponed = True

    def is_postponed(self, topic_partition: TopicPartition) -> bool:
        log = self._logs.get(topic_partition)
        return log is not None and log.is_postponed

    def begin_opening(self, topic_partition: TopicPartition) -> bool:
        """A worker tries to open a postponed log. Returns False if its files have been set aside."""
        log = self._logs.get(topic_partition)
        if log is None or not log.is_postponed:
            return False
        log.is_recovering = True
        return True

    def fail_opening(self, topic_partition: TopicPartition, *, for_now: bool) -> None:
        log = self._logs[topic_partition]
        log.is_recovering, log.is_postponed = False, for_now

    def end_opening(self, topic_partition: TopicPartition) -> Uuid | None:
        """A postponed log was opened. Returns the id of its topic if that was deleted meanwhile."""
        log = self._logs.pop(topic_partition)
        return log.topic_id if log.is_unwanted else None

    def end_recovery(self, topic_partition: TopicPartition) -> bool:
        """A log was recovered. Returns whether its topic still exists."""
        log = self._logs[topic_partition]
        if log.is_unwanted:
            # If the files cannot be renamed, the log stays refused until another topic of that name asks for it.
            log.is_recovering = False
            self._set_aside(topic_partition, log)
        else:
            del self._logs[topic_partition]
        return not log.is_unwanted

    def fail_recovery(self, topic_partition: TopicPartition) -> None:
        self._logs[topic_partition].is_recovering = False

    def _set_aside(self, topic_partition: TopicPartition, log: _RefusedLog) -> bool:
        """Returns False if the files could not be renamed."""
        directory = log.directory
        path = f"{directory.path}/{topic_partition}"
        name = stray_directory_name(topic_partition, Uuid.random(self._world.random))
        try:
            self._world.files.rename(path, f"{directory.path}/{name}")
        except OSError as error:
            logger.warning("Could not rename %s: %s", path, error)
            return False
        logger.warning("%s belongs to a former topic of the same name and was renamed to %s", path, name)
        del self._logs[topic_partition]
        directory.forget_refused(topic_partition)
        # Recovery after a crash would apply the offsets of this log to the log of the new topic.
        self._forget(topic_partition, directory)
        return True
