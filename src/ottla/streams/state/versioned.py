"""Versioned stores: the history of every key, for lookups at a time in the past (KIP-889)."""

from __future__ import annotations

import struct
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from typing import Any

from ottla.streams.record import NO_TIMESTAMP, ValueAndTimestamp
from ottla.streams.state.mapped import MappedStore

__all__ = ["VersionedStore"]

# After this number of writes a walk over all rows visits the same number of rows.
_ROWS_PER_STEP = 2_000
# The history retention divided by this is the time between the beginnings of two walks.
_SHARE_BETWEEN_WALKS = 4

# Timestamps in order, and the values that were valid from each of them on.
_History = tuple[list[int], list[bytes | None]]


def _pack_history(history: _History) -> bytes:
    times, values = history
    lengths = [-1 if value is None else len(value) for value in values]
    head = struct.pack(f">i{len(times)}q{len(times)}i", len(times), *times, *lengths)
    return head + b"".join(value for value in values if value is not None)


def _unpack_history(data: bytes) -> _History:
    (count,) = struct.unpack_from(">i", data)
    numbers = struct.unpack_from(f">{count}q{count}i", data, 4)
    values: list[bytes | None] = []
    place = 4 + 12 * count
    for length in numbers[count:]:
        values.append(None if length < 0 else data[place : place + length])
        place += max(length, 0)
    return list(numbers[:count]), values


class VersionedStore(MappedStore):
    """Versions of values by key. Writes that are older than the history retention are dropped.

    A write removes old versions of its key. A walk removes those of keys that are not written any more, among them the
    deletions of keys; it does not write to the changelog, because a restore ends with the same rows.
    """

    _pack = staticmethod(_pack_history)
    _unpack = staticmethod(_unpack_history)

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._observed = NO_TIMESTAMP
        self._writes = 0
        # The rows that the walk has not reached, None between two walks.
        self._walk_pages: Iterator[list[tuple[bytes, _History]]] | None = None
        self._walked_ms = NO_TIMESTAMP

    def put(self, key: Any, value: Any, timestamp: int) -> bool | None:
        """Adds a version. True: it is the latest; False: a later one exists; None: it is too old and was dropped."""
        encoded = self._encode_key(key)
        content = self._encode(value)
        # Dropped versions are in the changelog too, as in Kafka Streams; a restore drops them again.
        self._log(encoded, content, timestamp)
        return self._write(encoded, content, timestamp)

    put_at = put

    def get(self, key: Any, as_of: int | None = None) -> ValueAndTimestamp | None:
        """The latest version, or the version that was valid at a time."""
        version = self.raw_get(self._encode_key(key), as_of)
        return None if version is None else ValueAndTimestamp(self._decode(version[0]), version[1])

    def raw_get(self, key: bytes, as_of: int | None = None) -> tuple[bytes, int] | None:
        history = self._map.get(key)
        if history is None:
            return None
        times, values = history
        index = len(times) - 1 if as_of is None else bisect_right(times, as_of) - 1
        if index < 0:
            return None
        limit = self._observed - self.specification.retention_ms
        if as_of is not None and as_of < limit and index < len(times) - 1:
            return None
        content = values[index]
        return None if content is None else (content, times[index])

    def delete(self, key: Any, timestamp: int) -> ValueAndTimestamp | None:
        before = self.get(key, timestamp)
        self.put(key, None, timestamp)
        return before

    def restore(self, key: bytes, value: bytes | None, timestamp: int) -> None:
        self._write(key, value, timestamp)

    def _write(self, key: bytes, content: bytes | None, timestamp: int) -> bool | None:
        if timestamp < self._observed - self.specification.retention_ms:
            return None
        self._observed = max(self._observed, timestamp)
        self._writes += 1
        if self._writes >= _ROWS_PER_STEP:
            self._writes = 0
            self._walk()
        # Copies, because a local commit may still read the row before.
        before = self._map.get(key)
        times, values = ([], []) if before is None else ([*before[0]], [*before[1]])
        index = bisect_left(times, timestamp)
        if index < len(times) and times[index] == timestamp:
            is_last = index == len(times) - 1
            if content is None and is_last and values[index] is not None and (index == 0 or values[index - 1] is None):
                # Kafka Streams ends a version with the next version or with a deletion at another time.
                del times[index], values[index]
                if times:
                    self._map.put(key, (times, values))
                else:
                    self._map.delete(key)
                return True
            values[index] = content
        else:
            times.insert(index, timestamp)
            values.insert(index, content)
        is_latest = index == len(times) - 1
        old = self._old_versions(times)
        if old > 0:
            del times[:old]
            del values[:old]
        self._map.put(key, (times, values))
        return is_latest

    def _old_versions(self, times: list[int]) -> int:
        """The number of versions that cannot be read: their successors are older than the retention."""
        return max(0, bisect_right(times, self._observed - self.specification.retention_ms) - 1)

    def _walk(self) -> None:
        """Visits a part of all rows, and removes versions that cannot be read."""
        if self._walk_pages is None:
            if self._observed < self._walked_ms + self.specification.retention_ms // _SHARE_BETWEEN_WALKS:
                return
            self._walk_pages, self._walked_ms = self._map.pages(_ROWS_PER_STEP), self._observed
        rows = next(self._walk_pages, None)
        if rows is None:
            self._walk_pages = None
            return
        limit = self._observed - self.specification.retention_ms
        for key, (times, values) in rows:
            if values[-1] is None and times[-1] <= limit:
                self._map.delete(key)
            elif old := self._old_versions(times):
                self._map.put(key, (times[old:], values[old:]))
