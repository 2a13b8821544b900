"""A logical replication slot, read over SQL: peek at changes, then advance.

`pg_logical_slot_peek_binary_changes` returns the same changes until the slot is advanced, so ranges of changes can be
read more than once. A range is from the end of a commit to the end of another; transactions are always complete, in the
order of their commits.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from ottla.connect.api import ConnectError, ReadLimit, RetriableError
from ottla.connect.plugins.connectors.databases.dialect import TableName
from ottla.connect.plugins.connectors.databases.pgoutput import (
    Begin,
    Change,
    Commit,
    Message,
    Relation,
    Truncate,
    decode,
)
from ottla.connect.plugins.connectors.databases.postgresql import PostgreSQL

__all__ = ["Ahead", "ReplicationSlot", "lsn_text"]

# The wait for a slot that is in use: a killed process releases it soon.
BUSY_SECONDS = 20.0
PEEK = "pg_logical_slot_peek_binary_changes(%s, %s, %s, 'proto_version', '1', 'publication_names', %s)"
# Complete messages B, C, R and T; of messages of rows only the type and the table.
LOOK_AHEAD = f"""
SELECT CASE WHEN get_byte(data, 0) IN (66, 67, 82, 84) THEN data ELSE substr(data, 1, 5) END, length(data) FROM {PEEK}
"""
# All messages about one table, whose OID is in its description.
READ = f"""
WITH messages AS MATERIALIZED (SELECT lsn, data FROM {PEEK}),
described AS (
    SELECT substr(data, 2, 4) AS number FROM messages WHERE get_byte(data, 0) = 82 AND substr(data, 6, %s) = %s
)
SELECT lsn - '0/0'::pg_lsn, data FROM messages
WHERE get_byte(data, 0) IN (66, 67, 84) OR substr(data, 2, 4) IN (SELECT number FROM described)
"""

# True if one of these tables is partitioned; optionally only tables of the publication.
PARTITIONED = """
SELECT bool_or(%s OR oid IN (
    SELECT prrelid FROM pg_publication_rel JOIN pg_publication p ON p.oid = prpubid WHERE pubname = %s))
FROM pg_class WHERE relkind = 'p' AND oid = ANY(%s::text[]::regclass[])
"""
# Transactions hold their locks to the end, also on every partition that they write to.
WRITERS = """
SELECT DISTINCT virtualtransaction FROM pg_locks
WHERE locktype = 'relation' AND granted AND pid IS DISTINCT FROM pg_backend_pid()
  AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
  AND relation IN (SELECT to_regclass(%s)::oid UNION SELECT relid::oid FROM pg_partition_tree(to_regclass(%s)))
  AND mode = ANY(%s)
