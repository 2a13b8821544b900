"""A logical replication slot read over plain SQL: looking ahead without taking, then moving on.

`pg_logical_slot_peek_binary_changes` gives what the slot would send, again and again, until the slot is advanced: that
is what makes ranges of changes readable more than once. A range is from the end of one commit to the end of another;
transactions are always whole, and come in the order of their commits.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from ottla.connect.api import ConnectError, ReadLimit, RetriableError
from ottla.connect.connectors.databases.dialect import TableName
from ottla.connect.connectors.databases.pgoutput import (
    Begin,
    Change,
    Commit,
    Message,
    Relation,
    Truncate,
    decode,
)
from ottla.connect.connectors.databases.postgresql import PostgreSQL

__all__ = ["Ahead", "ReplicationSlot", "lsn_text"]

# How long to wait for a slot that somebody else is reading: a process that was killed lets go soon.
BUSY_SECONDS = 20.0
PEEK = "pg_logical_slot_peek_binary_changes(%s, %s, %s, 'proto_version', '1', 'publication_names', %s)"
# B, C, R, T whole; of rows only which table they belong to.
LOOK_AHEAD = f"""
SELECT CASE WHEN get_byte(data, 0) IN (66, 67, 82, 84) THEN data ELSE substr(data, 1, 5) END, length(data) FROM {PEEK}
"""
# All about one table, which has a number that its own description tells.
READ = f"""
WITH messages AS MATERIALIZED (SELECT lsn, data FROM {PEEK}),
described AS (
    SELECT substr(data, 2, 4) AS number FROM messages WHERE get_byte(data, 0) = 82 AND substr(data, 6, %s) = %s
)
SELECT lsn - '0/0'::pg_lsn, data FROM messages
WHERE get_byte(data, 0) IN (66, 67, 84) OR substr(data, 2, 4) IN (SELECT number FROM described)
"""


@dataclass(slots=True, kw_only=True)
class Ahead:
    """What the next batch has: up to where, and what each table looks like in it."""

    end: int
    tables: dict[TableName, list[Relation]] = field(default_factory=dict)
    # The transactions that are in it, which may have had nothing of ours; and those that were read before.
    transactions: int = 0
    skipped: int = 0


class ReplicationSlot:
    """One slot with the publication that says which tables it sends."""

    def __init__(self, database: PostgreSQL, *, name: str, publication: str) -> None:
        self._database = database
        self._name = name
        self._publication = publication

    # Making and removing.

    def position(self) -> int | None:
        """Up to where it was taken; None when there is no such slot."""
        with self._database.transaction() as cursor:
            cursor.execute(
                "SELECT confirmed_flush_lsn - '0/0'::pg_lsn, plugin, database = current_database(), wal_status "
                "FROM pg_replication_slots WHERE slot_name = %s",
                (self._name,),
            )
            row = cursor.fetchone()
        if row is None:
            return None
        if row[1] != "pgoutput" or not row[2]:
            raise ConnectError(f"the replication slot {self._name} belongs to another database or plug-in")
        if row[3] == "lost":
            raise ConnectError(
                f"the server gave up the replication slot {self._name} (max_slot_wal_keep_size), and changes are lost: "
                "drop it, delete the offsets of the connector, and it begins with a snapshot again"
            )
        return int(row[0])

    def create(self) -> int:
        """Its position; everything that commits later will be in it."""
        with self._database.transaction() as cursor:
            cursor.execute("SELECT pg_create_logical_replication_slot(%s, 'pgoutput')", (self._name,))
        position = self.position()
        assert position is not None
        return position

    def drop(self) -> None:
        with self._database.transaction() as cursor:
            cursor.execute(
                "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_name = %s",
                (self._name,),
            )

    def publish(self, tables: Sequence[TableName], *, mode: str) -> None:
        """Makes the publication, and adds tables to it. Modes are Debezium's: filtered, all_tables, disabled."""
        quoted = self._database.quote(self._publication)
        with self._database.transaction(writes=True) as cursor:
            self._database.lock(cursor, f"ottla:{quoted}")
            cursor.execute("SELECT puballtables FROM pg_publication WHERE pubname = %s", (self._publication,))
            row = cursor.fetchone()
            names = ", ".join(self._database.quote_table(table) for table in tables)
            if row is None:
                if mode == "disabled":
                    raise ConnectError(f"there is no publication {self._publication}, and it may not be created")
                what = "ALL TABLES" if mode == "all_tables" else f"TABLE {names}"
                cursor.execute(f"CREATE PUBLICATION {quoted} FOR {what}" if tables else f"CREATE PUBLICATION {quoted}")
                return
            if row[0] or mode != "filtered":
                return
            cursor.execute(
                "SELECT schemaname, tablename FROM pg_publication_tables WHERE pubname = %s", (self._publication,)
            )
            there = {TableName(*each) for each in cursor.fetchall()}
            for table in tables:
                if table not in there:
                    cursor.execute(f"ALTER PUBLICATION {quoted} ADD TABLE {self._database.quote_table(table)}")

    # Reading.

    def look_ahead(self, after: int, limit: ReadLimit | None = None, *, upto: int | None = None) -> Ahead:
        """How far the next batch goes: as many whole transactions as the limit allows, at least one.

        With `upto`, which is where a batch ends that was planned before: the same again.

        A table looks the same all through a batch, except where a single transaction changes it: a batch ends before
        a transaction in which a table looks different.
        """
        ahead, one = Ahead(end=after), _Transaction()
        known: dict[int, Relation] = {}
        size = rows = 0
        records, most = (limit.records, limit.bytes) if limit is not None else (None, None)
        for data, length in self._peek(LOOK_AHEAD, None if upto is None else lsn_text(upto), records, ()):
            message = _head(data)
            size += length
            if isinstance(message, Begin):
                one = _Transaction(skipped=message.commit_lsn < after)
                ahead.skipped += one.skipped
            elif isinstance(message, Relation):
                known[message.id] = message
                one.relations.append(message)
            elif isinstance(message, Change | Truncate):
                rows += 1
                one.changed.update([message.relation] if isinstance(message, Change) else message.relations)
            elif isinstance(message, Commit) and not one.skipped:
                too_much = records is not None and most is not None and (rows > records or size > most)
                if ahead.transactions and (one.changes_any(ahead) or too_much):
                    break
                one.add_to(ahead, known)
                ahead.end = message.end_lsn
                ahead.transactions += 1
        return ahead

    def changes(self, table: TableName, after: int, end: int) -> Iterator[tuple[int, Message]]:
        """Messages about a table with their LSN, with all begins and commits."""
        name = f"{table.schema}\x00{table.name}\x00".encode()
        skipped = False
        for lsn, data in self._peek(READ, lsn_text(end), None, (len(name), name)):
            message = decode(data)
            if isinstance(message, Begin):
                skipped = message.commit_lsn < after
            # What a table looks like is also said in transactions that were read before.
            if isinstance(message, Relation) or (message is not None and not skipped):
                yield int(lsn), message

    def advance(self, lsn: int) -> None:
        """Everything up to here may be forgotten."""
        with self._database.transaction() as cursor:
            cursor.execute("SELECT confirmed_flush_lsn < %s::pg_lsn FROM pg_replication_slots WHERE slot_name = %s",
                           (lsn_text(lsn), self._name))  # fmt: skip
            row = cursor.fetchone()
            if row is not None and row[0]:
                cursor.execute("SELECT pg_replication_slot_advance(%s, %s)", (self._name, lsn_text(lsn)))

    def flushed(self) -> int:
        """The end of the server's log."""
        with self._database.transaction() as cursor:
            cursor.execute("SELECT pg_current_wal_flush_lsn() - '0/0'::pg_lsn")
            return int(cursor.fetchone()[0])

    def mark(self) -> int:
        """Writes a word into the server's log that nobody reads; where that is, no other record is divided."""
        with self._database.transaction(writes=True) as cursor:
            cursor.execute("SELECT pg_logical_emit_message(false, 'ottla', '') - '0/0'::pg_lsn")
            return int(cursor.fetchone()[0])

    def _peek(self, query: str, upto: str | None, count: int | None, more: tuple[Any, ...]) -> Iterator[Any]:
        values = (self._name, upto, count, self._database.quote(self._publication), *more)
        end = time.monotonic() + BUSY_SECONDS
        while True:
            begun = False
            try:
                with self._database.transaction() as cursor:
                    for rows in self._database.stream(cursor, query, values):
                        begun = True
                        yield from rows
                    return
            except RetriableError as error:
                if begun or "is active for PID" not in str(error) or time.monotonic() > end:
                    raise
            time.sleep(0.2)


@dataclass(slots=True)
class _Transaction:
    """One transaction while it is looked at."""

    skipped: bool = False
    relations: list[Relation] = field(default_factory=list)
    changed: set[int] = field(default_factory=set)

    def changes_any(self, ahead: Ahead) -> bool:
        for each in self.relations:
            earlier = ahead.tables.get(TableName(each.schema, each.name))
            if earlier is not None and earlier[-1].columns != each.columns:
                return True
        return False

    def add_to(self, ahead: Ahead, known: dict[int, Relation]) -> None:
        for number in self.changed:
            last = known[number]
            name = TableName(last.schema, last.name)
            own = [each for each in self.relations if (each.schema, each.name) == name]
            relations = ahead.tables.setdefault(name, [])
            relations += [each for each in (own or [last]) if each not in relations]


def lsn_text(lsn: int) -> str:
    return f"{lsn >> 32:X}/{lsn & 0xFFFFFFFF:X}"


def _head(data: bytes) -> Message | None:
    """A message, of which only the beginning is there when it is a row."""
    if data[:1] in (b"I", b"U", b"D"):
        return Change(chr(data[0]), int.from_bytes(data[1:5], "big"), None, False, None)
    return decode(data)
