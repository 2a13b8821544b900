"""Versioned stores: the history of every key, for lookups at a time in the past (KIP-889)."""

from __future__ import annotations

import struct
from bisect import bisect_left, bisect_right
from typing import Any

from ottla.streams.record import NO_TIMESTAMP, ValueAndTimestamp
from ottla.streams.state.mapped import MappedStore

__all__ = ["VersionedStore"]


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
    """Versions of values by key. Writes that are older than the history retention are dropped."""

    _pack = staticmethod(_pack_history)
    _unpack = staticmethod(_unpack_history)

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._observed = NO_TIMESTAMP

    def put(self, key: Any, value: Any, timestamp: int) -> bool | None:
        """Adds a version. True: it is the latest; False: a later one exists; None: it is too old and was dropped."""
        encoded = self._encode_key(key)
        content = self._encode(value)
        # Dropped versions are in the changelog too, as in Kafka Streams; a restore drops them again.
        self._log(encoded, content, timestamp)
        return self._write(encoded, content, timestamp)

    put_at = put

    def get(self, key: Any, as_of: int | None = None) -> ValueAndTimestamp | None:
        """The latest version, or the one that was valid at a time."""
        found = self.raw_get(self._encode_key(key), as_of)
        return None if found is None else ValueAndTimestamp(self._decode(found[0]), found[1])

    def raw_get(self, key: bytes, as_of: int | None = None) -> tuple[bytes, int] | None:
        found = self._map.get(key)
        if found is None:
            return None
        times, values = found
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
        # Copies, because a local commit may still read the row before.
        before = self._map.get(key)
        times, values = ([], []) if before is None else ([*before[0]], [*before[1]])
        index = bisect_left(times, timestamp)
        if index < len(times) and times[index] == timestamp:
            is_last = index == len(times) - 1
            if content is None and is_last and values[index] is not None and (index == 0 or values[index - 1] is None):
                # Kafka Streams knows the end of a version by the next one or by a deletion at another time.
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
        # A version whose successor is older than the retention can never be read again.
        old = bisect_right(times, self._observed - self.specification.retention_ms) - 1
        if old > 0:
            del times[:old]
            del values[:old]
        self._map.put(key, (times, values))
        return is_latest
