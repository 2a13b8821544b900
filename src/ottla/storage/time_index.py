"""The time index: 12 bytes (timestamp, offset relative to the segment's base), an entry for each offset-index entry at
which the largest timestamp so far had grown, and one more when the segment closes. It says: nothing up to this offset
is younger than the timestamp."""

from __future__ import annotations

from struct import Struct
from typing import NamedTuple

from ottla.storage.index_file import IndexFile

__all__ = ["TimeIndex", "TimestampOffset"]


class TimestampOffset(NamedTuple):
    timestamp: int
    offset: int


class TimeIndex(IndexFile):
    __slots__ = ()

    ENTRY = Struct(">qi")

    def is_full(self, bytes_max: int) -> bool:
        # One place stays free for the entry that closes the segment.
        return self.entry_count >= bytes_max // self.ENTRY.size - 1

    def append(self, timestamp: int, offset: int) -> None:
        """Adds an entry when time has moved on since the last one."""
        if timestamp > self.last().timestamp:
            self.append_entry(timestamp, offset - self.base_offset)

    def last(self) -> TimestampOffset:
        count = self.entry_count
        if count == 0:
            return TimestampOffset(-1, self.base_offset)
        timestamp, relative = self.entry(count - 1)
        return TimestampOffset(timestamp, self.base_offset + relative)

    def lookup(self, timestamp: int) -> TimestampOffset:
        """The last entry at or before `timestamp`, or the segment's beginning."""
        number = self.search(0, timestamp)
        if number < 0:
            return TimestampOffset(-1, self.base_offset)
        found, relative = self.entry(number)
        return TimestampOffset(found, self.base_offset + relative)

    def truncate_to(self, offset: int) -> None:
        """Drops the entries at `offset` and beyond."""
        self.truncate_entries(self.search(1, offset - self.base_offset - 1) + 1)
