"""A map of bytes to values that can be read in key order. Keys are sorted when the first range is read."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Iterator
from itertools import islice
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
        removed = self._entries.pop(key, None)
        if removed is not None and self._keys is not None:
            del self._keys[bisect_left(self._keys, key)]
        return removed

    def put_many(self, rows: Iterable[tuple[bytes, V]]) -> None:
        """Puts many rows without keeping the keys sorted meanwhile."""
        self._keys = None
        self._entries.update(rows)

    def range(
        self, first: bytes | None = None, last: bytes | None = None, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, V]]:
        """The entries between two keys, both included. Keys that are deleted during the iteration are skipped."""
        keys = self._sorted_keys()
        begin = 0 if first is None else bisect_left(keys, first)
        end = len(keys) if last is None else bisect_right(keys, last)
        chosen = keys[begin:end]
        return self._present(reversed(chosen) if reverse else chosen)

    def prefix(self, prefix: bytes) -> Iterator[tuple[bytes, V]]:
        """The entries whose keys begin with some bytes."""
        keys, size = self._sorted_keys(), len(prefix)
        begin = bisect_left(keys, prefix)
        return self._present(keys[begin : bisect_right(keys, prefix, begin, key=lambda key: key[:size])])

    def pages(self, size: int) -> Iterator[list[tuple[bytes, V]]]:
        """All entries in any order, a number of them at a time. The map may change between two pages."""
        # Not sorted: otherwise every new key would be inserted into a sorted list from now on.
        keys = iter(list(self._entries))
        while page := list(islice(keys, size)):
            yield list(self._present(page))

    def _sorted_keys(self) -> list[bytes]:
        if self._keys is None:
            self._keys = sorted(self._entries)
        return self._keys

    def _present(self, keys: Iterable[bytes]) -> Iterator[tuple[bytes, V]]:
        for key in keys:
            if key in self._entries:
                yield key, self._entries[key]

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
