"""Checks every byte of a closed segment: checksums, offsets, the end of the file, and the offset index.

Base offset and leader epoch are outside of a batch's checksum. Without compaction the offsets have no gaps, so that a
damaged base offset shows.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from ottla.model.ports import Files
from ottla.records.iterate import Batch
from ottla.storage.errors import CorruptLog
from ottla.storage.names import INDEX_SUFFIX, LOG_SUFFIX
from ottla.storage.offset_index import OffsetIndex
from ottla.storage.scan import scan_all, scan_checked

if TYPE_CHECKING:
    from ottla.storage.segment import Segment

__all__ = ["Damage", "SegmentCheck", "check_segment", "tail_is_intact"]


class Damage(NamedTuple):
    """The damage of a segment, and the offsets that may be affected: at least the first offset in a last segment."""

    reason: str
    first_offset: int
    last_offset: int


class SegmentCheck:
    """The check of one segment in steps. May run on worker threads, one step at a time.

    `size` is the size that the file must have, and `end_offset` the offset at which the next segment begins, if there
    is one. `damages` is complete when `step` has returned 0, and `next_offset` is then the offset after the last batch.
    `index_damage` describes an entry of the offset index that does not match.
    """

    def __init__(
        self, files: Files, path: str, base_offset: int, *, size: int, end_offset: int | None, may_have_gaps: bool
    ) -> None:
        self._files = files
        self._path = path
        self._size = size
        self._base_offset = base_offset
        self._end_offset = end_offset
        self.next_offset = base_offset
        self._may_have_gaps = may_have_gaps
        self.damages: list[Damage] = []
        self.index_damage: str | None = None
        self._work = self._run()

    def step(self, bytes_max: int) -> int:
        """Reads about `bytes_max` bytes; returns how many it were, and 0 at the end. Raises OSError."""
        done = 0
        for size in self._work:
            done += size
            if done >= bytes_max:
                break
        return done

    def _run(self) -> Iterator[int]:
        file = self._files.open(self._path, create=False)
        try:
            entries = self._index_entries()
            if file.size < self._size:
                self._add(f"the file has {file.size} of {self._size} bytes", self.next_offset, self._end_offset)
            try:
                for batch, is_intact in scan_all(file, 0, min(file.size, self._size)):
                    if not self._check_batch(batch, entries, is_intact=is_intact):
                        return
                    yield batch.header.size
            except CorruptLog as error:
                self._add(error.message, self.next_offset, self._end_offset)
                return
            if self._end_offset is not None and self.next_offset < self._end_offset and not self._may_have_gaps:
                self._add("its last records are missing", self.next_offset, self._end_offset)
            if entries and self.index_damage is None:
                self.index_damage = f"its offset index has an entry for position {min(entries)}, where no batch begins"
        finally:
            file.close()

    def _check_batch(self, batch: Batch, entries: dict[int, int], *, is_intact: bool) -> bool:
        """Returns whether the next batch can be found."""
        header, position, expected = batch.header, batch.position, self.next_offset
        end_offset = self._end_offset
        if header.base_offset < expected or (end_offset is not None and header.next_offset > end_offset):
            self._add(f"an offset is wrong at position {position}", expected, end_offset)
            return False
        if header.base_offset > expected and not self._may_have_gaps and header.magic == 2:
            self._add(f"records are missing before position {position}", expected, header.base_offset)
        if not is_intact:
            reason = f"the checksum of the batch at position {position} is wrong"
            self._add(reason, header.base_offset, header.next_offset)
        indexed = entries.pop(position, header.last_offset)
        if indexed != header.last_offset:
            self.index_damage = f"its offset index has offset {indexed} at position {position}"
        self.next_offset = header.next_offset
        return True

    def _add(self, reason: str, first_offset: int, end_offset: int | None) -> None:
        last_offset = first_offset if end_offset is None else end_offset - 1
        self.damages.append(Damage(reason, first_offset, last_offset))

    def _index_entries(self) -> dict[int, int]:
        """Offsets by position."""
        path = self._path.removesuffix(LOG_SUFFIX) + INDEX_SUFFIX
        data = self._files.read_bytes(path) if self._files.exists(path) else b""
        whole = len(data) - len(data) % OffsetIndex.ENTRY.size
        return {
            position: self._base_offset + relative
            for relative, position in OffsetIndex.ENTRY.iter_unpack(data[:whole])
            # An index that was preallocated ends with zeros.
            if position or relative
        }


def check_segment(check: SegmentCheck) -> SegmentCheck:
    """Runs the check to its end. Raises OSError."""
    while check.step(1 << 30):
        pass
    return check


def tail_is_intact(segment: Segment) -> bool:
    """True if the batches after the last index entry match their checksums, up to the last byte."""
    position = segment.offset_index.last()[1]
    if not 0 <= position <= segment.size:
        return False
    for batch in scan_checked(segment.file, position, segment.size):
        position = batch.position + batch.header.size
    return position == segment.size
