"""Rows by key and time, in segments of time: in memory, or over a table on disk.

A segment has the rows of a span of time, and expires as a whole. A cell has the rows of one key in one segment, by
their places: the bytes behind the key in the changelog. Over a table, a cell is read when it is needed first, and may
be dropped later.

The key of a row in the table: the number of the segment (8 bytes), the length of the key (4 bytes), and the key of the
changelog. So the rows of a cell are neighbours, and old segments come first.
"""

from __future__ import annotations

import struct
from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ottla.streams.state.table import StoreChanges, Table

__all__ = ["SEGMENT_PREFIX_BYTES", "SegmentedRows", "segment_prefixes"]

# (start of a window, sequence number), or (end of a session, its start).
Place = tuple[int, int]
Cell = dict[Place, Any]

_PREFIX = struct.Struct(">qi")
SEGMENT_PREFIX_BYTES = _PREFIX.size
_LONG = struct.Struct(">q")
# The memory of a cell, and of a row in it, beyond their bytes.
_CELL_BYTES = 340
_ROW_BYTES = 220


class _Segment:
    __slots__ = ("cells", "is_stored", "number")

    def __init__(self, number: int, *, is_stored: bool) -> None:
        self.number = number
        # None: the table has no rows of the key.
        self.cells: dict[bytes, Cell | None] = {}
        self.is_stored = is_stored


