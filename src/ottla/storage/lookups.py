"""Questions to a log that look into its segments: where to read from, what happened when, what was aborted."""

from __future__ import annotations

from typing import NamedTuple

from ottla.model.ports import FileRegion
from ottla.records.iterate import Batch, iterate_records
from ottla.storage.errors import CorruptLog
from ottla.storage.scan import read_header_at, scan_headers
from ottla.storage.segment import Segment
from ottla.storage.segments import Segments
from ottla.storage.time_index import TimestampOffset
from ottla.storage.transaction_index import AbortedTransaction

__all__ = ["ReadResult", "aborted_transactions", "cut_to_batches", "find_timestamp", "max_timestamp_record"]


class ReadResult(NamedTuple):
    region: FileRegion | None
    """Whole batches, beginning with the one that holds the offset asked for; None when there is nothing to read."""
    segment_base_offset: int
    position: int
    """Where in the segment the read begins."""


def cut_to_batches(segment: Segment, position: int, end: int, *, max_bytes: int, at_least_one_batch: bool) -> int:
    """The length of the whole batches from `position` that fit into `max_bytes`, which `end - position` does not."""
    boundary = segment.boundary_at_most(position + max_bytes)
    if boundary > position and _is_batch_start(segment, boundary, end):
        return boundary - position
    length = 0
    for place, header in scan_headers(segment.file, position, end):
        fits = place + header.size - position
        if fits > max_bytes:
            return header.size if at_least_one_batch and length == 0 else length
        length = fits
    return length


def find_timestamp(segments: Segments, timestamp: int, *, log_start_offset: int) -> TimestampOffset | None:
    """The first record at or after the log's start whose timestamp is at least `timestamp`."""
    for segment in segments.from_offset(log_start_offset):
        if segment.size == 0 or segment.largest.timestamp < timestamp:
            continue
        from_offset = max(segment.base_offset, log_start_offset)
        while True:
            place = segment.find_timestamp(timestamp, from_offset=from_offset)
            if place is None:
                break
            position, header = place
            batch = memoryview(segment.file.read(position, header.size))
            for record in iterate_records(Batch(header, 0, batch)):
                if record.timestamp >= timestamp and record.offset >= log_start_offset:
                    return TimestampOffset(record.timestamp, record.offset)
            # The batch's youngest record lies before the log's start: go on behind it.
            from_offset = header.next_offset
    return None


def max_timestamp_record(segments: Segments, *, log_start_offset: int) -> TimestampOffset | None:
    """The first record that carries the log's largest timestamp (KIP-734)."""
    live = [segment for segment in segments.from_offset(log_start_offset) if segment.size]
    best = max(live, key=lambda segment: segment.largest.timestamp, default=None)
    if best is None or best.largest.timestamp < 0:
        return None
    found = find_timestamp(segments, best.largest.timestamp, log_start_offset=log_start_offset)
    if found is not None:
        return found
    # The youngest record was deleted with DeleteRecords but its segment is still there: count what is left.
    youngest: TimestampOffset | None = None
    for segment in live:
        place = segment.find(max(segment.base_offset, log_start_offset))
        if place is None:
            continue
        for position, header in scan_headers(segment.file, place[0], segment.size):
            if youngest is not None and header.max_timestamp <= youngest.timestamp:
                continue
            for record in iterate_records(Batch(header, 0, memoryview(segment.file.read(position, header.size)))):
                if record.offset >= log_start_offset and (youngest is None or record.timestamp > youngest.timestamp):
                    youngest = TimestampOffset(record.timestamp, record.offset)
    return youngest


def aborted_transactions(segments: Segments, start: int, end: int) -> list[AbortedTransaction]:
    """The aborted transactions with records in [start, end)."""
    found: list[AbortedTransaction] = []
    for segment in segments.from_offset(start):
        for entry in segment.transaction_index.entries():
            if entry.last_offset >= start and entry.first_offset < end:
                found.append(entry)
            if entry.last_stable_offset >= end:
                return found
    return found


def _is_batch_start(segment: Segment, position: int, end: int) -> bool:
    """Whether an index's word for a batch boundary can be believed."""
    if position >= end:
        return position == end
    try:
        return read_header_at(segment.file, position, segment.size).base_offset >= segment.base_offset
    except CorruptLog:
        return False
