"""The effects of an OSError on a log, and whether the log is in service.

| error | consequence |
|---|---|
| the disk or quota is full | `DiskFull`; the write has no effect, reads and later writes continue |
| no descriptors or no memory | `StorageError`; the log stays in service |
| the log's files were truncated or removed | this log is out of service and recovered |
| any other error | the whole log directory is out of service, with all of its logs |
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from ottla.model.ports import TruncatedFile
from ottla.storage.errors import (
    CorruptLog,
    DiskFull,
    LogDirectoryOffline,
    StorageError,
    is_disk_full,
    is_shortage,
    is_temporary,
)

if TYPE_CHECKING:
    from ottla.model.ids import TopicPartition
    from ottla.model.ports import Clock

__all__ = ["LogFailures"]

logger = logging.getLogger(__name__)

_FULL_LOG_INTERVAL_MS = 10_000
_NOT_FULL = -1
_NO_DAMAGE: Mapping[int, str] = {}
_NO_GAPS: frozenset[int] = frozenset()


class LogFailures:
    """The failures of one log. `offline` is the error that every call gets once the log is out of service."""

    __slots__ = (
        "_clock",
        "_full_at",
        "_full_logged_ms",
        "_on_damage",
        "_on_failure",
        "_on_segment_damaged",
        "_topic_partition",
        "damaged_segments",
        "gaps_to_skip",
        "offline",
    )

    def __init__(
        self, topic_partition: TopicPartition, clock: Clock, *, on_failure: Callable[[OSError], None] | None
    ) -> None:
        self._topic_partition = topic_partition
        self._clock = clock
        # Takes the log directory out of service.
        self._on_failure = on_failure
        self.offline: StorageError | None = None
        self._on_damage: Callable[[TopicPartition, StorageError], None] | None = None
        self._on_segment_damaged: Sequence[Callable[[TopicPartition, int], None]] = ()
        self.damaged_segments: Mapping[int, str] = _NO_DAMAGE
        """Base offsets of damaged segments, with the damage."""
        self.gaps_to_skip: frozenset[int] = _NO_GAPS
        """Base offsets of segments whose missing records no replica has: reads continue behind them."""
        self._full_at = _NOT_FULL
        self._full_logged_ms = 0

    def report_to(
        self,
        on_damage: Callable[[TopicPartition, StorageError], None],
        on_segment_damaged: Sequence[Callable[[TopicPartition, int], None]],
    ) -> None:
        """`on_damage` recovers a log with damaged files. The other callbacks repair a segment of a log in service."""
        self._on_damage = on_damage
        self._on_segment_damaged = on_segment_damaged

    def check(self) -> None:
        if self.offline is not None:
            raise self.offline

    def was_full_at(self, end_offset: int) -> bool:
        """True if a batch that a full disk refused at this end of the log is still missing."""
        return self._full_at == end_offset

    def refusal(self, error: OSError, action: str, *, directory: str, end_offset: int) -> StorageError:
        """The error to raise for an OSError of a write that left nothing behind, or of a read."""
        if isinstance(error, TruncatedFile):
            return self.fail_log(f"{error.filename} {error.strerror}")
        if is_disk_full(error):
            full = self.no_room(action, directory=directory, reason=error.strerror)
            self._full_at = end_offset
            now_ms = self._clock.now_ms()
            if now_ms - self._full_logged_ms >= _FULL_LOG_INTERVAL_MS:
                # Producers retry many times a second.
                self._full_logged_ms = now_ms
                logger.warning("%s", full.message)
            return full
        if is_shortage(error):
            return StorageError(f"Could not {action} {self._topic_partition} for now: {error}")
        return self.fail(error, action)

    def no_room(self, action: str, *, directory: str, reason: str | None = None) -> DiskFull:
        why = "" if reason is None else f": {reason}"
        return DiskFull(f"No room to {action} {self._topic_partition} in {directory}{why}")

    def fail(self, error: OSError, action: str) -> StorageError:
        """Takes the log out of service, because its directory has failed, and notifies the directory's owner."""
        if self.offline is None:
            self.offline = LogDirectoryOffline(f"Could not {action} {self._topic_partition}: {error}")
            if self._on_failure is not None:
                self._on_failure(error)
        return self.offline

    def fail_halfway(self, error: OSError | CorruptLog, action: str) -> StorageError:
        """A change of the files could not be finished: after a temporary error, the log's owner recovers the log.

        So it does if a truncation meets damage. A repair would wait for the high watermark, which waits for the records
        that are to be fetched after the truncation. Recovery cuts the damage off, and a follower fetches again from
        there.
        """
        if isinstance(error, CorruptLog) or is_temporary(error):
            return self.fail_log(f"could not {action} it: {error}")
        return self.fail(error, action)

    def fail_log(self, reason: str) -> StorageError:
        """The files of this log are damaged, the directory is not: the log's owner recovers it."""
        if self.offline is None:
            self.offline = StorageError(f"{self._topic_partition} is out of service: {reason}")
            logger.error("%s", self.offline.message)
            if self._on_damage is not None:
                self._on_damage(self._topic_partition, self.offline)
        return self.offline

    def note_damaged(self, base_offset: int, reason: str) -> None:
        """A segment is damaged. Logged once for a segment."""
        if base_offset not in self.damaged_segments:
            self.damaged_segments = {**self.damaged_segments, base_offset: reason}
            logger.error(
                "%s: the segment at offset %d is damaged: %s. Other segments can be read.",
                self._topic_partition,
                base_offset,
                reason,
            )
            for callback in self._on_segment_damaged:
                callback(self._topic_partition, base_offset)

    def skips_gaps(self, base_offset: int) -> bool:
        """True if reads continue after the missing records of a segment, because they cannot be repaired."""
        return base_offset in self.gaps_to_skip or not self._on_segment_damaged

    def skip_gaps(self, base_offset: int) -> None:
        """No replica has the records that are missing in the segment: reads continue behind them."""
        self.gaps_to_skip |= {base_offset}

    def keep_gaps(self, base_offset: int) -> None:
        """Stops reads from skipping missing records, because another replica may have them."""
        self.gaps_to_skip -= {base_offset}

    def forget_damage(self, base_offsets: Iterable[int]) -> None:
        """Forgets the damage of segments that were repaired or removed."""
        removed = frozenset(base_offsets)
        self.damaged_segments = {base: reason for base, reason in self.damaged_segments.items() if base not in removed}
        self.gaps_to_skip -= removed

    def take_offline(self, error: StorageError) -> None:
        """The directory failed elsewhere, or the log is closed or deleted."""
        if self.offline is None:
            self.offline = error

    def continue_from(self, former: LogFailures) -> None:
        """Continues in another directory. A batch that was refused before the move is still missing."""
        self._on_damage = former._on_damage
        self._on_segment_damaged = former._on_segment_damaged
        self._full_at = former._full_at
        self._full_logged_ms = former._full_logged_ms
