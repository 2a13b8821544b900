"""Lookups in the segments of a log: the region of a read, and aborted transactions."""

from __future__ import annotations

from typing import NamedTuple

from ottla.model.ports import FileRegion
from ottla.storage.errors import CorruptLog
from ottla.storage.scan import read_header_at, scan_headers
from ottla.storage.segment import Segment
from ottla.storage.segments import Segments
from ottla.storage.transaction_index import AbortedTransaction

__all__ = ["ReadResult", "aborted_in_read", "aborted_transactions", "read_batches"]


class ReadResult(NamedTuple):
    region: FileRegion | None
    """Whole batches, beginning with the batch that contains the requested offset; None if there is none."""
    segment_base_offset: int
    position: int
    """The position in the segment where the read begins."""


def read_batches(
    segments: Segments,
    recent: dict[int, int],
    offset: int,
    max_bytes: int,
    end_offset: int,
    log_end_offset: int,
    at_least_one_batch: bool,
    may_wait: bool,
) -> ReadResult:
    """Whole batches from the batch that contains `offset`, below `end_offset`: see `PartitionLog.read`.

    `recent` maps base offsets to positions for the last batches of the active segment.
    """
    segment = segments.active
    position = recent.get(offset)
    if position is None:
        if offset < segment.base_offset:
            segment = segments[segments.number_of(offset)]
        position = segment.noted_start(offset)
    if position is None:
        place = segment.find(offset, may_wait=may_wait)
        while place is None:
            # Compaction may have left the end of a segment empty.
            following = segments.after(segment)
            if following is None:
                return ReadResult(None, segment.base_offset, segment.size)
            segment = following
            place = segment.find(offset, may_wait=may_wait)
        position = place[0]
    end = segment.size
    if end_offset != log_end_offset:
        end = _position_of_end(segments, recent, segment, end_offset, may_wait=may_wait)
    length = end - position
    if length > max_bytes:
        length = _cut_to_batches(
            segment, position, end, max_bytes=max_bytes, at_least_one_batch=at_least_one_batch, may_wait=may_wait
        )
    if length <= 0:
        return ReadResult(None, segment.base_offset, position)
    return ReadResult(FileRegion(segment.file, position, length), segment.base_offset, position)


def _position_of_end(
    segments: Segments, recent: dict[int, int], segment: Segment, end_offset: int, *, may_wait: bool
) -> int:
    """The position of the batch of `end_offset`, or the segment's end where a later segment holds that batch."""
    if segment is segments.active:
        position = recent.get(end_offset)
        if position is not None:
            return position
    else:
        following = segments.after(segment)
        if following is not None and following.base_offset <= end_offset:
            return segment.size
    place = segment.find(end_offset, may_wait=may_wait)
    return segment.size if place is None else place[0]


def _cut_to_batches(
    segment: Segment, position: int, end: int, *, max_bytes: int, at_least_one_batch: bool, may_wait: bool
) -> int:
    """The length of the whole batches from `position` that fit into `max_bytes`."""
    boundary = segment.boundary_at_most(position + max_bytes, may_wait=may_wait)
    if boundary > position and _is_batch_start(segment, boundary, end, may_wait=may_wait):
        return boundary - position
    length = 0
    for place, header in scan_headers(segment.file, position, end, may_wait=may_wait):
        fits = place + header.size - position
        if fits > max_bytes:
            if length == 0:
                return header.size if at_least_one_batch else 0
            segment.note_read_end(place, header)
            break
        length = fits
    return length


def aborted_transactions(
    segments: Segments, start: int, end: int, *, may_wait: bool = True
) -> list[AbortedTransaction]:
    """The aborted transactions with records in [start, end)."""
    aborted: list[AbortedTransaction] = []
    for segment in segments.from_offset(start):
        for entry in segment.transaction_index.entries_from(start, may_wait=may_wait):
            if entry.first_offset < end:
                aborted.append(entry)
            if entry.last_stable_offset >= end:
                return aborted
    return aborted


def aborted_in_read(
    segments: Segments, read: ReadResult, *, start: int, end_offset: int, may_wait: bool
) -> list[AbortedTransaction]:
    """The aborted transactions of a read from `start`, without those behind the end of the read."""
    if not any(
        True
        for segment in segments.from_offset(start)
        for _ in segment.transaction_index.entries_from(start, may_wait=may_wait)
    ):
        return []
    end = _end_of_read(segments, read, end_offset, may_wait=may_wait)
    return aborted_transactions(segments, start, end, may_wait=may_wait)


def _end_of_read(segments: Segments, read: ReadResult, end_offset: int, *, may_wait: bool) -> int:
    """The first offset after the read."""
    assert read.region is not None
    segment = segments[segments.number_of(read.segment_base_offset)]
    position = read.position + len(read.region)
    if position < segment.size:
        return read_header_at(segment.file, position, segment.size, may_wait=may_wait).base_offset
    following = segments.after(segment)
    return end_offset if following is None else min(following.base_offset, end_offset)


def _is_batch_start(segment: Segment, position: int, end: int, *, may_wait: bool) -> bool:
    """True if the position from the index is a batch boundary in the log."""
    if position >= end:
        return position == end
    try:
        header = read_header_at(segment.file, position, segment.size, may_wait=may_wait)
    except CorruptLog:
        return False
    if header.base_offset < segment.base_offset:
        return False
    segment.note_read_end(position, header)
    return True
