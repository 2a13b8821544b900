"""Reads of logs with damaged closed segments: damaged bytes are not served, and no record is skipped in silence."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.model.ports import FileRegion
from ottla.storage.errors import CorruptLog, StorageError
from ottla.storage.lookups import ReadResult
from ottla.storage.names import offset_of_file
from ottla.storage.scan import scan_checked

if TYPE_CHECKING:
    from ottla.storage.log import PartitionLog

__all__ = ["check_read", "note_corrupt"]


def check_read(log: PartitionLog, offset: int, read: ReadResult) -> ReadResult:
    """The result of a read that begins in a later segment than `offset`, or of a log with damaged segments.

    Raises StorageError if records are missing at `offset`, unless no replica has them. In a damaged segment, the result
    ends before the first damaged batch. Raises CorruptLog if that is the first batch of the read.
    """
    failures, region = log.files.failures, read.region
    if region is None:
        return read
    base_offset = log.segments[log.segments.number_of(offset)].base_offset
    if base_offset < read.segment_base_offset and (base_offset in failures.damaged_segments or not log.may_have_gaps):
        failures.note_damaged(base_offset, f"it has no record at offset {offset}")
        if not failures.skips_gaps(base_offset):
            raise StorageError(f"{log.topic_partition} has lost the record at offset {offset}: its segment is damaged")
    if read.segment_base_offset not in failures.damaged_segments:
        return read
    end = region.position
    for batch in scan_checked(region.file, region.position, region.position + region.length):
        end = batch.position + batch.header.size
    if end == region.position:
        raise CorruptLog(f"{region.file.path} is damaged at position {end}", region.file.path)
    return read._replace(region=FileRegion(region.file, region.position, end - region.position))


def note_corrupt(log: PartitionLog, offset: int, error: CorruptLog) -> None:
    """A read from `offset` came upon bytes that are no record batch."""
    base_offset = offset_of_file(error.path.rpartition("/")[2])
    if base_offset is None:
        base_offset = log.segments[log.segments.number_of(offset)].base_offset
    log.files.failures.note_damaged(base_offset, error.message)
