"""Persistent state: a table on disk has committed rows, memory has later changes, and rows that were read lately.

A store never writes its table. Its changes are taken after a commit and written together with the position in the
changelog that they belong to (`disk/task_state`), so that a table never has more than Kafka has committed.
"""

from __future__ import annotations

import heapq
import struct
from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

__all__ = ["PersistentMap", "StoreChanges", "Table", "pack_dated", "unpack_dated"]

V = TypeVar("V")

_LONG = struct.Struct(">q")
# The memory of a Python dictionary, its key and its value beyond their bytes.
_ENTRY_BYTES = 240
# A sorted list gets this many keys one by one. Inserting a key moves all larger keys, so more keys are sorted at once.
_INSERTED_MAX = 16


class Table(Protocol):
    """The rows of a store at its last local commit, in the order of their keys."""

    def get(self, key: bytes) -> bytes | None: ...

    def scan(
        self, first: bytes | None = None, last: bytes | None = None, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        """The rows between two keys, both included, as they are when the first row is read."""
        ...

    def prefix(self, prefix: bytes) -> list[tuple[bytes, bytes]]:
        """The rows whose keys begin with some bytes, in order. They are few."""
        ...

    def count(self) -> int: ...


class StoreChanges(NamedTuple):
    """The changes that a local commit writes."""

    # The last content of every changed key; None deletes it.
    rows: dict[bytes, Any]
    # Turns a content into bytes.
    pack: Callable[[Any], bytes]
    # Rows with smaller keys are no longer needed.
    expired_before: bytes | None = None
    # True if it does no harm to restore a change that the table has already.
    is_repeatable: bool = False


def pack_dated(content: tuple[bytes, int]) -> bytes:
    """A value with its timestamp: 8 bytes, then the value, as in stores of Kafka Streams."""
    return _LONG.pack(content[1]) + content[0]


def unpack_dated(data: bytes) -> tuple[bytes, int]:
    return data[8:], _LONG.unpack_from(data)[0]


class _Entries(dict[bytes, Any]):
    """Rows in memory; a row that is missing is read from the table. None: the key has no row."""

    __slots__ = ("load",)

    load: Callable[[bytes], Any]

    def __missing__(self, key: bytes) -> Any:
        row = self[key] = self.load(key)
        return row


class PersistentMap(Generic[V]):
    """The interface of `SortedMap` over a table."""

    def __init__(self, table: Table, pack: Callable[[V], bytes], unpack: Callable[[bytes], V]) -> None:
        self._table = table
        self._pack = pack
        self._unpack = unpack
        self._entries = _Entries()
        self._entries.load = self._load
        # Keys that changed since the last local commit, and keys that a local commit is writing.
        self._dirty: dict[bytes, None] = {}
        self._writing: dict[bytes, V | None] = {}
        # Both in their order, and the keys that are to be added to them; None until a range is read.
        self._unwritten: list[bytes] | None = None
        self._added: list[bytes] = []
        self._content_bytes = 32
        # A hit costs no call of Python code.
        self.get: Callable[[bytes], V | None] = self._entries.__getitem__

    def put(self, key: bytes, value: V) -> None:
        self._entries[key] = value
        if self._unwritten is not None:
            self._note_unwritten(key)
        self._dirty[key] = None

    def put_many(self, rows: Iterable[tuple[bytes, V]]) -> None:
        before = dict(rows)
        self._entries.update(before)
        self._unwritten = None
        self._dirty.update(dict.fromkeys(before))

    def delete(self, key: bytes) -> V | None:
        before = self.get(key)
        self._entries[key] = None
        if self._unwritten is not None:
            self._note_unwritten(key)
        self._dirty[key] = None
        return before

    def range(
        self, first: bytes | None = None, last: bytes | None = None, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, V]]:
        """The entries between two keys, both included. Changes that are made during the iteration are not visible."""
        keys = self._unwritten_keys()
        begin = 0 if first is None else bisect_left(keys, first)
        end = len(keys) if last is None else bisect_right(keys, last)
        changed = [(key, self._entries[key]) for key in keys[begin:end]]
        if reverse:
            changed.reverse()
        return self._merged(changed, self._table.scan(first, last, reverse=reverse), reverse=reverse)

    def prefix(self, prefix: bytes) -> Iterator[tuple[bytes, V]]:
        keys, size = self._unwritten_keys(), len(prefix)
        begin = bisect_left(keys, prefix)
        end = bisect_right(keys, prefix, begin, key=lambda key: key[:size])
        changed = [(key, self._entries[key]) for key in keys[begin:end]]
        for key, value in self._merged(changed, self._table.scan(prefix), reverse=False):
            if not key.startswith(prefix):
                return
            yield key, value

    def pages(self, size: int) -> Iterator[list[tuple[bytes, V]]]:
        """All entries in any order, a number of them at a time. The map may change between two pages."""
        # A page of `range` would read all unwritten rows behind its first key.
        unwritten = iter(list({**self._dirty, **self._writing}))
        while keys := list(islice(unwritten, size)):
            yield [(key, value) for key in keys if (value := self.get(key)) is not None]
        entries = self._entries
        first: bytes | None = None
        while stored := list(islice(self._table.scan(first), size)):
            # Rows that are not in memory stay out of it.
            rows = [(key, entries[key] if key in entries else self._unpack(packed)) for key, packed in stored]
            yield [(key, value) for key, value in rows if value is not None]
            # The next key after a key is that key with a zero byte behind it.
            first = stored[-1][0] + b"\0"

    def __contains__(self, key: bytes) -> bool:
        return self.get(key) is not None

    def __len__(self) -> int:
        count = self._table.count()
        for key in {**self._dirty, **self._writing}:
            count += (self._entries[key] is not None) - (self._table.get(key) is not None)
        return count

    # Local commits.

    def take_changes(self) -> StoreChanges:
        """The changes since the last call; they stay readable from memory until `written`."""
        entries = self._entries
        self._writing = {key: entries[key] for key in self._dirty}
        self._dirty = {}
        return StoreChanges(self._writing, self._pack, is_repeatable=True)

    def written(self) -> None:
        """The table has the changes that were taken."""
        sample = next((value for value in self._writing.values() if value is not None), None)
        if sample is not None:
            self._content_bytes = len(self._pack(sample)) + len(next(iter(self._writing)))
        self._writing = {}
        self._unwritten = None

    @property
    def memory_bytes(self) -> int:
        """An estimate of the memory that entries take."""
        return len(self._entries) * (_ENTRY_BYTES + self._content_bytes)

    @property
    def unwritten_bytes(self) -> int:
        return (len(self._dirty) + len(self._writing)) * (_ENTRY_BYTES + self._content_bytes)

    def shrink(self) -> None:
        """Drops entries that the table has from memory."""
        entries = self._entries
        kept = {key: entries[key] for key in {**self._dirty, **self._writing}}
        entries.clear()
        entries.update(kept)

    def _unwritten_keys(self) -> list[bytes]:
        keys, added = self._unwritten, self._added
        if keys is None:
            keys = self._unwritten = sorted({**self._dirty, **self._writing})
        elif len(added) > _INSERTED_MAX:
            keys += added
            keys.sort()
        else:
            for key in added:
                insort(keys, key)
        added.clear()
        return keys

    def _note_unwritten(self, key: bytes) -> None:
        if key not in self._dirty and key not in self._writing:
            self._added.append(key)

    def _load(self, key: bytes) -> V | None:
        content = self._table.get(key)
        return None if content is None else self._unpack(content)

    def _merged(
        self, changed: list[tuple[bytes, V | None]], rows: Iterator[tuple[bytes, bytes]], *, reverse: bool
    ) -> Iterator[tuple[bytes, V]]:
        if not changed:
            for key, packed in rows:
                yield key, self._unpack(packed)
            return
        stored = ((key, 1, packed) for key, packed in rows)
        newer = ((key, 0, value) for key, value in changed)
        # With equal keys the newer value comes first, in both directions.
        order: Any = (lambda row: (row[0], -row[1])) if reverse else (lambda row: row[:2])
        row: Any
        before = None
        for row in heapq.merge(newer, stored, key=order, reverse=reverse):
            key, is_stored, content = row
            if key != before and content is not None:
                yield key, self._unpack(content) if is_stored else content
            before = key
