"""The time index: 12 bytes (timestamp, offset relative to the segment's base), an entry for each offset-index entry at
which the largest timestamp so far had grown, and one more when the segment closes. It says: nothing up to this offset
is younger than the timestamp."""

from __future__ import annotations

from struct import Struct
from typing import NamedTuple

from ottla.storage.index_file import IndexFile
from ottla.storage.open_files import OpenFiles

__all__ = ["TimeIndex", "TimestampOffset"]


class TimestampOffset(NamedTuple):
    timestamp: int
    offset: int


class TimeIndex(IndexFile):
    __slots__ = ("_last",)

    ENTRY = Struct(">qi")

    def __init__(self, path: str, base_offset: int, pool: OpenFiles, *, is_new: bool = False) -> None:
        super().__init__(path, base_offset, pool, is_new=is_new)
        self._last: TimestampOffset | None = None

    def append(self, timestamp: int, offset: int) -> None:
        """Adds an entry if the timestamp is larger than that of the last entry."""
        last = self._last or self.last()
        if timestamp > last[0]:
            self.append_entry(timestamp, offset - self.base_offset)
            self._last = TimestampOffset(timestamp, offset)

    def last(self, *, may_wait: bool = True) -> TimestampOffset:
        """Raises NotCached if entries have to be read from the disk, unless it `may_wait`."""
        if self._last is None:
            count = self.count_entries(may_wait=may_wait)
            if count == 0:
                return TimestampOffset(-1, self.base_offset)
            timestamp, relative = self.entry(count - 1, may_wait=may_wait)
            self._last = TimestampOffset(timestamp, self.base_offset + relative)
        return self._last

    def truncate_entries(self, count: int) -> None:
        self._last = None
        super().truncate_entries(count)

    def reset(self) -> None:
        self._last = None
        super().reset()

    def lookup(self, timestamp: int, *, may_wait: bool = True) -> TimestampOffset:
        """The last entry at or before `timestamp`, or the beginning of the segment.

        Raises NotCached if entries have to be read from the disk, unless it `may_wait`.
        """
        number = self.search(0, timestamp, may_wait=may_wait)
        if number < 0:
            return TimestampOffset(-1, self.base_offset)
        entry_timestamp, relative = self.entry(number)
        return TimestampOffset(entry_timestamp, self.base_offset + relative)

    def truncate_to(self, offset: int) -> None:
        """Removes the entries at and above `offset`."""
        self.truncate_entries(self.search(1, offset - self.base_offset - 1) + 1)
