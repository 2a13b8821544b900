"""Which segments a log need not keep any longer.

By time: every record in the segment is older than `retention.ms`, going by the largest timestamp in it. By size: the
log without the segment still holds `retention.bytes`. By start: all its records lie below the log's start offset,
because somebody deleted them. Time and size hold only where `cleanup.policy` includes `delete`.

A segment goes as a whole, and from the oldest on, so a log keeps more than its limits say: with 100 MB a day, segments
of 1 GB and seven days' retention, up to 17 days. Nothing above the high watermark goes. The active segment stays as
long as one record in it is young enough; when all have expired it is closed first (a new one begins at the end), so
that a topic nobody writes to any more does not keep its last segment for ever.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator

from ottla.storage.log import PartitionLog
from ottla.storage.segment import Segment

__all__ = ["delete_expired", "expired_segments"]

logger = logging.getLogger(__name__)


def delete_expired(log: PartitionLog, now_ms: int) -> int:
    """Takes out what has expired; how many segments that were."""
    expired = expired_segments(log, now_ms)
    if expired:
        log.delete_segments(expired)
        logger.info(
            "%s: deleted %d segments, now begins at %d", log.topic_partition, len(expired), log.log_start_offset
        )
    return len(expired)


def expired_segments(log: PartitionLog, now_ms: int) -> list[Segment]:
    """The run of segments at the log's beginning that may go."""
    config = log.config
    found: list[Segment] = []
    if "delete" in config.cleanup_policy:
        if config.retention_ms >= 0:
            limit = now_ms - config.retention_ms
            found = _run(log, lambda segment: segment.largest_timestamp < limit)
        if config.retention_bytes >= 0:
            excess = log.size_bytes - config.retention_bytes
            by_size: list[Segment] = []
            for segment in _removable(log):
                if excess < segment.size:
                    break
                excess -= segment.size
                by_size.append(segment)
            found = max(found, by_size, key=len)
    by_start = _run(log, lambda segment: _end_of(log, segment) <= log.log_start_offset and segment is not _active(log))
    return max(found, by_start, key=len)


def _run(log: PartitionLog, is_expired: Callable[[Segment], bool]) -> list[Segment]:
    found: list[Segment] = []
    for segment in _removable(log):
        if not is_expired(segment):
            break
        found.append(segment)
    return found


def _removable(log: PartitionLog) -> Iterator[Segment]:
    for segment in log.segments:
        if _end_of(log, segment) > log.high_watermark or (segment is _active(log) and segment.size == 0):
            return
        yield segment


def _end_of(log: PartitionLog, segment: Segment) -> int:
    following = log.segments.after(segment)
    return log.log_end_offset if following is None else following.base_offset


def _active(log: PartitionLog) -> Segment:
    return log.segments.active
