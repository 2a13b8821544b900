"""Timestamps of one segment: the search for the largest timestamp, and the positions to search for a time.

The positions come from the time index. It has no checksum, so the batch of an entry is compared with it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.storage.scan import scan_headers
from ottla.storage.time_index import TimestampOffset

if TYPE_CHECKING:
    from ottla.storage.segment import Segment

__all__ = ["NO_TIMESTAMP", "LargestSearch", "position_for_timestamp"]

NO_TIMESTAMP = TimestampOffset(-1, -1)


class LargestSearch:
    """The search for the largest timestamp of a segment, in the last time index entry and the batches after it.

    A search that may not wait for the disk raises NotCached, and the next call continues at the same position. A search
    that restarts from the beginning would take the square of a segment's length.
    """

    __slots__ = ("_largest", "_position")

    def __init__(self, segment: Segment, *, may_wait: bool) -> None:
        # The last batch that was read, or the first to read, and the largest timestamp so far.
        self._position, self._largest = _last_indexed(segment, may_wait=may_wait)

    def finish(self, segment: Segment, *, may_wait: bool) -> TimestampOffset:
        for position, header in scan_headers(segment.file, self._position, segment.size, may_wait=may_wait):
            self._position = position
            if header.max_timestamp > self._largest.timestamp:
                self._largest = TimestampOffset(header.max_timestamp, header.last_offset)
        return self._largest


def _last_indexed(segment: Segment, *, may_wait: bool) -> tuple[int, TimestampOffset]:
    """The position of the last time index entry's batch, and the entry; the beginning if they do not match."""
    last = segment.time_index.last(may_wait=may_wait)
    place = segment.find(last.offset, may_wait=may_wait) if last.timestamp >= 0 else None
    if place is not None and place[1].max_timestamp == last.timestamp:
        return place[0], last
    return 0, NO_TIMESTAMP


def position_for_timestamp(segment: Segment, timestamp: int, *, from_offset: int, may_wait: bool) -> int | None:
    """The position from which to scan for the first recent enough batch at or after `from_offset`.

    Raises NotCached if indexes or headers have to be read from the disk, unless it `may_wait`.
    """
    first = max(from_offset, _trusted_entry(segment, timestamp, may_wait=may_wait).offset)
    place = segment.find(first, may_wait=may_wait)
    return None if place is None else place[0]


def _trusted_entry(segment: Segment, timestamp: int, *, may_wait: bool) -> TimestampOffset:
    """The index entry, if its batch has that timestamp; otherwise the beginning of the segment."""
    entry = segment.time_index.lookup(timestamp - 1, may_wait=may_wait)
    if entry.timestamp < 0:
        return entry
    place = segment.find(entry.offset, may_wait=may_wait)
    if place is not None and place[1].max_timestamp == entry.timestamp:
        return entry
    segment.mend_indexes()
    return TimestampOffset(-1, segment.base_offset)
