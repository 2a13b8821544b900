"""Checkpoints that are written before their interval ends, because a log was deleted, truncated or recovered.

Recovery after a crash would trust the old offsets, for records that are not synced, or for a new log of the same name.
A name is free for a new log when no checkpoint file of the directory has the offsets of the old log. All requests of a
turn, and all requests while a checkpoint is being written, share the next checkpoint.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ottla.model.deferred import Deferred
from ottla.model.ids import TopicPartition
from ottla.storage.errors import DISK_RETRY_SECONDS

if TYPE_CHECKING:
    from ottla.model.ports import Scheduler
    from ottla.storage.directories import LogDirectory

__all__ = ["PromptCheckpoints"]


class PromptCheckpoints:
    """`checkpoint` writes all files of the directories in service, and does not fail."""

    __slots__ = (
        "_checkpoint",
        "_is_behind",
        "_is_running",
        "_is_stopped",
        "_leaving",
        "_online",
        "_scheduler",
        "_unwritten",
    )

    def __init__(
        self, scheduler: Scheduler, checkpoint: Callable[[], Deferred[None]], online: Callable[[], list[LogDirectory]]
    ) -> None:
        self._scheduler = scheduler
        self._checkpoint = checkpoint
        self._online = online
        self._is_behind = False
        self._is_running = False
        self._is_stopped = False
        # Deleted logs whose offsets may still be in the files.
        self._leaving: dict[TopicPartition, tuple[LogDirectory, Deferred[None]]] = {}
        # Of callers of `written`.
        self._unwritten: dict[Deferred[None], LogDirectory] = {}

    def stop(self) -> None:
        """The shutdown has its own checkpoints."""
        self._is_stopped = True
        for written in list(self._unwritten):
            self._resolve(written)

    def write_soon(self) -> None:
        self._is_behind = True
        if not self._is_running:
            self._is_running = True
            self._scheduler.call_soon(self._write)

    def written(self, directory: LogDirectory) -> Deferred[None]:
        """Resolves when the files of the directory have the offsets of now, it is out of service, or the node stops."""
        written: Deferred[None] = Deferred()
        self._unwritten[written] = directory
        self.write_soon()
        return written

    def forget(self, topic_partition: TopicPartition, directory: LogDirectory) -> None:
        """The log was deleted."""
        earlier = self._leaving.get(topic_partition)
        self._leaving[topic_partition] = (directory, Deferred() if earlier is None else earlier[1])
        self.write_soon()

    def leaving(self, topic_partition: TopicPartition) -> Deferred[None] | None:
        """None if the name is free. Otherwise resolves when it is."""
        entry = self._leaving.get(topic_partition)
        return None if entry is None else entry[1]

    def _write(self) -> None:
        self._is_running = self._is_behind and not self._is_stopped
        if self._is_running:
            self._is_behind = False
            leaving, unwritten = dict(self._leaving), dict(self._unwritten)
            self._checkpoint().when_done(lambda _: self._on_written(leaving, unwritten))

    def _on_written(
        self,
        leaving: dict[TopicPartition, tuple[LogDirectory, Deferred[None]]],
        unwritten: dict[Deferred[None], LogDirectory],
    ) -> None:
        if self._is_stopped:
            return
        for written, directory in unwritten.items():
            if directory.is_offline or directory.has_all_checkpoints:
                self._resolve(written)
        for topic_partition, entry in leaving.items():
            directory, written = entry
            is_written = directory.is_offline or directory.has_all_checkpoints
            if is_written and self._leaving.get(topic_partition) is entry:
                del self._leaving[topic_partition]
                written.resolve(None)
        if all(directory.has_all_checkpoints for directory in self._online()):
            self._scheduler.call_soon(self._write)
        else:
            self._is_behind = True
            self._scheduler.call_later(DISK_RETRY_SECONDS, self._write)

    def _resolve(self, written: Deferred[None]) -> None:
        del self._unwritten[written]
        written.resolve(None)
