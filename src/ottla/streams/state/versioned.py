"""Versioned stores: the history of every key, for lookups at a time in the past (KIP-889)."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import Any

from ottla.streams.record import NO_TIMESTAMP, ValueAndTimestamp
from ottla.streams.state.store import Store

__all__ = ["VersionedStore"]


class VersionedStore(Store):
    """Versions of values by key. Writes that are older than the history retention are dropped."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        # Timestamps in order, and the values that were valid from each of them on.
        self._versions: dict[bytes, tuple[list[int], list[bytes | None]]] = {}
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
        found = self._versions.get(self._encode_key(key))
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
        return None if content is None else ValueAndTimestamp(self._decode(content), times[index])

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
        times, values = self._versions.setdefault(key, ([], []))
        index = bisect_left(times, timestamp)
        if index < len(times) and times[index] == timestamp:
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
        return is_latest
