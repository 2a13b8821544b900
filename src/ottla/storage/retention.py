"""Retention: which segments of a log are deleted.

By time: the largest timestamp of the segment is older than `retention.ms`. By size: the log without the segment still
has `retention.bytes`. By start offset: all records of the segment are below the log start offset, after DeleteRecords.
Time and size apply only if `cleanup.policy` contains `delete`.

Segments are deleted as a whole and from the oldest on, so a log keeps more than its limits: with 100 MB a day, segments
of 1 GB and a retention of seven days, up to 17 days. Nothing above the high watermark is deleted. The active segment
stays as long as one of its records is recent enough. When all have expired it rolls first, so that a topic without new
records does not keep its last segment for ever.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator

from ottla.storage.log import PartitionLog
from ottla.storage.segment import Segment

__all__ = ["delete_expired", "expired_segments"]

logger = logging.getLogger(__name__)


def delete_expired(log: PartitionLog, now_ms: int, *, may_wait: bool = True) -> int:
    """Deletes expired segments. Returns their number.

    Raises NotCached with nothing changed if timestamps have to be read from the disk, unless it `may_wait`.
    """
    expired = expired_segments(log, now_ms, may_wait=may_wait)
    active = _active(log)
    # The active segment rolls before it is deleted, which a full disk may refuse: closed segments make room first.
    _delete(log, [segment for segment in expired if segment is not active])
    _delete(log, [segment for segment in expired if segment is active])
    return len(expired)


def _delete(log: PartitionLog, segments: list[Segment]) -> None:
    if segments:
        log.delete_segments(segments)
        logger.info(
            "%s: deleted %d segments, log start offset is %d", log.topic_partition, len(segments), log.log_start_offset
        )


def expired_segments(log: PartitionLog, now_ms: int, *, may_wait: bool = True) -> list[Segment]:
    """The segments at the log's beginning that may be deleted."""
    config = log.config
    expired: list[Segment] = []
    if "delete" in config.cleanup_policy:
        if config.retention_ms >= 0:
            limit = now_ms - config.retention_ms
            expired = _run(log, lambda segment: segment.largest_timestamp(may_wait=may_wait) < limit)
        if config.retention_bytes >= 0:
            excess = log.size_bytes - config.retention_bytes
            by_size: list[Segment] = []
            for segment in _removable(log):
                if excess < segment.size:
                    break
                excess -= segment.size
                by_size.append(segment)
            expired = max(expired, by_size, key=len)
    by_start = _run(log, lambda segment: _end_of(log, segment) <= log.log_start_offset and segment is not _active(log))
    return max(expired, by_start, key=len)


def _run(log: PartitionLog, is_expired: Callable[[Segment], bool]) -> list[Segment]:
    expired: list[Segment] = []
    for segment in _removable(log):
        if not is_expired(segment):
            break
        expired.append(segment)
    return expired


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
