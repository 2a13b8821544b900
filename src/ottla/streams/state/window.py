"""Window stores: values by key and start of a window, kept for a retention time."""

from __future__ import annotations

import struct
from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator, Sequence
from typing import Any

from ottla.streams.record import NO_TIMESTAMP, ValueAndTimestamp, Window, Windowed
from ottla.streams.state.store import Store

__all__ = ["TimestampedWindowStore", "WindowStore"]

_SUFFIX = struct.Struct(">qi")
_LONG = struct.Struct(">q")
_SEQUENCE_MAX = 0x7FFFFFFF


class WindowStore(Store):
    """Values by key and start. With `retains_duplicates` a key has many values at one start.

    The changelog key is the key, the start (8 bytes) and a sequence number (4 bytes), as in Kafka Streams.
    """

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._segments: dict[int, dict[bytes, Any]] = {}
        self._starts: list[int] = []
        # The starts of every key in order; None until a range of a key is read.
        self._by_key: dict[bytes, list[int]] | None = None
        self._duplicates = self.specification.retains_duplicates
        self._retention = self.specification.retention_ms
        self._sequence = 0
        self._observed = NO_TIMESTAMP
        # Windows from this start on are kept although their retention is over; None: all may expire.
        self._kept_from: int | None = None

    def keep_from(self, start: int) -> None:
        """Windows that were not emitted yet must not expire."""
        self._kept_from = start

    def fetch_closed(self, first: int, last: int) -> Iterator[tuple[Windowed, Any]]:
        """As `fetch_all`, with windows that are kept beyond their retention."""
        return self._all_of(self._starts[bisect_left(self._starts, first) : bisect_right(self._starts, last)])

    def put(self, key: Any, value: Any, start: int) -> None:
        encoded, content = self._encode_key(key), self._encode_value(value)
        if self._duplicates:
            self._sequence = (self._sequence + 1) & _SEQUENCE_MAX
        # With duplicates there is no single value that None could delete.
        if content is not None or not self._duplicates:
            self._write(encoded, content, start)
        self._log_window(encoded + _SUFFIX.pack(start, self._sequence), content)

    def fetch(self, key: Any, start: int) -> Any:
        """The value of a key in the window with this start."""
        self._expire()
        if start <= self._observed - self._retention:
            return None
        segment = self._segments.get(start)
        return None if segment is None else self._decode_value(segment.get(self._encode_key(key)))

    def cache_place(self, windowed: Windowed) -> tuple[bytes, int]:
        """The place of a row in the record cache, and its bytes; they are negative if there is no row."""
        encoded, start = self._encode_key(windowed.key), windowed.window.start
        content = self._segments.get(start, {}).get(encoded)
        # Kafka Streams puts the number of the segment in front.
        return bytes(8) + encoded + _SUFFIX.pack(start, 0), -1 if content is None else 8 + len(content[0])

    def fetch_range(self, key: Any, first: int, last: int) -> Iterator[tuple[int, Any]]:
        """(start, value) of a key for starts between two times, both included, in order of time."""
        found = self.raw_range(self._encode_key(key), first, last)
        return iter([(start, self._decode_value(content)) for start, content in found])

    def raw_range(self, key: bytes, first: int, last: int) -> list[tuple[int, Any]]:
        """As `fetch_range`, with contents as they are stored."""
        index = self._by_key if self._by_key is not None else self._indexed()
        starts = index.get(key)
        if starts is None:
            return []
        oldest = self._observed - self._retention + 1
        if first < oldest:
            first = oldest
        begin, end = bisect_left(starts, first), bisect_right(starts, last)
        if begin == end:
            return []
        segments = self._segments
        if self._duplicates:
            return [(start, one) for start in starts[begin:end] for one in segments[start][key]]
        return [(start, segments[start][key]) for start in starts[begin:end]]

    def backward_fetch(self, key: Any, first: int, last: int) -> Iterator[tuple[int, Any]]:
        return iter(list(self.fetch_range(key, first, last))[::-1])

    def fetch_all(self, first: int, last: int) -> Iterator[tuple[Windowed, Any]]:
        """Every key and value for starts between two times, in the order of time, then of keys."""
        return self._all_of(self._starts_between(first, last))

    def _all_of(self, starts: list[int]) -> Iterator[tuple[Windowed, Any]]:
        found = []
        for start in starts:
            window = Window(start, start + self.specification.window_size_ms)
            segment = self._segments[start]
            for encoded in sorted(segment):
                values = segment[encoded] if self._duplicates else (segment[encoded],)
                windowed = Windowed(self._decode_key(encoded), window)
                found += [(windowed, self._decode_value(one)) for one in values]
        return iter(found)

    def fetch_key_range(self, first_key: Any, last_key: Any, first: int, last: int) -> Iterator[tuple[Windowed, Any]]:
        low = None if first_key is None else self._encode_key(first_key)
        high = None if last_key is None else self._encode_key(last_key)
        return iter(
            [
                (windowed, value)
                for windowed, value in self.fetch_all(first, last)
                if (low is None or self._encode_key(windowed.key) >= low)
                and (high is None or self._encode_key(windowed.key) <= high)
            ]
        )

    def all(self) -> Iterator[tuple[Windowed, Any]]:
        return self.fetch_all(0, self._starts[-1]) if self._starts else iter(())

    def raw_all(self, first: int, last: int) -> Iterator[tuple[bytes, int, Any]]:
        """(key, start, content) for starts between two times, in the order of time, then of keys."""
        for start in self._starts_between(first, last):
            segment = self._segments[start]
            for key in sorted(segment):
                for content in segment[key] if self._duplicates else (segment[key],):
                    yield key, start, content

    def raw_fetch(self, key: bytes, start: int) -> Any:
        """The content of a key in the window with this start, which has not expired."""
        segment = self._segments.get(start)
        return None if segment is None else segment.get(key)

    def raw_add(self, key: bytes, content: bytes | None, start: int) -> bytes:
        """Adds a value of a store with duplicates. Returns the changelog key, for `raw_log_many`."""
        self._sequence = (self._sequence + 1) & _SEQUENCE_MAX
        if content is not None:
            self._write(key, content, start)
        return key + _SUFFIX.pack(start, self._sequence)

    def raw_log_many(self, changes: Sequence[tuple[bytes, bytes | None, int]]) -> None:
        if changes:
            self._log_many(*(list(column) for column in zip(*changes, strict=True)))

    def restore(self, key: bytes, value: bytes | None, timestamp: int) -> None:
        start, sequence = _SUFFIX.unpack(key[-12:])
        self._sequence = max(self._sequence, sequence)
        if value is not None or not self._duplicates:
            self._write(key[:-12], self._restored(value, timestamp), start)

    def _table_key(self, key: bytes) -> bytes:
        return key[-12:-4] + key[:-12] + key[-4:]

    def _changelog_key(self, key: bytes) -> bytes:
        return key[8:-4] + key[:8] + key[-4:]

    def _expired_before(self) -> bytes | None:
        limit = self._limit()
        return None if limit < 0 else _LONG.pack(limit + 1)

    def _limit(self) -> int:
        """Windows that start at this time or earlier have expired."""
        limit = self._observed - self._retention
        return limit if self._kept_from is None else min(limit, self._kept_from - 1)

    def _write(self, key: bytes, content: Any, start: int) -> None:
        if start > self._observed:
            self._observed = start
            self._expire()
        elif start <= self._observed - self._retention:
            return
        segment = self._segments.get(start)
        if content is None:
            if segment is not None and segment.pop(key, None) is not None:
                self._forget(key, start)
                if not segment:
                    self._drop(start)
            return
        if segment is None:
            segment = self._segments[start] = {}
            insort(self._starts, start)
        if self._by_key is not None and key not in segment:
            insort(self._by_key.setdefault(key, []), start)
        if self._duplicates:
            segment.setdefault(key, []).append(content)
        else:
            segment[key] = content

    def _expire(self) -> None:
        if not self._starts or self._starts[0] > self._observed - self._retention:
            return
        limit = self._limit()
        end = bisect_right(self._starts, limit)
        for start in self._starts[:end]:
            for key in self._segments.pop(start):
                self._forget(key, start)
        del self._starts[:end]

    def _indexed(self) -> dict[bytes, list[int]]:
        index: dict[bytes, list[int]] = {}
        for start in self._starts:
            for key in self._segments[start]:
                index.setdefault(key, []).append(start)
        self._by_key = index
        return index

    def _forget(self, key: bytes, start: int) -> None:
        if self._by_key is None:
            return
        starts = self._by_key[key]
        if len(starts) == 1:
            del self._by_key[key]
        else:
            del starts[bisect_left(starts, start)]

    def _drop(self, start: int) -> None:
        del self._segments[start]
        del self._starts[bisect_left(self._starts, start)]

    def _starts_between(self, first: int, last: int) -> list[int]:
        self._expire()
        first = max(first, self._observed - self._retention + 1)
        return self._starts[bisect_left(self._starts, first) : bisect_right(self._starts, last)]

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
        segment: dict[bytes, Any] | None = None
        segment_start = NO_TIMESTAMP
        for (key, start), content, timestamp in zip(places, contents, timestamps, strict=True):
            if segment is not None and start == segment_start and content is not None and self._by_key is None:
                segment[key] = (content, timestamp)
            else:
                self._write(key, None if content is None else (content, timestamp), start)
                segment, segment_start = self._segments.get(start), start
            keys.append(key + pack(start, 0))
        self._log_many(keys, contents, timestamps)
