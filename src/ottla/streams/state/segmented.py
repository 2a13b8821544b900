"""The base class of window and session stores: rows in segments of time, kept for a retention time."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

from ottla.streams.record import NO_TIMESTAMP
from ottla.streams.state.segments import SegmentedRows
from ottla.streams.state.store import Store
from ottla.streams.state.table import StoreChanges, Table

__all__ = ["SegmentedStore"]


class SegmentedStore(Store):
    """The time of a row is the first number behind its key in the changelog: start of a window, or end of a session."""

    suffix: struct.Struct
    # True if a key has many values at one time; then there is no single value that None could delete.
    keeps_duplicates = False
    # A content to the bytes in the table, and back.
    _pack: Callable[[Any], bytes] = staticmethod(bytes)
    _unpack: Callable[[bytes], Any] = staticmethod(bytes)

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._retention = self.specification.retention_ms
        self._observed = NO_TIMESTAMP
        # Rows from this time on are kept although their retention is over; None: all may expire.
        self._kept_from: int | None = None
        self._rows = SegmentedRows(self.segment_ms, self.suffix, self._pack, self._unpack)

    @property
    def segment_ms(self) -> int:
        """The span of time that expires together."""
        raise NotImplementedError

    def keep_from(self, time: int) -> None:
        """Windows that were not emitted yet must not expire."""
        self._kept_from = time

    def attach(self, table: Table, observed: int, sequence: int = 0) -> None:
        self._observed = max(self._observed, observed)
        self._see_sequence(sequence)
        self._rows.attach(table)

    def on_loaded(self, times: Any, sequence: int, is_value: Any) -> Any:
        """Takes note of changelog rows that go straight into the table. Returns a mask of the rows that are needed.

        `times` and `is_value` are arrays with an element for every row; `sequence` is the largest second number of a
        suffix.
        """
        self._see_sequence(sequence)
        seen = times[is_value] if self.keeps_duplicates else times
        self._observed = max(self._observed, int(seen.max(initial=NO_TIMESTAMP)))
        needed = times > self._limit()
        if self.keeps_duplicates:
            needed &= is_value
        if needed.any():
            self._rows.on_loaded(int(times[needed].min()), int(times[needed].max()))
        self._expire()
        return needed

    def take_changes(self) -> StoreChanges:
        return self._rows.take_changes(self._limit())

    def written(self) -> None:
        self._rows.written()

    @property
    def memory_bytes(self) -> int:
        return self._rows.memory_bytes

    @property
    def unwritten_bytes(self) -> int:
        return self._rows.unwritten_bytes

    def shrink(self) -> None:
        self._rows.shrink()

    def _see_sequence(self, sequence: int) -> None:
        """Takes note of the sequence number of a row."""

    def _limit(self) -> int:
        """Rows of this time or earlier have expired."""
        limit = self._observed - self._retention
        return limit if self._kept_from is None else min(limit, self._kept_from - 1)

    def _expire(self) -> None:
        self._rows.expire(self._limit())
