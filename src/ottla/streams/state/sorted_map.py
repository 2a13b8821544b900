"""A map of bytes to values that can be read in key order. Keys are sorted when the first range is read."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable
from typing import Generic, TypeVar

__all__ = ["SortedMap"]

V = TypeVar("V")


class SortedMap(Generic[V]):
    def __init__(self) -> None:
        self._entries: dict[bytes, V] = {}
        # None until a range is read.
        self._keys: list[bytes] | None = None
        self.get = self._entries.get

    def put(self, key: bytes, value: V) -> None:
        if self._keys is not None and key not in self._entries:
            insort(self._keys, key)
        self._entries[key] = value

    def delete(self, key: bytes) -> V | None:
        found = self._entries.pop(key, None)
        if found is not None and self._keys is not None:
            del self._keys[bisect_left(self._keys, key)]
        return found

    def put_many(self, rows: Iterable[tuple[bytes, V]]) -> None:
        """Puts many rows without keeping the keys sorted meanwhile."""
        self._keys = None
        self._entries.update(rows)

    def range(
        self, first: bytes | None = None, last: bytes | None = None, *, reverse: bool = False
    ) -> list[tuple[bytes, V]]:
        """The entries between two keys, both included."""
        if self._keys is None:
            self._keys = sorted(self._entries)
        begin = 0 if first is None else bisect_left(self._keys, first)
        end = len(self._keys) if last is None else bisect_right(self._keys, last)
        keys = self._keys[begin:end]
        return [(key, self._entries[key]) for key in (reversed(keys) if reverse else keys)]

    def prefix(self, prefix: bytes) -> list[tuple[bytes, V]]:
        """The entries whose keys begin with some bytes."""
        if self._keys is None:
            self._keys = sorted(self._entries)
        begin = bisect_left(self._keys, prefix)
        found = []
        for key in self._keys[begin:]:
            if not key.startswith(prefix):
                break
            found.append((key, self._entries[key]))
        return found

    def __contains__(self, key: bytes) -> bool:
        return key in self._entries

    def __len__(self) -> int:
        return len(self._entries)

    def __getstate__(self) -> dict[bytes, V]:
        return self._entries

    def __setstate__(self, entries: dict[bytes, V]) -> None:
        self._entries = entries
        self._keys = None
        self.get = entries.get