"""
WRITING = ("RowExclusiveLock", "ShareRowExclusiveLock", "ExclusiveLock", "AccessExclusiveLock")


@dataclass(slots=True, kw_only=True)
class Ahead:
    """The next batch: its end, and the descriptions of its tables."""

    end: int
    tables: dict[TableName, list[Relation]] = field(default_factory=dict)
    # The number of transactions in the batch, also of those without captured changes, and the number of transactions
    # that were read before.
    transactions: int = 0
    skipped: int = 0


class ReplicationSlot:
    """A slot with its publication, which selects the tables."""

    def __init__(self, database: PostgreSQL, *, name: str, publication: str) -> None:
        self._database = database
        self._name = name
        self._publication = publication

    # Creation and removal.

    def position(self) -> int | None:
        """The confirmed position; None if the slot does not exist."""
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
        """Creates the slot and returns its position; it contains all later commits."""
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
        """Creates the publication and adds tables to it. Modes are Debezium's: filtered, all_tables, disabled.

        Changes of partitioned tables have the name of the table, not of its partitions.
        """
        quoted = self._database.quote(self._publication)
        names = [self._database.quote_table(table) for table in tables]
        with self._database.transaction(writes=True) as cursor:
            self._database.lock(cursor, f"ottla:{quoted}")
            cursor.execute(
                "SELECT puballtables, pubviaroot FROM pg_publication WHERE pubname = %s", (self._publication,)
            )
            row = cursor.fetchone()
            if row is None:
                if mode == "disabled":
                    raise ConnectError(
                        f"the publication {self._publication} does not exist (publication.autocreate.mode=disabled)"
                    )
                objects = "ALL TABLES" if mode == "all_tables" else f"TABLE {', '.join(names)}"
                for_clause = f" FOR {objects}" if tables else ""
                cursor.execute(f"CREATE PUBLICATION {quoted}{for_clause} WITH (publish_via_partition_root = true)")
                return
            for_all, by_root = row
            cursor.execute(PARTITIONED, (for_all or mode != "disabled", self._publication, names))
            if not by_root and cursor.fetchone()[0]:
                if mode == "disabled":
                    raise ConnectError(
                        f"the publication {self._publication} tells changes of partitioned tables under the names of "
                        "their partitions: ALTER PUBLICATION ... SET (publish_via_partition_root = true)"
                    )
                cursor.execute(f"ALTER PUBLICATION {quoted} SET (publish_via_partition_root = true)")
            if for_all or mode != "filtered":
                return
            cursor.execute(
                "SELECT schemaname, tablename FROM pg_publication_tables WHERE pubname = %s", (self._publication,)
            )
            published = {TableName(*columns) for columns in cursor.fetchall()}
            for table, name in zip(tables, names, strict=True):
                if table not in published:
                    cursor.execute(f"ALTER PUBLICATION {quoted} ADD TABLE {name}")

    def writers(self, table: TableName) -> frozenset[str]:
        """The open transactions that have changed a table, or hold a lock to do so."""
        name = self._database.quote_table(table)
        with self._database.transaction() as cursor:
            return frozenset(
                transaction for (transaction,) in cursor.execute(WRITERS, (name, name, list(WRITING))).fetchall()
            )

    # Reading.

    def look_ahead(self, after: int, limit: ReadLimit | None = None, *, upto: int | None = None) -> Ahead:
        """The next batch: as many complete transactions as the limit allows, at least one.

        `upto` is the end of a batch that was planned before: the same batch is returned.

        The description of a table is constant in a batch, unless a single transaction changes it: a batch ends before a
        transaction with another description of a table.
        """
        ahead, transaction = Ahead(end=after), _Transaction()
        known: dict[int, Relation] = {}
        size = rows = 0
        records, size_max = (limit.records, limit.bytes) if limit is not None else (None, None)
        for data, length in self._peek(LOOK_AHEAD, None if upto is None else lsn_text(upto), records, ()):
            message = _head(data)
            size += length
            if isinstance(message, Begin):
                transaction = _Transaction(skipped=message.commit_lsn < after)
                ahead.skipped += transaction.skipped
            elif isinstance(message, Relation):
                known[message.id] = message
                transaction.relations.append(message)
            elif isinstance(message, Change | Truncate):
                rows += 1
                for number in (message.relation,) if isinstance(message, Change) else message.relations:
                    transaction.touch(known[number])
            elif isinstance(message, Commit) and not transaction.skipped:
                too_much = records is not None and size_max is not None and (rows > records or size > size_max)
                if ahead.transactions and (transaction.changes_any(ahead) or too_much):
                    break
                transaction.add_to(ahead)
                ahead.end = message.end_lsn
                ahead.transactions += 1
        return ahead

    def changes(self, table: TableName, after: int, end: int) -> Iterator[tuple[int, Message]]:
        """The messages of a table with their LSNs, including all begins and commits."""
        name = f"{table.schema}\x00{table.name}\x00".encode()
        skipped = False
        # A renamed table keeps its OID: its rows count only while it has this name.
        oids: set[int] = set()
        for lsn, data in self._peek(READ, lsn_text(end), None, (len(name), name)):
            message = decode(data)
            if isinstance(message, Begin):
                skipped = message.commit_lsn < after
            elif isinstance(message, Relation):
                oids.discard(message.id)
                if (message.schema, message.name) == table:
                    oids.add(message.id)
            touched = _touched(message)
            if touched is not None and oids.isdisjoint(touched):
                continue
            # Transactions that were read before also contain descriptions of tables.
            if isinstance(message, Relation) or (message is not None and not skipped):
                yield int(lsn), message

    def advance(self, lsn: int) -> None:
        """Advances the slot: the server may discard changes up to here."""
        with self._database.transaction() as cursor:
            cursor.execute("SELECT confirmed_flush_lsn < %s::pg_lsn FROM pg_replication_slots WHERE slot_name = %s",
                           (lsn_text(lsn), self._name))  # fmt: skip
            row = cursor.fetchone()
            if row is not None and row[0]:
                cursor.execute("SELECT pg_replication_slot_advance(%s, %s)", (self._name, lsn_text(lsn)))

    def flushed(self) -> int:
        """The flushed end of the server's log."""
        with self._database.transaction() as cursor:
            cursor.execute("SELECT pg_current_wal_flush_lsn() - '0/0'::pg_lsn")
            return int(cursor.fetchone()[0])

    def mark(self) -> int:
        """Writes a marker to the server's log; returns its LSN, which is a boundary of records."""
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
    """A transaction while it is scanned."""

    skipped: bool = False
    relations: list[Relation] = field(default_factory=list)
    # The changed tables by OID, with all names and descriptions that they had.
    current: dict[int, Relation] = field(default_factory=dict)
    touched: list[Relation] = field(default_factory=list)

    def touch(self, relation: Relation) -> None:
        if self.current.get(relation.id) is not relation:
            self.current[relation.id] = relation
            self.touched.append(relation)

    def changes_any(self, ahead: Ahead) -> bool:
        for relation in self.relations:
            earlier = ahead.tables.get(TableName(relation.schema, relation.name))
            if earlier is not None and earlier[-1].columns != relation.columns:
                return True
        return False

    def add_to(self, ahead: Ahead) -> None:
        for relation in self.touched:
            relations = ahead.tables.setdefault(TableName(relation.schema, relation.name), [])
            if relation not in relations:
                relations.append(relation)


def _touched(message: Message | None) -> Sequence[int] | None:
    """The OIDs of the tables of a message; None if it has no table."""
    if isinstance(message, Relation):
        return (message.id,)
    if isinstance(message, Change):
        return (message.relation,)
    return message.relations if isinstance(message, Truncate) else None


def lsn_text(lsn: int) -> str:
    return f"{lsn >> 32:X}/{lsn & 0xFFFFFFFF:X}"


def _head(data: bytes) -> Message | None:
    """Decodes a message of a look-ahead, where messages of rows have only their beginning."""
    if data[:1] in (b"I", b"U", b"D"):
        return Change(chr(data[0]), int.from_bytes(data[1:5], "big"), None, False, None)
    return decode(data)
