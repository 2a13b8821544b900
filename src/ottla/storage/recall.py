"""Batches of a producer that its snapshot has forgotten, looked up in the log.

A log remembers the last five batches of every producer, to recognise what is sent again; a snapshot, in Kafka's format,
only the last one. A producer with several batches in flight, all written and none answered before a restart, repeats
the oldest first. Refused as out of order, it takes the batch for lost and may write it once more under a new epoch: a
duplicate. So before the first refusal after a restart the log itself is asked. Nothing is read in any other case.
"""

from __future__ import annotations

from collections.abc import Iterator

from ottla.records.header import BatchHeader
from ottla.storage.producer_state import ProducerEntry
from ottla.storage.scan import scan_headers
from ottla.storage.segment import Segment
from ottla.storage.segments import Segments

__all__ = ["LOOKED_AT_BYTES_MAX", "recall_batches"]

# How far back the log is read, headers only; the batches in flight at the end of a run are near its end.
LOOKED_AT_BYTES_MAX = 4 << 20
SEGMENTS_MAX = 10


def recall_batches(segments: Segments, entry: ProducerEntry) -> None:
    """Gives the entry back the batches of its epoch before those it knows, as many as are kept."""
    entry.recall()
    if not entry.batches:
        return
    first_offset = entry.batches[0].first_offset
    segment = segments[segments.number_of(first_offset)]
    place = segment.find(first_offset)
    if place is None:
        return
    older = ProducerEntry(entry.producer_id, epoch=entry.epoch)
    for _, header in _headers_before(segments, segment, place[0]):
        if header.producer_id == entry.producer_id and header.producer_epoch == entry.epoch and not header.is_control:
            older.add(header)
    entry.recall(older.batches)


def _headers_before(segments: Segments, segment: Segment, end: int) -> Iterator[tuple[int, BatchHeader]]:
    """Those of the last megabytes before a position, oldest first; they may begin in a segment before this one."""
    ranges: list[tuple[Segment, int, int]] = []
    left = LOOKED_AT_BYTES_MAX
    number = segments.number_of(segment.base_offset)
    while left > 0 and number >= 0 and len(ranges) < SEGMENTS_MAX:
        start = segment.boundary_at_most(end - left) if end > left else 0
        ranges.append((segment, start, end))
        left -= end - start
        number -= 1
        if number >= 0:
            segment = segments[number]
            end = segment.size
    for part, start, stop in reversed(ranges):
        yield from scan_headers(part.file, start, stop)
