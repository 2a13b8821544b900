"""A log that a start has to open, and the log that was opened."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from ottla.model.config import LogConfig
from ottla.model.ids import TopicPartition, Uuid
from ottla.storage.clean_logs import LeftLog
from ottla.storage.directories import CheckpointsAtStart, LogDirectory
from ottla.storage.log import PartitionLog
from ottla.storage.recovery import RecoveryReport

__all__ = ["LoadJob", "LoadedLog"]


class LoadedLog(NamedTuple):
    log: PartitionLog
    directory: LogDirectory
    topic_id: Uuid | None
    report: RecoveryReport


class LoadJob(NamedTuple):
    topic_partition: TopicPartition
    directory: LogDirectory
    config: LogConfig
    is_clean: bool
    checkpoints: CheckpointsAtStart | None
    """None for a log whose checkpoints are lost."""
    cleaned_to: int | None
    """The offset in the cleaner's checkpoint: there may be gaps even if the topic is not compacted any more."""
    on_failure: Callable[[OSError], None]
    """One object for all logs of a directory."""
    left: LeftLog | None = None
    """The log as the last clean shutdown left it."""

    @property
    def path(self) -> str:
        return f"{self.directory.path}/{self.topic_partition}"

    def offsets(self) -> tuple[int, int, int] | None:
        """Recovery point, log start offset and high watermark; None if they are lost."""
        if self.left is not None:
            # The checkpoints have the same offsets, but may be unread, and cannot be read during a shortage.
            return self.left.end_offset, self.left.start_offset, self.left.high_watermark
        return None if self.checkpoints is None else self.checkpoints.of(self.topic_partition)
