"""Decodes PostgreSQL's messages of logical replication (pgoutput, protocol version 1).

A message is a type byte and the content that PostgreSQL's documentation describes under "Logical Replication Message
Formats". Values are text; an unchanged large value of an update is not sent (UNCHANGED).
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
    """The begin of a transaction; `commit_lsn` is the LSN of its commit."""

    commit_lsn: int
    time_us: int
    transaction: int


@dataclass(frozen=True, slots=True)
class Commit:
    """The commit of a transaction; `end_lsn` is the end of the commit in the log."""

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
    """The description of a table for the following changes."""

    id: int
    schema: str
    name: str
    # d: the primary key identifies rows in changes, f: all columns, i: an index, n: nothing.
    identity: str
    columns: tuple[RelationColumn, ...]


@dataclass(frozen=True, slots=True)
class Change:
    """A changed row. `operation` is I, U or D; `old` is the old row, or only its key (`old_is_key`), or None."""

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
    """A message; None for messages without rows (types, origins, application messages)."""
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
    """A read position in a message."""

    __slots__ = ("_data", "_place")

    def __init__(self, data: memoryview) -> None:
        self._data = data
        self._place = 0

    def byte(self) -> int:
        self._place += 1
        return self._data[self._place - 1]

    def unpack(self, form: str) -> tuple[int, ...]:
        fields = struct.unpack_from(form, self._data, self._place)
        self._place += struct.calcsize(form)
        return fields

    def text(self) -> str:
        """A null-terminated text."""
        end = self._place
        while self._data[end]:
            end += 1
        text = str(self._data[self._place : end], "utf-8")
        self._place = end + 1
        return text

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
