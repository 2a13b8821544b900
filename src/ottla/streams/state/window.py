"""Window stores: values by key and start of a window, kept for a retention time."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ottla.streams.record import NO_TIMESTAMP, ValueAndTimestamp, Window, Windowed
from ottla.streams.state.segmented import SegmentedStore
from ottla.streams.state.store import RowForm
from ottla.streams.state.table import pack_dated, unpack_dated
from ottla.streams.state.window_runs import Run, joined_key

__all__ = ["TimestampedWindowStore", "WindowStore"]

_SUFFIX = struct.Struct(">qi")
_SEQUENCE_MAX = 0x7FFFFFFF
_FOREVER = 1 << 62
# Segments of a store in its retention time, at most.
_SEGMENTS_MAX = 4096
# Runs of fewer rows are put into cells at once, and so are all runs if there are more runs than this.
_RUN_ROWS_MIN = 64
_RUNS_MAX = 32
# The approximate memory of a row of a run.
_RUN_ROW_BYTES = 160


class WindowStore(SegmentedStore):
    """Values by key and start. With `retains_duplicates` a key has many values at one start.

    The changelog key is the key, the start (8 bytes) and a sequence number (4 bytes), as in Kafka Streams.
    """

    row_form = RowForm.VALUE
    suffix = _SUFFIX

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.keeps_duplicates = self.specification.retains_duplicates
        self._sequence = 0
        # Rows that batches have appended, until they are read; in the order of their sequence numbers.
        self._runs: list[Run] = []

    @property
    def segment_ms(self) -> int:
        # A window, so that the partners of a record, or the windows that it changes, are in few segments.
        return max(self.specification.window_size_ms, -(-self._retention // _SEGMENTS_MAX), 1)

    @property
    def sequence(self) -> int:
        return self._sequence

    def fetch_closed(self, first: int, last: int) -> Iterator[tuple[Windowed, Any]]:
        """As `fetch_all`, with windows that are kept beyond their retention."""
        return self._windowed(max(first, self._limit() + 1), last)

    def put(self, key: Any, value: Any, start: int) -> None:
        encoded, content = self._encode_key(key), self._encode_value(value)
        if self.keeps_duplicates:
            self._sequence = (self._sequence + 1) & _SEQUENCE_MAX
        # With duplicates there is no single value that None could delete.
        if content is not None or not self.keeps_duplicates:
            self._write(encoded, content, start, self._sequence)
        self._log_window(encoded + _SUFFIX.pack(start, self._sequence), content)

    def fetch(self, key: Any, start: int) -> Any:
        """The value of a key in the window with this start."""
        if start <= self._observed - self._retention:
            return None
        return self._decode_value(self._rows.get(self._encode_key(key), (start, 0)))

    def cache_place(self, windowed: Windowed) -> tuple[bytes, int]:
        """The place of a row in the record cache, and its bytes; they are negative if there is no row."""
        encoded, start = self._encode_key(windowed.key), windowed.window.start
        content = self._rows.get(encoded, (start, 0)) if start > self._limit() else None
        # Kafka Streams puts the number of the segment in front.
        return bytes(8) + encoded + _SUFFIX.pack(start, 0), -1 if content is None else 8 + len(content[0])

    def fetch_range(self, key: Any, first: int, last: int) -> Iterator[tuple[int, Any]]:
        """(start, value) of a key for starts between two times, both included, in order of time."""
        rows = self.raw_range(self._encode_key(key), first, last)
        return iter([(start, self._decode_value(content)) for start, content in rows])

    def raw_range(self, key: bytes, first: int, last: int) -> list[tuple[int, Any]]:
        """As `fetch_range`, with contents as they are stored."""
        first = self._open(first, last)
        return [(place[0], content) for place, content in self._rows.of_key(key, first, last)]

    def backward_fetch(self, key: Any, first: int, last: int) -> Iterator[tuple[int, Any]]:
        return iter(list(self.fetch_range(key, first, last))[::-1])

    def fetch_all(self, first: int, last: int) -> Iterator[tuple[Windowed, Any]]:
        """Every key and value for starts between two times, in the order of time, then of keys."""
        return self._windowed(self._open(first, last), last)

    def fetch_key_range(self, first_key: Any, last_key: Any, first: int, last: int) -> Iterator[tuple[Windowed, Any]]:
        low = None if first_key is None else self._encode_key(first_key)
        high = None if last_key is None else self._encode_key(last_key)
        return (
            (windowed, value)
            for windowed, value in self.fetch_all(first, last)
            if (low is None or self._encode_key(windowed.key) >= low)
            and (high is None or self._encode_key(windowed.key) <= high)
        )

    def all(self) -> Iterator[tuple[Windowed, Any]]:
        return self.fetch_all(0, _FOREVER)

    def raw_all(self, first: int, last: int) -> Iterator[tuple[bytes, int, Any]]:
        """(key, start, content) for starts between two times, in the order of time, then of keys."""
        return self._raw_between(self._open(first, last), last)

    # For column forms.

    def raw_fetch(self, key: bytes, start: int) -> Any:
        """The content of a key in the window with this start, which has not expired."""
        return self._rows.get(key, (start, 0))

    def raw_of_keys(self, keys: list[bytes], first: int, last: int) -> tuple[list[int], list[int], list[Any]]:
        """The rows of many keys between two times: the number of the key, start and content, by start for each key."""
        numbers, places, contents = self._rows.of_keys(keys, self._open(first, last), last)
        return numbers, [place[0] for place in places], contents

    def raw_append(self, keys: Any, starts: Any, contents: Any) -> None:
        """Adds the values of a batch to a store with duplicates: Arrow arrays of bytes, and an array of numbers."""
        count = len(keys)
        sequences: Any = (self._sequence + 1 + np.arange(count)) & _SEQUENCE_MAX
        self._log_many(joined_key(keys, starts, sequences), contents, starts)
        self._sequence = int(sequences[-1])
        is_value = np.asarray(contents.is_valid())
        latest = np.maximum(np.maximum.accumulate(np.where(is_value, starts, NO_TIMESTAMP)), self._observed)
        self._runs.append(
            Run(keys, starts, sequences, contents).filtered(is_value & (starts > latest - self._retention))
        )
        if int(latest[-1]) > self._observed:
            self._observed = int(latest[-1])
            self._expire()
        if count < _RUN_ROWS_MIN or len(self._runs) > _RUNS_MAX:
            self._settle(0, _FOREVER)

    @property
    def memory_bytes(self) -> int:
        return super().memory_bytes + self._run_bytes

    @property
    def unwritten_bytes(self) -> int:
        return super().unwritten_bytes + self._run_bytes

    @property
    def _run_bytes(self) -> int:
        return sum(map(len, self._runs)) * _RUN_ROW_BYTES

    def take_changes(self) -> Any:
        self._settle(0, _FOREVER)
        return super().take_changes()

    def restore(self, key: bytes, value: bytes | None, timestamp: int) -> None:
        start, sequence = _SUFFIX.unpack(key[-12:])
        self._see_sequence(sequence)
        if value is not None or not self.keeps_duplicates:
            self._write(key[:-12], self._restored(value, timestamp), start, sequence)

    def _see_sequence(self, sequence: int) -> None:
        self._sequence = max(self._sequence, sequence)

    def _write(self, key: bytes, content: Any, start: int, sequence: int = 0) -> None:
        if start > self._observed:
            self._observed = start
            self._expire()
        elif start <= self._observed - self._retention:
            return
        if content is None:
            self._rows.delete(key, (start, sequence))
        else:
            self._rows.put(key, (start, sequence), content)

    def _expire(self) -> None:
        super()._expire()
        limit = self._limit()
        self._runs = [run for run in self._runs if run.last > limit]

    def _open(self, first: int, last: int) -> int:
        """Prepares to read rows between two times; returns the first time that has not expired."""
        first = max(first, self._observed - self._retention + 1)
        if self._runs:
            self._settle(first, last)
        return first

    def _settle(self, first: int, last: int) -> None:
        """Puts rows of runs between two times into cells."""
        kept = []
        for run in self._runs:
            if run.last < first or run.first > last:
                kept.append(run)
                continue
            remaining = run.take_between(first, last, self._rows.put)
            if remaining is not None:
                kept.append(remaining)
        self._runs = kept

    def _windowed(self, first: int, last: int) -> Iterator[tuple[Windowed, Any]]:
        size = self.specification.window_size_ms
        for key, start, content in self._raw_between(first, last):
            yield Windowed(self._decode_key(key), Window(start, start + size)), self._decode_value(content)

    def _raw_between(self, first: int, last: int) -> Iterator[tuple[bytes, int, Any]]:
        for rows in self._rows.scan(first, last):
            rows.sort(key=lambda row: (row[1][0], row[0], row[1][1]))
            for key, place, content in rows:
                yield key, place[0], content

    def _log_window(self, key: bytes, content: Any) -> None:
        self._log(key, content)

    def _restored(self, value: bytes | None, timestamp: int) -> Any:  # noqa: ARG002
        return value

    def _encode_value(self, value: Any) -> Any:
        return self._encode(value)

    def _decode_value(self, content: Any) -> Any:
        return self._decode(content)


class TimestampedWindowStore(WindowStore):
    """A window store of values with timestamps; the changelog record carries the timestamp."""

    row_form = RowForm.DATED
    _pack = staticmethod(pack_dated)
    _unpack = staticmethod(unpack_dated)

    def _log_window(self, key: bytes, content: Any) -> None:
        if content is None:
            self._log(key, None)
        else:
            self._log(key, content[0], content[1])

    def _restored(self, value: bytes | None, timestamp: int) -> Any:
        return None if value is None else (value, timestamp)

    def _encode_value(self, value: ValueAndTimestamp | None) -> Any:
        if value is None or value.value is None:
            return None
        return self._encode(value.value), value.timestamp

    def _decode_value(self, content: Any) -> ValueAndTimestamp | None:
        return None if content is None else ValueAndTimestamp(self._decode(content[0]), content[1])

    def raw_put_many(
        self, places: Sequence[tuple[bytes, int]], contents: Sequence[bytes | None], timestamps: Sequence[int]
    ) -> None:
        """Writes rows of a batch, by key and start; None deletes a row."""
        pack, keys = _SUFFIX.pack, []
        for (key, start), content, timestamp in zip(places, contents, timestamps, strict=True):
            self._write(key, None if content is None else (content, timestamp), start)
            keys.append(key + pack(start, 0))
        self._log_many(keys, contents, timestamps)
