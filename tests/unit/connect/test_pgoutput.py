"""Messages of logical replication, from bytes as PostgreSQL's documentation lays them out."""

from __future__ import annotations

import struct

import pytest

from ottla.connect.plugins.connectors.databases.pgoutput import (
    UNCHANGED,
    Begin,
    Change,
    Commit,
    Relation,
    RelationColumn,
    Truncate,
    decode,
)

NOON_US = 12 * 3600 * 1_000_000
EPOCH_US = 946_684_800_000_000


def row(*values: str | None) -> bytes:
    parts = [struct.pack(">H", len(values))]
    for value in values:
        if value is None:
            parts.append(b"n")
        elif value == "unchanged":
            parts.append(b"u")
        else:
            parts.append(b"t" + struct.pack(">I", len(value.encode())) + value.encode())
    return b"".join(parts)


def test_a_transaction_begins_and_ends() -> None:
    assert decode(b"B" + struct.pack(">QqI", 77, NOON_US, 9)) == Begin(77, EPOCH_US + NOON_US, 9)
    assert decode(b"C\x00" + struct.pack(">QQq", 77, 99, NOON_US)) == Commit(77, 99, EPOCH_US + NOON_US)


def test_a_table_describes_itself() -> None:
    columns = b"\x01id\x00" + struct.pack(">Ii", 20, -1) + "\x00größe\x00".encode() + struct.pack(">Ii", 1700, 786439)
    message = b"R" + struct.pack(">I", 5) + b"public\x00orders\x00d" + struct.pack(">H", 2) + columns
    assert decode(message) == Relation(
        5, "public", "orders", "d", (RelationColumn("id", 20, -1, True), RelationColumn("größe", 1700, 786439, False))
    )


def test_rows_before_and_after() -> None:
    number = struct.pack(">I", 5)
    assert decode(b"I" + number + b"N" + row("1", None, "ü")) == Change("I", 5, None, False, ("1", None, "ü"))
    assert decode(b"U" + number + b"N" + row("1", "unchanged")) == Change("U", 5, None, False, ("1", UNCHANGED))
    assert decode(b"U" + number + b"K" + row("1", None) + b"N" + row("2", "b")) == Change(
        "U", 5, ("1", None), True, ("2", "b")
    )
    assert decode(b"U" + number + b"O" + row("1", "a") + b"N" + row("1", "b")) == Change(
        "U", 5, ("1", "a"), False, ("1", "b")
    )
    assert decode(b"D" + number + b"K" + row("1", None)) == Change("D", 5, ("1", None), True, None)
    assert decode(b"D" + number + b"O" + row("1", "")) == Change("D", 5, ("1", ""), False, None)


def test_truncates_and_what_does_not_matter() -> None:
    assert decode(b"T" + struct.pack(">IBII", 2, 1, 5, 6)) == Truncate((5, 6))
    for kind in (b"Y", b"O", b"M"):
        assert decode(kind + b"\x00" * 20) is None
    with pytest.raises(ValueError, match="'b'"):
        decode(b"I" + struct.pack(">I", 5) + b"N" + struct.pack(">H", 1) + b"b" + struct.pack(">I", 0))
