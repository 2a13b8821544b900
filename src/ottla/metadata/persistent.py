"""A map that is copied when it changes, at the cost of a small part of it.

An image of the metadata must never change once it is published, yet creating the ten-thousandth topic may not cost a
copy of the nine thousand before it. `PersistentMap` spreads its entries over a fixed number of plain dicts by hash;
a changed version shares all of them except those that were written to. Reading costs one extra index over a dict.

Iteration goes dict by dict and so depends on the hash: code whose output must not vary between runs sorts it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Generic, TypeVar

__all__ = ["MapBuilder", "PersistentMap"]

K = TypeVar("K")
V = TypeVar("V")

# With 64 dicts a map of 10,000 entries copies about 160 of them for one change: some two microseconds.
SHARD_COUNT = 64
_MASK = SHARD_COUNT - 1


class PersistentMap(Mapping[K, V]):
    """Immutable; `builder()` starts a changed version."""

    __slots__ = ("_length", "_shards")

    def __init__(self, shards: tuple[dict[K, V], ...] | None = None, length: int = 0) -> None:
        self._shards: tuple[dict[K, V], ...] = ({},) * SHARD_COUNT if shards is None else shards
        self._length = length

    def __getitem__(self, key: K) -> V:
        return self._shards[hash(key) & _MASK][key]

    def get(self, key: K, default: V | None = None) -> V | None:  # type: ignore[override]
        return self._shards[hash(key) & _MASK].get(key, default)

    def __contains__(self, key: object) -> bool:
        return key in self._shards[hash(key) & _MASK]

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[K]:
        for shard in self._shards:
            yield from shard

    def __repr__(self) -> str:
        return f"PersistentMap({dict(self)!r})"

    def builder(self) -> MapBuilder[K, V]:
        return MapBuilder(self._shards, self._length)


class MapBuilder(Generic[K, V]):
    """Collects changes; the dicts it touches are copied once, however many entries of them change."""

    __slots__ = ("_length", "_owned", "_shards")

    def __init__(self, shards: tuple[dict[K, V], ...], length: int) -> None:
        self._shards = list(shards)
        self._owned: set[int] = set()
        self._length = length

    def get(self, key: K) -> V | None:
        return self._shards[hash(key) & _MASK].get(key)

    def __setitem__(self, key: K, value: V) -> None:
        shard = self._writable(key)
        before = len(shard)
        shard[key] = value
        self._length += len(shard) - before

    def remove(self, key: K) -> None:
        del self._writable(key)[key]
        self._length -= 1

    def build(self) -> PersistentMap[K, V]:
        """The map as it is now; the builder must not be used afterwards."""
        self._owned.clear()
        return PersistentMap(tuple(self._shards), self._length)

    def _writable(self, key: K) -> dict[K, V]:
        index = hash(key) & _MASK
        if index not in self._owned:
            self._shards[index] = dict(self._shards[index])
            self._owned.add(index)
        return self._shards[index]
