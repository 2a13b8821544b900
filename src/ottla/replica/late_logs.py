"""Replicas that get their log after the metadata change that named them.

| reason | when the log is created |
|---|---|
| the disk was full, or the log is being recovered | every second it is tried again |
| the start could not open the log for a shortage | when it is opened (`storage/postponed_logs`) |
| a deleted log had the same name | when no checkpoint file contains its offsets (`storage/prompt_checkpoints`) |
| too many logs for one turn of the loop | in a later turn (`openings`) |

Coordinators are notified here, because no metadata change reports that such a replica leads now.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Set
from typing import TYPE_CHECKING

from ottla.model.ids import TopicPartition, Uuid
from ottla.storage.errors import DISK_RETRY_SECONDS

if TYPE_CHECKING:
    from ottla.model.ports import Scheduler
    from ottla.replica.manager import ReplicaManager

__all__ = ["LateLogs", "host_opened_log"]

logger = logging.getLogger("ottla.replica.late_logs")


class LateLogs:
    """`offline` are the replicas without a log. `retry(topic_partition)` applies the newest metadata of a replica.

    Logs that are postponed (`is_postponed`) are not retried: `host_opened_log` is called when they are open.
    """

    __slots__ = ("_is_closed", "_is_planned", "_is_postponed", "_offline", "_retry", "_scheduler", "on_created")

    def __init__(
        self,
        scheduler: Scheduler,
        offline: Set[TopicPartition],
        retry: Callable[[TopicPartition], None],
        is_postponed: Callable[[TopicPartition], bool],
    ) -> None:
        self._scheduler = scheduler
        self._offline = offline
        self._retry = retry
        self._is_postponed = is_postponed
        self._is_planned = False
        self._is_closed = False
        # Called with a topic and indexes of partitions which may have got their logs outside of a metadata change.
        self.on_created: list[Callable[[str, list[int]], None]] = []

    def close(self) -> None:
        """Creates no more logs: the logs are about to be closed."""
        self._is_closed = True

    def retry_soon(self) -> None:
        if not self._is_planned:
            self._is_planned = True
            self._scheduler.call_later(DISK_RETRY_SECONDS, self._retry_all)

    def created(self, topic: str, indexes: list[int]) -> None:
        for callback in self.on_created:
            callback(topic, indexes)

    def _retry_all(self) -> None:
        self._is_planned = False
        if self._is_closed:
            return
        for topic_partition in sorted(
            topic_partition for topic_partition in self._offline if not self._is_postponed(topic_partition)
        ):
            self._retry(topic_partition)


def host_opened_log(replicas: ReplicaManager, topic_partition: TopicPartition, topic_id: Uuid) -> None:
    """A log was opened that the start could not open: its replica begins, or a stray is set aside as at a start."""
    assert replicas.image is not None
    name, index = topic_partition
    topic = replicas.image.topics.by_name.get(name)
    view = None if topic is None else topic.partitions.get(index)
    is_replica = view is not None and replicas.node_id in view.replicas
    if topic is None or not is_replica or (topic_id and topic_id != topic.topic_id):
        logger.warning("set aside the stray log of %s: the metadata has no such replica here", topic_partition)
        replicas.logs.set_aside_stray(topic_partition)
    replicas.retry_late(topic_partition)
