"""The first dirty offset of each log: `cleaner-offset-checkpoint` of a log directory, in Kafka's format.

The loss of the file only costs a second cleaning of the same part. The checkpoint is kept in memory and written on a
worker, one write at a time. Changes during a write share the next write.
"""

from __future__ import annotations

from collections.abc import Callable

from ottla.model.deferred import Deferred
from ottla.model.ids import TopicPartition
from ottla.model.ports import World
from ottla.storage.checkpoints import CorruptCheckpoint, read_offsets, write_offsets
from ottla.storage.names import CLEANER_CHECKPOINT_FILE

__all__ = ["CleanerCheckpoint"]


class CleanerCheckpoint:
    """The checkpoint of one log directory."""

    __slots__ = ("_is_changed", "_is_writing", "_offsets", "_on_disk", "_on_error", "_path", "_world")

    def __init__(self, world: World, directory: str, *, on_error: Callable[[OSError], None]) -> None:
        self._world = world
        self._path = f"{directory}/{CLEANER_CHECKPOINT_FILE}"
        self._on_error = on_error
        self._is_writing = False
        self._is_changed = False
        try:
            self._offsets = read_offsets(world.files, self._path)
        except CorruptCheckpoint:
            # Every log counts as dirty again, which is safe.
            self._offsets = {}
        self._on_disk = frozenset(self._offsets)

    def is_on_disk(self, topic_partition: TopicPartition) -> bool:
        """Whether an entry for the log is durable, with any offset. Repeats a failed write."""
        if topic_partition in self._offsets and topic_partition not in self._on_disk and not self._is_writing:
            self._write()
        return topic_partition in self._on_disk and topic_partition in self._offsets

    def get(self, topic_partition: TopicPartition) -> int | None:
        return self._offsets.get(topic_partition)

    def set(self, topic_partition: TopicPartition, offset: int) -> None:
        if self._offsets.get(topic_partition) != offset:
            self._offsets[topic_partition] = offset
            self._write()

    def remove(self, topic_partition: TopicPartition) -> int | None:
        offset = self._offsets.pop(topic_partition, None)
        if offset is not None:
            self._write()
        return offset

    def _write(self) -> None:
        self._is_changed = True
        if not self._is_writing:
            self._is_writing = True
            self._is_changed = False
            offsets = dict(self._offsets)
            job = self._world.workers.submit(write_offsets, self._world.files, self._path, offsets)
            job.when_done(lambda outcome: self._on_written(outcome, frozenset(offsets)))

    def _on_written(self, outcome: Deferred[None], written: frozenset[TopicPartition]) -> None:
        self._is_writing = False
        if outcome.error is None:
            self._on_disk = written
        if outcome.error is not None:
            if not isinstance(outcome.error, OSError):
                raise outcome.error
            self._on_error(outcome.error)
        elif self._is_changed:
            self._write()
