"""Replicas that get their log after the metadata change that named them.

| reason | when the log is created |
|---|---|
| the disk was full, or the log is being recovered | every second it is tried again |
| a deleted log had the same name | when no checkpoint file has its offsets any more (`storage/prompt_checkpoints`) |
| too many logs for one turn of the loop | in a later turn (`openings`) |

Coordinators hear of them here: no metadata change tells that such a replica leads now.
"""

from __future__ import annotations

from collections.abc import Callable, Set
from typing import TYPE_CHECKING

from ottla.model.ids import TopicPartition
from ottla.storage.errors import DISK_RETRY_SECONDS

if TYPE_CHECKING:
    from ottla.model.ports import Scheduler

__all__ = ["LateLogs"]


class LateLogs:
    """`offline` are the replicas without a log. `retry(topic_partition)` applies the newest metadata of one of them."""

    __slots__ = ("_is_planned", "_offline", "_retry", "_scheduler", "on_created")

    def __init__(
        self, scheduler: Scheduler, offline: Set[TopicPartition], retry: Callable[[TopicPartition], None]
    ) -> None:
        self._scheduler = scheduler
        self._offline = offline
        self._retry = retry
        self._is_planned = False
        # Called with a topic and indexes of partitions which may have got their logs outside of a metadata change.
        self.on_created: list[Callable[[str, list[int]], None]] = []

    def retry_soon(self) -> None:
        if not self._is_planned:
            self._is_planned = True
            self._scheduler.call_later(DISK_RETRY_SECONDS, self._retry_all)

    def created(self, topic: str, indexes: list[int]) -> None:
        for callback in self.on_created:
            callback(topic, indexes)

    def _retry_all(self) -> None:
        self._is_planned = False
        for topic_partition in sorted(self._offline):
            self._retry(topic_partition)
