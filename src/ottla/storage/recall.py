"""Reads batches of a producer from the log that its snapshot does not contain.

A log keeps the last five batches of every producer in memory, to detect duplicates. A snapshot in Kafka's format has
only the last batch. A producer with several batches in flight, all appended and none acknowledged before a restart,
repeats the oldest batch first. If that is refused as out of order, the producer treats the batch as lost and may write
it again in a new epoch, as a duplicate. So the log is read before the first refusal after a restart, and only then.
"""

from __future__ import annotations

from collections.abc import Iterator

from ottla.records.header import BatchHeader
from ottla.storage.producer_state import ProducerEntry
from ottla.storage.scan import scan_headers
from ottla.storage.segment import Segment
from ottla.storage.segments import Segments

__all__ = ["LOOKED_AT_BYTES_MAX", "recall_batches"]

# The bytes before the end in which headers are read. Batches that were in flight are near the end of the log.
LOOKED_AT_BYTES_MAX = 4 << 20
SEGMENTS_MAX = 10


def recall_batches(segments: Segments, entry: ProducerEntry) -> None:
    """Adds earlier batches of the entry's epoch, as many as an entry keeps. Raises OSError with nothing changed."""
    if not entry.batches:
        entry.recall()
        return
    first_offset = entry.batches[0].first_offset
    segment = segments[segments.number_of(first_offset)]
    place = segment.find(first_offset)
    if place is None:
        entry.recall()
        return
    older = ProducerEntry(entry.producer_id, epoch=entry.epoch)
    for _, header in _headers_before(segments, segment, place[0]):
        if header.producer_id == entry.producer_id and header.producer_epoch == entry.epoch and not header.is_control:
            older.add(header)
    entry.recall(older.batches)


def _headers_before(segments: Segments, segment: Segment, end: int) -> Iterator[tuple[int, BatchHeader]]:
    """The headers in the last megabytes before a position, oldest first, also from earlier segments."""
    ranges: list[tuple[Segment, int, int]] = []
    remaining = LOOKED_AT_BYTES_MAX
    number = segments.number_of(segment.base_offset)
    while remaining > 0 and number >= 0 and len(ranges) < SEGMENTS_MAX:
        start = segment.boundary_at_most(end - remaining) if end > remaining else 0
        ranges.append((segment, start, end))
        remaining -= end - start
        number -= 1
        if number >= 0:
            segment = segments[number]
            end = segment.size
    for part, start, stop in reversed(ranges):
        yield from scan_headers(part.file, start, stop)
