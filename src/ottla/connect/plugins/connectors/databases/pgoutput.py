"""PostgreSQL's messages of logical replication (plug-in pgoutput, protocol version 1), from bytes.

Each message is one byte that says what it is, and what PostgreSQL's documentation says under "Logical Replication
Message Formats". Values come as text; a large value that an update did not touch does not come at all (UNCHANGED).
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final

__all__ = [
    "UNCHANGED",
    "Begin",
    "Change",
    "Commit",
    "Message",
    "Relation",
    "RelationColumn",
    "Truncate",
    "decode",
    "microseconds_since_1970",
]

# PostgreSQL counts microseconds from 2000-01-01.
_EPOCH_MICROSECONDS = 946_684_800_000_000


class _Unchanged:
    def __repr__(self) -> str:
        return "UNCHANGED"


UNCHANGED: Final = _Unchanged()
Value = str | _Unchanged | None
Row = tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class Begin:
    """A transaction begins; `commit_lsn` is where its commit will be."""

    commit_lsn: int
    time_us: int
    transaction: int


@dataclass(frozen=True, slots=True)
class Commit:
    """It ends; `end_lsn` is where the commit ends in the log."""

    commit_lsn: int
    end_lsn: int
    time_us: int


@dataclass(frozen=True, slots=True)
class RelationColumn:
    name: str
    type: int
    modifier: int
    is_identity: bool


@dataclass(frozen=True, slots=True)
class Relation:
    """What a table looks like, from here on."""

    id: int
    schema: str
    name: str
    # d: the primary key identifies rows in changes, f: all columns, i: an index, n: nothing.
    identity: str
    columns: tuple[RelationColumn, ...]


@dataclass(frozen=True, slots=True)
class Change:
    """One row. `operation` is I, U or D; `old` is the row before, or only its key (`old_is_key`), or None."""

    operation: str
    relation: int
    old: Row | None
    old_is_key: bool
    new: Row | None


@dataclass(frozen=True, slots=True)
class Truncate:
    relations: tuple[int, ...]


Message = Begin | Commit | Relation | Change | Truncate


def decode(data: bytes | memoryview) -> Message | None:
    """One message; None for those that say nothing about rows (types, origins, messages of applications)."""
    cursor = _Cursor(memoryview(data))
    kind = chr(cursor.byte())
    if kind == "B":
        commit_lsn, time_us, transaction = cursor.unpack(">QqI")
        return Begin(commit_lsn, microseconds_since_1970(time_us), transaction)
    if kind == "C":
        _, commit_lsn, end_lsn, time_us = cursor.unpack(">BQQq")
        return Commit(commit_lsn, end_lsn, microseconds_since_1970(time_us))
    if kind == "R":
        return _relation(cursor)
    if kind in "IUD":
        return _change(cursor, kind)
    if kind == "T":
        count, _ = cursor.unpack(">IB")
        return Truncate(cursor.unpack(f">{count}I"))
    return None


def microseconds_since_1970(time_us: int) -> int:
    return time_us + _EPOCH_MICROSECONDS


def _relation(cursor: _Cursor) -> Relation:
    (number,) = cursor.unpack(">I")
    schema, name = cursor.text(), cursor.text()
    identity = chr(cursor.byte())
    (count,) = cursor.unpack(">H")
    columns = []
    for _ in range(count):
        flags = cursor.byte()
        column = cursor.text()
        kind, modifier = cursor.unpack(">Ii")
        columns.append(RelationColumn(column, kind, modifier, bool(flags & 1)))
    return Relation(number, schema or "pg_catalog", name, identity, tuple(columns))


def _change(cursor: _Cursor, operation: str) -> Change:
    (relation,) = cursor.unpack(">I")
    old, old_is_key, new = None, False, None
    mark = chr(cursor.byte())
    if mark in "KO":
        old, old_is_key = cursor.row(), mark == "K"
        mark = chr(cursor.byte()) if operation == "U" else ""
    if mark == "N":
        new = cursor.row()
    return Change(operation, relation, old, old_is_key, new)


class _Cursor:
    """A place in a message."""

    __slots__ = ("_data", "_place")

    def __init__(self, data: memoryview) -> None:
        self._data = data
        self._place = 0

    def byte(self) -> int:
        self._place += 1
        return self._data[self._place - 1]

    def unpack(self, form: str) -> tuple[int, ...]:
        found = struct.unpack_from(form, self._data, self._place)
        self._place += struct.calcsize(form)
        return found

    def text(self) -> str:
        """Up to a byte 0."""
        end = self._place
        while self._data[end]:
            end += 1
        found = str(self._data[self._place : end], "utf-8")
        self._place = end + 1
        return found

    def row(self) -> Row:
        (count,) = self.unpack(">H")
        values: list[Value] = []
        for _ in range(count):
            kind = self.byte()
            if kind == 0x74:  # t: text
                (length,) = self.unpack(">I")
                values.append(str(self._data[self._place : self._place + length], "utf-8"))
                self._place += length
            elif kind == 0x75:  # u: unchanged
                values.append(UNCHANGED)
            elif kind == 0x6E:  # n: null
                values.append(None)
            else:
                raise ValueError(f"a value of kind {chr(kind)!r} is not text")
        return tuple(values)
