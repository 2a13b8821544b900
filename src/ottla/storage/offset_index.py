"""The sparse offset index: 8 bytes (offset relative to the segment's base, position of the batch) for every
`index.interval.bytes` of log. The offset is the last one of the batch that begins at the position."""

from __future__ import annotations

from struct import Struct

from ottla.storage.index_file import IndexFile

__all__ = ["OffsetIndex"]


class OffsetIndex(IndexFile):
    __slots__ = ()

    ENTRY = Struct(">ii")

    def append(self, offset: int, position: int) -> None:
        self.append_entry(offset - self.base_offset, position)

    def lookup(self, offset: int, *, may_wait: bool = True) -> tuple[int, int]:
        """Offset and position of the last entry at or below `offset`, or the beginning of the segment."""
        number = self.search(0, offset - self.base_offset, may_wait=may_wait)
        if number < 0:
            return self.base_offset, 0
        relative, position = self.entry(number)
        return self.base_offset + relative, position

    def last(self) -> tuple[int, int]:
        count = self.entry_count
        if count == 0:
            return self.base_offset, 0
        relative, position = self.entry(count - 1)
        return self.base_offset + relative, position

    def boundary_at_most(self, position: int, *, may_wait: bool = True) -> int:
        """The last indexed batch position at or before `position`; 0 if there is none."""
        number = self.search(1, position, may_wait=may_wait)
        return 0 if number < 0 else int(self.entry(number)[1])

    def truncate_to(self, offset: int) -> None:
        """Removes the entries of batches that contain `offset` or later offsets."""
        self.truncate_entries(self.search(0, offset - self.base_offset - 1) + 1)