class SegmentedRows:
    """`suffix` packs a place as the changelog does; `pack` and `unpack` turn a content into bytes and back."""

    def __init__(
        self,
        segment_ms: int,
        suffix: struct.Struct,
        pack: Callable[[Any], bytes],
        unpack: Callable[[bytes], Any],
    ) -> None:
        self.segment_ms = max(1, segment_ms)
        self._suffix = suffix
        self._pack = pack
        self._unpack = unpack
        self._segments: dict[int, _Segment] = {}
        self._numbers: list[int] = []
        self._table: Table | None = None
        # Rows that changed since the last local commit, and the cells that a local commit is writing.
        self._dirty: dict[tuple[int, bytes, Place], None] = {}
        self._writing: set[tuple[int, bytes]] = set()
        self._writing_rows = 0
        self._rows = 0
        self._content_bytes = 48

    # Reading.

    def get(self, key: bytes, place: Place) -> Any:
        """The content at a place, whose first number is its time; None if there is none."""
        segment = self._segments.get(place[0] // self.segment_ms)
        if segment is None:
            return None
        cell = segment.cells.get(key)
        if cell is None:
            if not segment.is_stored or key in segment.cells:
                return None
            cell = self._load(segment, key)
        return None if cell is None else cell.get(place)

    def of_key(self, key: bytes, first: int, last: int) -> list[tuple[Place, Any]]:
        """The rows of a key between two times, both included, in the order of their places."""
        key_rows: list[tuple[Place, Any]] = []
        for segment in self._between(first, last):
            cell = self._cell(segment, key)
            if cell is not None:
                rows = sorted(cell.items()) if len(cell) > 1 else cell.items()
                key_rows += [row for row in rows if first <= row[0][0] <= last]
        return key_rows

    def of_keys(self, keys: list[bytes], first: int, last: int) -> tuple[list[int], list[Place], list[Any]]:
        """As `of_key` for many keys: the number of each row's key, its place and its content."""
        numbers: list[int] = []
        places: list[Place] = []
        contents: list[Any] = []
        for segment in self._between(first, last):
            if not segment.is_stored and not segment.cells:
                continue
            for number, key in enumerate(keys):
                cell = self._cell(segment, key)
                if cell is None:
                    continue
                for place, content in sorted(cell.items()) if len(cell) > 1 else cell.items():
                    if first <= place[0] <= last:
                        numbers.append(number)
                        places.append(place)
                        contents.append(content)
        return numbers, places, contents

    def scan(self, first: int, last: int) -> Iterator[list[tuple[bytes, Place, Any]]]:
        """All rows between two times, both included: a list for each segment, without an order."""
        for segment in list(self._between(first, last)):
            yield [row for row in self._of_segment(segment) if first <= row[1][0] <= last]

    # Writing.

    def put(self, key: bytes, place: Place, content: Any) -> None:
        number = place[0] // self.segment_ms
        segment = self._segments.get(number) or self._add_segment(number)
        cell = self._cell(segment, key)
        if cell is None:
            cell = segment.cells[key] = {}
        if place not in cell:
            self._rows += 1
        cell[place] = content
        if self._table is not None:
            self._dirty[number, key, place] = None

    def delete(self, key: bytes, place: Place) -> None:
        number = place[0] // self.segment_ms
        segment = self._segments.get(number)
        cell = None if segment is None else self._cell(segment, key)
        if segment is None or cell is None or place not in cell:
            return
        del cell[place]
        self._rows -= 1
        if self._table is not None:
            self._dirty[number, key, place] = None
        elif not cell:
            del segment.cells[key]

    def expire(self, limit: int) -> None:
        """Drops the segments of rows up to a time. Readers must not ask for expired rows that later segments have."""
        first = (limit + 1) // self.segment_ms
        while self._numbers and self._numbers[0] < first:
            segment = self._segments.pop(self._numbers.pop(0))
            if self._table is not None:
                self._rows -= sum(len(cell) for cell in segment.cells.values() if cell)

    # A table.

    def attach(self, table: Table) -> None:
        self._table = table
        number: int | None = None
        while True:
            row = next(iter(table.scan(None if number is None else _LONG.pack(number + 1))), None)
            if row is None:
                return
            (number,) = _LONG.unpack_from(row[0])
            assert number is not None
            self._add_segment(number).is_stored = True

    def on_loaded(self, first: int, last: int) -> None:
        """The table has got rows between two times that did not come from here; memory has none of them."""
        for number in range(first // self.segment_ms, last // self.segment_ms + 1):
            (self._segments.get(number) or self._add_segment(number)).is_stored = True

    def take_changes(self, limit: int) -> StoreChanges:
        """The changes since the last call. `limit`: rows up to this time have expired."""
        rows: dict[bytes, Any] = {}
        dirty, self._dirty = self._dirty, {}
        for number, key, place in dirty:
            segment = self._segments.get(number)
            if segment is None:
                # The segment has expired.
                continue
            segment.is_stored = True
            self._writing.add((number, key))
            cell = segment.cells[key]
            table_key = _PREFIX.pack(number, len(key)) + key + self._suffix.pack(*place)
            rows[table_key] = None if cell is None else cell.get(place)
        self._writing_rows = len(rows)
        first = (limit + 1) // self.segment_ms
        return StoreChanges(rows, self._pack, _LONG.pack(first) if first > 0 else None, is_repeatable=True)

    def written(self) -> None:
        self._writing = set()
        self._writing_rows = 0

    @property
    def memory_bytes(self) -> int:
        # A copy: a restore adds segments from another thread.
        cells = sum(len(segment.cells) for segment in list(self._segments.values()))
        return cells * _CELL_BYTES + self._rows * (_ROW_BYTES + self._content_bytes)

    @property
    def unwritten_bytes(self) -> int:
        return (len(self._dirty) + self._writing_rows) * (_CELL_BYTES + _ROW_BYTES + self._content_bytes)

    def shrink(self) -> None:
        """Drops cells that the table has from memory."""
        kept = self._writing | {(number, key) for number, key, _ in self._dirty}
        self._rows = 0
        # A copy: a restore adds segments from another thread.
        for segment in list(self._segments.values()):
            segment.cells = {key: cell for key, cell in segment.cells.items() if (segment.number, key) in kept}
            self._rows += sum(len(cell) for cell in segment.cells.values() if cell)

    # Internals.

    def _between(self, first: int, last: int) -> Iterator[_Segment]:
        numbers = self._numbers
        low = bisect_left(numbers, first // self.segment_ms)
        for number in numbers[low : bisect_right(numbers, last // self.segment_ms)]:
            yield self._segments[number]

    def _cell(self, segment: _Segment, key: bytes) -> Cell | None:
        cell = segment.cells.get(key)
        if cell is None and segment.is_stored and key not in segment.cells:
            return self._load(segment, key)
        return cell

    def _load(self, segment: _Segment, key: bytes) -> Cell | None:
        assert self._table is not None
        prefix = _PREFIX.pack(segment.number, len(key)) + key
        unpack_place, unpack, size = self._suffix.unpack_from, self._unpack, len(prefix)
        cell: Any = {unpack_place(row, size): unpack(content) for row, content in self._table.prefix(prefix)}
        segment.cells[key] = cell = cell or None
        if cell is not None:
            self._rows += len(cell)
        return cell

    def _of_segment(self, segment: _Segment) -> Iterator[tuple[bytes, Place, Any]]:
        cells = segment.cells
        for key, cell in cells.items():
            for place, content in (cell or {}).items():
                yield key, place, content
        if not segment.is_stored:
            return
        assert self._table is not None
        size = self._suffix.size
        for row, content in self._table.scan(_LONG.pack(segment.number), _LONG.pack(segment.number + 1)):
            key = row[SEGMENT_PREFIX_BYTES:-size]
            if key not in cells:
                yield key, self._suffix.unpack(row[-size:]), self._unpack(content)

    def _add_segment(self, number: int) -> _Segment:
        segment = self._segments[number] = _Segment(number, is_stored=False)
        insort(self._numbers, number)
        return segment


def segment_prefixes(times: Any, key_bytes: Any, segment_ms: int) -> bytes:
    """The prefixes of the changelog keys of many rows in a table: 12 bytes for every row."""
    prefixes: Any = np.empty(len(times), [("number", ">i8"), ("length", ">i4")])
    prefixes["number"] = times // max(1, segment_ms)
    prefixes["length"] = key_bytes
    return bytes(prefixes.tobytes())
