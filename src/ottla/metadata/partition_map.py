"""The partitions of a large topic: an immutable map in chunks of consecutive indexes.

A published image never changes, so a change of one partition copies the map of its topic. In a topic of a hundred
thousand partitions a plain dict would cost every node milliseconds for each leader that changes. `PartitionMap` copies
the chunk of the changed partition and the short list of chunks. Small topics keep a dict, whose lookups are faster
(`frozen_partitions`).

Chunks, and partitions within a chunk, are iterated in the order in which they were added, as in a dict.
"""

from __future__ import annotations

from collections.abc import ItemsView, Iterator, Mapping, ValuesView
from itertools import chain
from typing import Generic, TypeVar

__all__ = ["PartitionMap", "PartitionMapBuilder", "frozen_partitions"]

V = TypeVar("V")

_CHUNK_BITS = 8
# Copying a dict of this size takes about ten microseconds.
PLAIN_MAX = 1024


def frozen_partitions(partitions: dict[int, V]) -> Mapping[int, V]:
    """The partitions as an image holds them. The dict must not be changed afterwards."""
    if len(partitions) <= PLAIN_MAX:
        return partitions
    chunks: dict[int, dict[int, V]] = {}
    for index, partition in partitions.items():
        chunks.setdefault(index >> _CHUNK_BITS, {})[index] = partition
    return PartitionMap(chunks, len(partitions))


class PartitionMap(Mapping[int, V]):
    """Immutable; `builder()` starts a changed version."""

    __slots__ = ("_length", "chunks")

    def __init__(self, chunks: dict[int, dict[int, V]], length: int) -> None:
        self.chunks = chunks
        self._length = length

    def __getitem__(self, index: int) -> V:
        return self.chunks[index >> _CHUNK_BITS][index]

    def get(self, index: int, default: V | None = None) -> V | None:  # type: ignore[override]
        chunk = self.chunks.get(index >> _CHUNK_BITS)
        return default if chunk is None else chunk.get(index, default)

    def __contains__(self, index: object) -> bool:
        return isinstance(index, int) and index in self.chunks.get(index >> _CHUNK_BITS, ())

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[int]:
        return chain.from_iterable(self.chunks.values())

    def items(self) -> ItemsView[int, V]:
        return _Items(self)

    def values(self) -> ValuesView[V]:
        return _Values(self)

    def __repr__(self) -> str:
        return f"PartitionMap({dict(self)!r})"

    def builder(self) -> PartitionMapBuilder[V]:
        return PartitionMapBuilder(self.chunks, self._length)


class PartitionMapBuilder(Generic[V]):
    """Collects changes. A chunk is copied once, however many of its partitions change."""

    __slots__ = ("_chunks", "_length", "_owned")

    def __init__(self, chunks: dict[int, dict[int, V]], length: int) -> None:
        self._chunks = dict(chunks)
        self._length = length
        self._owned: set[int] = set()

    def get(self, index: int) -> V | None:
        chunk = self._chunks.get(index >> _CHUNK_BITS)
        return None if chunk is None else chunk.get(index)

    def __setitem__(self, index: int, partition: V) -> None:
        number = index >> _CHUNK_BITS
        if number not in self._owned:
            self._chunks[number] = dict(self._chunks.get(number, ()))
            self._owned.add(number)
        chunk = self._chunks[number]
        before = len(chunk)
        chunk[index] = partition
        self._length += len(chunk) - before

    def build(self) -> PartitionMap[V]:
        """The map with all changes so far. Later changes do not affect it."""
        self._owned.clear()
        return PartitionMap(dict(self._chunks), self._length)


class _Items(ItemsView[int, V]):
    def __init__(self, partitions: PartitionMap[V]) -> None:
        super().__init__(partitions)
        self._chunks = partitions.chunks.values()

    def __iter__(self) -> Iterator[tuple[int, V]]:
        return chain.from_iterable(chunk.items() for chunk in self._chunks)


class _Values(ValuesView[V]):
    def __init__(self, partitions: PartitionMap[V]) -> None:
        super().__init__(partitions)
        self._chunks = partitions.chunks.values()

    def __iter__(self) -> Iterator[V]:
        return chain.from_iterable(chunk.values() for chunk in self._chunks)
