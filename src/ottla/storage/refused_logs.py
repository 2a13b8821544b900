"""Logs that are on disk and cannot be used, until they are recovered or their topic is created again.

No empty log takes the place of such a log. A new topic of the same name has another topic id: then the files of the
former topic are set aside for the operator, like those of a stray partition.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import TYPE_CHECKING

from ottla.model.ids import TopicPartition, Uuid
from ottla.storage.names import stray_directory_name

if TYPE_CHECKING:
    from ottla.model.errors import KafkaError
    from ottla.model.ports import World

__all__ = ["RefusedLogs"]

logger = logging.getLogger(__name__)


class _RefusedLog:
    __slots__ = ("error", "is_recovering", "is_unwanted", "path", "topic_id")

    def __init__(self, error: KafkaError, path: str, topic_id: Uuid | None, is_recovering: bool) -> None:
        self.error = error
        self.path = path
        self.topic_id = topic_id
        # A worker uses the files.
        self.is_recovering = is_recovering
        self.is_unwanted = False


class RefusedLogs:
    """The refused logs of a node."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._logs: dict[TopicPartition, _RefusedLog] = {}

    def __contains__(self, topic_partition: TopicPartition) -> bool:
        return topic_partition in self._logs

    def add(
        self,
        topic_partition: TopicPartition,
        error: KafkaError,
        path: str,
        topic_id: Uuid | None,
        *,
        is_recovering: bool = False,
    ) -> None:
        """Without a known topic id, the log is taken for that of the first topic that asks for it."""
        self._logs[topic_partition] = _RefusedLog(error, path, topic_id, is_recovering)

    def add_all(self, logs: Iterable[tuple[TopicPartition, KafkaError, str, Uuid | None]]) -> None:
        for topic_partition, error, path, topic_id in logs:
            self.add(topic_partition, error, path, topic_id)

    def check(self, topic_partition: TopicPartition, topic_id: Uuid) -> None:
        """Raises the error of a refused log. The log of a former topic is set aside."""
        log = self._logs.get(topic_partition)
        if log is None:
            return
        log.topic_id = log.topic_id or topic_id
        if log.topic_id == topic_id or not topic_id:
            raise log.error
        if log.is_recovering:
            log.is_unwanted = True
            raise log.error
        self._set_aside(topic_partition, log)

    def end_recovery(self, topic_partition: TopicPartition) -> bool:
        """A log was recovered. Returns whether its topic still exists."""
        log = self._logs.pop(topic_partition)
        if log.is_unwanted:
            self._set_aside(topic_partition, log)
        return not log.is_unwanted

    def fail_recovery(self, topic_partition: TopicPartition) -> None:
        self._logs[topic_partition].is_recovering = False

    def _set_aside(self, topic_partition: TopicPartition, log: _RefusedLog) -> None:
        name = stray_directory_name(topic_partition, Uuid.random(self._world.random))
        try:
            self._world.files.rename(log.path, f"{log.path.rpartition('/')[0]}/{name}")
        except OSError as error:
            logger.warning("Could not rename %s: %s", log.path, error)
            raise log.error from error
        logger.warning("%s belongs to a former topic of the same name and was renamed to %s", log.path, name)
        self._logs.pop(topic_partition, None)
