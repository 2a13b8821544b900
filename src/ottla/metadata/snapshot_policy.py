"""Decides when a snapshot is written: after a number of bytes of records, or after an interval.

A start replays the records since the last snapshot. Each restart of a broker changes all of its partitions, so the
records soon take longer than the snapshot itself. Therefore a snapshot is also written when the records since the last
one are about as large as the image, and not few. That bounds a start by the size of the image.

An image is immutable, so a worker encodes and writes the snapshot while the controller continues. At most one snapshot
is written at a time. If writing fails (a full disk), the log is still complete, and the next attempt follows later.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from ottla.metadata.image_records import image_values
from ottla.model.deferred import Deferred
from ottla.quorum.snapshots import SnapshotId

if TYPE_CHECKING:
    from ottla.metadata.delta import MetadataDelta
    from ottla.metadata.image import MetadataImage
    from ottla.model.config import BrokerConfig
    from ottla.model.ports import World
    from ottla.quorum.log import ReadableMetadataLog

__all__ = ["SnapshotPolicy", "write_image"]


# Fewer records are replayed in a moment.
RECORD_BYTES_MIN = 1 << 20
# A partition takes 70 to 130 bytes in a snapshot. Less than that, because topics that are created grow with the image.
PARTITION_BYTES = 50


class SnapshotPolicy:
    """A publisher that counts bytes and time; `metadata.log.max.*` are the limits."""

    __slots__ = (
        "_bytes_since",
        "_bytes_worth_it",
        "_config",
        "_is_held_back",
        "_last_ms",
        "_log",
        "_snapshot_bytes",
        "_world",
        "_writing",
        "last_error",
        "written",
    )

    def __init__(
        self,
        *,
        world: World,
        log: ReadableMetadataLog,
        config: BrokerConfig,
        bytes_since_snapshot: int,
        is_held_back: Callable[[], bool],
    ) -> None:
        self._world = world
        self._log = log
        self._config = config
        self._bytes_since = bytes_since_snapshot
        # True inside a metadata transaction: its records are not in the image, and the log before the snapshot may go.
        self._is_held_back = is_held_back
        self._last_ms = world.clock.now_ms()
        self._writing = False
        self._bytes_worth_it = RECORD_BYTES_MIN
        # The size of the last snapshot of this run: ACLs, configurations and long names count as well as partitions.
        self._snapshot_bytes = 0
        # Statistics: the number of snapshots since the start, and the error of the last attempt.
        self.written = 0
        self.last_error: BaseException | None = None

    def appended(self, size_bytes: int) -> None:
        self._bytes_since += size_bytes

    def publish(self, delta: MetadataDelta, image: MetadataImage) -> None:  # noqa: ARG002
        if self._writing or self._is_held_back():
            return
        interval_ms = self._config.metadata_log_max_snapshot_interval_ms
        now_ms = self._world.clock.now_ms()
        due = interval_ms > 0 and now_ms - self._last_ms >= interval_ms
        is_much = self._bytes_since >= self._config.metadata_log_max_record_bytes_between_snapshots
        if due or is_much or self._is_worth_it(image):
            self._write(image, now_ms)

    def _is_worth_it(self, image: MetadataImage) -> bool:
        """Whether the records since the last snapshot are about as large as the image."""
        if self._bytes_since >= self._bytes_worth_it:
            # Counted rarely, because there may be many topics.
            partitions = sum(len(topic.partitions) for topic in image.topics.by_name.values())
            self._bytes_worth_it = max(RECORD_BYTES_MIN, PARTITION_BYTES * partitions, self._snapshot_bytes // 2)
        return self._bytes_since >= self._bytes_worth_it

    def _write(self, image: MetadataImage, now_ms: int) -> None:
        self._writing = True
        self._bytes_since = 0
        self._bytes_worth_it = RECORD_BYTES_MIN
        self._last_ms = now_ms
        _write_values(self._log, image, self._counted(image_values(image))).when_done(self._on_written)

    def _counted(self, values: Iterator[bytes]) -> Iterator[bytes]:
        """Runs on the worker that writes."""
        size_bytes = 0
        for value in values:
            size_bytes += len(value)
            yield value
        self._snapshot_bytes = size_bytes

    def _on_written(self, outcome: Deferred[SnapshotId]) -> None:
        self._writing = False
        self.last_error = outcome.error
        if outcome.error is None:
            self.written += 1


def write_image(log: ReadableMetadataLog, image: MetadataImage) -> Deferred[SnapshotId]:
    """Writes a snapshot of this image."""
    return _write_values(log, image, image_values(image))


def _write_values(log: ReadableMetadataLog, image: MetadataImage, values: Iterator[bytes]) -> Deferred[SnapshotId]:
    return log.write_snapshot(
        end_offset=image.offset + 1,
        epoch=image.epoch,
        values=values,
        last_contained_timestamp_ms=image.timestamp_ms,
    )
