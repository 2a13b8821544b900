"""Change data capture from PostgreSQL: a snapshot of the tables, then every change, in order, by pgoutput.

A source partition is a table. Its offset is the primary key up to which the table was read during the snapshot, and
then the end of the last commit that was read (an LSN). The publication and the replication slot are created first; the
slot keeps every change from then on. Then every table is read in portions by primary key, each from the present state
of the database; an interrupted portion is repeated, and a table without a primary key is one portion. Changes begin
when all tables are read, with those that happened meanwhile. A row that changed during the snapshot therefore comes
more than once, as it was read and then as it changed; the last record of a key is the final row. After the snapshot
every change comes exactly once.

The driver peeks at the changes of a batch (ends of transactions and descriptions of tables only), and executors peek at
the rows; the slot advances when they are in the topics. A batch never splits a transaction.
"""

from __future__ import annotations

import json
import logging
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ottla.connect.api import (
    ConfigDefinitions,
    ConnectError,
    Delivery,
    DeliveryClaim,
    ReadLimit,
    RetriableError,
    Settings,
    SourceConnector,
    SourceOffset,
    SourcePartition,
    SourceReader,
    Task,
)
from ottla.connect.plugins.connectors.databases.columns import Column
from ottla.connect.plugins.connectors.databases.dialect import TableName
from ottla.connect.plugins.connectors.databases.envelope import CapturedTable, Envelopes, columns_of_relations
from ottla.connect.plugins.connectors.databases.pgoutput import Begin, Change, Relation, Truncate
from ottla.connect.plugins.connectors.databases.postgres_settings import postgres_settings
from ottla.connect.plugins.connectors.databases.postgres_slot import Ahead, ReplicationSlot
from ottla.connect.plugins.connectors.databases.postgres_snapshot import Snapshot, table_columns
from ottla.connect.plugins.connectors.databases.postgresql import PostgreSQL, postgres_parameters

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql.types import StructType

__all__ = ["PostgresReader", "PostgresSourceConnector"]

logger = logging.getLogger(__name__)

ROWS_AT_A_TIME = 10_000
# The interval between searches for new tables.
TABLES_SECONDS = 5.0
# The slot is advanced when the server's log has grown by this many bytes without a captured change.
LET_GO_BYTES = 16 * 1024 * 1024
# Unlogged tables: their changes are in no log, and no publication accepts them.
UNLOGGED = """
SELECT n.nspname, c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.relpersistence = 'u'
"""
# The offset of a table whose snapshot starts again.
SNAPSHOT_AGAIN: SourceOffset = {"lsn": 0, "snapshot": "true"}
OPERATIONS = {"I": "c", "U": "u", "D": "d"}


class PostgresSourceConnector(SourceConnector):
    """Reads changes of tables in PostgreSQL as records, with the row before and after."""

    aliases = ("io.debezium.connector.postgresql.PostgresConnector", "PostgresCdc")
    claim = DeliveryClaim(
        Delivery.EXACTLY_ONCE,
        "the replication slot is kept; rows that change during the snapshot come again, with the same key",
    )

    @classmethod
    def config_definitions(cls) -> ConfigDefinitions:
        return postgres_settings()

    def plan(self, config: Mapping[str, str], max_tasks: int) -> list[dict[str, str]]:
        # A slot has one reader, so there is one task.
        return [dict(config)]

    def reader(self, task: Task) -> SourceReader:
        return PostgresReader(self.config_definitions().parse(task.config))


class PostgresReader(SourceReader):
    """Reads portions of the snapshot and ranges of changes. The driver's reader also creates and advances the slot."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._server = settings.text("topic.prefix")
        self._name = settings.text("database.dbname")
        self._database = PostgreSQL(
            postgres_parameters(
                user=settings.text_or_none("database.user"),
                password=settings.text_or_none("database.password"),
                host=settings.text("database.hostname"),
                port=str(settings.integer("database.port")),
                dbname=self._name,
                sslmode=settings.text("database.sslmode"),
            )
        )
        self._slot = ReplicationSlot(
            self._database, name=settings.text("slot.name"), publication=settings.text("publication.name")
        )
        self._snapshot = Snapshot(self._database)
        self._is_driver = False
        self._tables: list[TableName] = []
        self._looked_at = -1e9
        # By table whose snapshot waits: the open transactions that had changed the table when it was first seen.
        self._waiting: dict[TableName, frozenset[str]] = {}
        # The tables that were published before this reader created the slot.
        self._in_slot: set[TableName] = set()
        # In this round: whether the slot is missing, and whether the offset of a table was reset. The last flag is True
        # if the offsets of all tables were reset by the end of the last round.
        self._slot_missing: bool | None = None
        self._forgetting = False
        self._all_forgot = False
        # In this round: tables past their snapshot, and the changes ahead in the slot.
        self._streaming: set[TableName] = set()
        self._ahead: Ahead | None = None
        self._flushed = -1
        # All changes up to this LSN are in the topics.
        self._position = 0
        self._mark: int | None = None

    # In the driver.

    def partitions(self) -> Sequence[SourcePartition]:
        self._is_driver = True
        self._find_tables()
        self._ahead = None
        self._all_forgot = self._slot_missing is True and not self._forgetting
        self._slot_missing, self._forgetting = None, False
        tables = list(self._tables)
        if set(tables) <= self._streaming:
            # A dropped table may have unread changes.
            tables += [table for table in self._streaming if table not in set(tables)]
        return [{"server": self._server, "table": str(table)} for table in tables]

    def latest(self, partition: SourcePartition, start: SourceOffset | None, limit: ReadLimit) -> SourceOffset | None:
        table = _table(partition)
        if self._slot_is_gone(start):
            return self._restarted_snapshot(start)
        if start is None or start.get("snapshot") == "true":
            self._streaming.discard(table)
            if start is None and not self._may_begin(table):
                return None
            return self._next_portion(table, start, limit)
        is_new = table not in self._streaming
        self._streaming.add(table)
        # Other tables may be ahead of this table.
        self._position = max(self._position, _lsn(start))
        if is_new or not self._begun <= self._streaming or self._settings.text("snapshot.mode") == "initial_only":
            # Changes begin when the snapshots of all begun tables are complete.
            return start
        ahead = self._look_ahead(limit)
        if ahead is None or table not in ahead.tables or ahead.end <= _lsn(start):
            return start
        return {"lsn": ahead.end}

    def schema(self, partition: SourcePartition) -> StructType:
        table = _table(partition)
        if table in self._streaming and self._ahead is not None and table in self._ahead.tables:
            return self._captured(table, self._ahead.tables[table]).frame_schema()
        return self._captured(table).frame_schema()

    def committed(self, partition: SourcePartition, offset: SourceOffset) -> None:
        if "snapshot" not in offset and _lsn(offset) > self._position:
            self._position = _lsn(offset)
            self._slot.advance(self._position)

    def close(self) -> None:
        if self._is_driver and self._settings.flag("slot.drop.on.stop"):
            self._slot.drop()
        self._database.close()

    # In the executors.

    def read(
        self, partition: SourcePartition, start: SourceOffset | None, end: SourceOffset
    ) -> Iterator[pyarrow.RecordBatch]:
        table = _table(partition)
        if "snapshot" in end:
            if end.get("last") is not None or end.get("whole"):
                yield from self._read_portion(table, start, end)
            return
        yield from self._read_changes(table, _lsn(start), _lsn(end))

    def _read_portion(
        self, table: TableName, start: SourceOffset | None, end: SourceOffset
    ) -> Iterator[pyarrow.RecordBatch]:
        captured = self._captured(table)
        records = self._envelopes(captured)
        now_ms = time.time_ns() // 1_000_000
        source = (now_ms, None, _lsn(end), "true")
        for rows in self._snapshot.rows(table, captured.columns, _place(start), _place(end)):
            for row in rows:
                records.add("r", None, row, now_ms, source)
            yield records.take()

    def _read_changes(self, table: TableName, after: int, end: int) -> Iterator[pyarrow.RecordBatch]:
        relations = self._slot.look_ahead(after, upto=end).tables.get(table)
        if not relations:
            # The changes were there when the batch was planned.
            raise RetriableError(f"the replication slot does not tell what it told of {table} before")
        captured = self._captured(table, relations)
        records = self._envelopes(captured)
        skipped = set(self._settings.texts("skipped.operations"))
        relation, places = relations[0], records.places(relations[0])
        transaction = Begin(0, 0, 0)
        now_ms = time.time_ns() // 1_000_000
        for lsn, message in self._slot.changes(table, after, end):
            source = (transaction.time_us // 1000, transaction.transaction, lsn, "false")
            if isinstance(message, Begin):
                transaction = message
            elif isinstance(message, Relation):
                relation, places = message, records.places(message)
            elif isinstance(message, Change) and OPERATIONS[message.operation] not in skipped:
                before = None if message.old is None else records.row(message.old, places)
                after_row = None if message.new is None else records.row(message.new, places, old=before)
                if message.old_is_key and message.operation == "U":
                    # Only the key of the old row is known, so `before` stays empty.
                    records.rekey(before, after_row, now_ms, source)
                else:
                    records.add(OPERATIONS[message.operation], before, after_row, now_ms, source)
            elif isinstance(message, Truncate) and relation.id in message.relations and "t" not in skipped:
                records.add("t", None, None, now_ms, source)
            if len(records) >= ROWS_AT_A_TIME:
                yield records.take()
        if len(records):
            yield records.take()

    # In the driver and in the executors.

    def _captured(self, table: TableName, relations: Sequence[Relation] | None = None) -> CapturedTable:
        columns: Sequence[Column] = table_columns(self._database, table)
        if relations:
            columns = columns_of_relations(relations, [column.name for column in columns if column.is_key])
        if not columns:
            raise ConnectError(f"Table {table} does not exist any more.")
        return CapturedTable(
            server=self._server,
            database=self._name,
            schema=table.schema or "public",
            name=table.name,
            columns=tuple(columns),
        )

    def _envelopes(self, captured: CapturedTable) -> Envelopes:
        return Envelopes(
            captured,
            tombstones=self._settings.flag("tombstones.on.delete"),
            placeholder=self._settings.text("unavailable.value.placeholder"),
            version=PostgresSourceConnector.version,
        )

    # Helpers of the driver.

    def _find_tables(self) -> None:
        if time.monotonic() < self._looked_at + TABLES_SECONDS:
            return
        with self._database.transaction() as cursor:
            tables = self._database.tables(cursor, schema=None, views=False)
            unlogged = {TableName(*row) for row in cursor.execute(UNLOGGED).fetchall()}
        wanted = [table for table in tables if _is_wanted(table, self._settings) and table not in unlogged]
        if wanted != self._tables:
            self._slot.publish(wanted, mode=self._settings.text("publication.autocreate.mode"))
            self._snapshot.set_identities(wanted, self._settings.texts("replica.identity.autoset.values"))
            self._tables = wanted
        self._looked_at = time.monotonic()

    @property
    def _begun(self) -> set[TableName]:
        """The tables whose snapshot may be read."""
        return set(self._tables) - set(self._waiting)

    def _slot_is_gone(self, start: SourceOffset | None) -> bool:
        """True if the slot is missing; checked once per round until it exists.

        A missing slot after the first read means lost changes, which is an error. With `slot.drop.on.stop` it is
        expected: the snapshot of all tables starts again.
        """
        if self._position:
            return False
        if self._slot_missing is None:
            position = self._slot.position()
            self._slot_missing, self._position = position is None, position or 0
        if not self._slot_missing:
            return False
        if self._settings.flag("slot.drop.on.stop"):
            return not self._all_forgot or start not in (None, SNAPSHOT_AGAIN)
        if start is not None:
            raise ConnectError(
                f"the replication slot {self._settings.text('slot.name')} is gone, and with it the changes since. "
                "Delete the offsets of the connector to start with a snapshot again."
            )
        return False

    def _restarted_snapshot(self, start: SourceOffset | None) -> SourceOffset | None:
        """Resets the offset of a table before a new slot is created.

        In the reverse order, a crash between the two steps would leave tables that seem to be read up to the new slot.
        """
        if start is None or start == SNAPSHOT_AGAIN:
            return start
        self._forgetting = True
        return SNAPSHOT_AGAIN

    def _may_begin(self, table: TableName) -> bool:
        """True if all transactions that changed the table before its publication have ended.

        A change by an open transaction would be lost when the table is added to the publication: the snapshot does not
        see it yet, and the slot never contains it. PostgreSQL waits for such transactions when it creates a slot.
        """
        if not self._position or table in self._in_slot:
            return True
        writers = self._slot.writers(table)
        left = self._waiting.get(table, writers) & writers
        if left:
            if table not in self._waiting:
                logger.info("Table %s is read after the end of %d transactions that have changed it", table, len(left))
            self._waiting[table] = left
            return False
        self._waiting.pop(table, None)
        return True

    def _next_portion(self, table: TableName, start: SourceOffset | None, limit: ReadLimit) -> SourceOffset:
        if not self._position:
            self._position = self._slot.position() or self._make_slot()
        rows = self._settings.integer("snapshot.fetch.size") or limit.records
        done: dict[str, Any] = {"lsn": self._position, "snapshot": "last"}
        if self._settings.text("snapshot.mode") in ("never", "no_data"):
            return done
        if not self._snapshot.keys(table):
            return done | {"whole": True}
        last, count = self._snapshot.end(table, _place(start), rows)
        if last is None:
            return done
        ended = "last" if count < rows else "true"
        return {"lsn": self._position, "snapshot": ended, "last": json.dumps(last)}

    def _make_slot(self) -> int:
        self._in_slot = set(self._tables)
        return self._slot.create()

    def _look_ahead(self, limit: ReadLimit) -> Ahead | None:
        """Peeks at the slot, once per round and only if the server's log has grown."""
        if self._ahead is None:
            flushed = self._slot.flushed()
            if flushed == self._flushed:
                return None
            # The slot may not have been advanced before a crash, or a crash of the server has lost its position.
            self._slot.advance(self._position)
            ahead = self._ahead = self._slot.look_ahead(self._position, limit)
            # The snapshot contains changes from before its read.
            known = self._begun | self._streaming
            ahead.tables = {name: relations for name, relations in ahead.tables.items() if name in known}
            if ahead.transactions and not ahead.tables:
                self._position = ahead.end
                self._slot.advance(ahead.end)
            elif not ahead.transactions and not ahead.skipped:
                self._flushed = flushed
                self._let_go(flushed)
        return self._ahead

    def _let_go(self, flushed: int) -> None:
        """Advances the slot over a log without captured changes, so that the server does not keep that log.

        The end of the log may be inside a commit, which would be lost. So a marker is written to the log, and the slot
        advances to the marker when the log has reached it and still has no captured change.
        """
        if self._mark is not None and flushed >= self._mark:
            self._position = max(self._position, self._mark)
            self._slot.advance(self._position)
            self._mark = None
        elif self._mark is None and flushed - self._position >= LET_GO_BYTES:
            self._mark = self._slot.mark()


def _is_wanted(table: TableName, settings: Settings) -> bool:
    def fits(name: str, text: str) -> bool:
        return any(re.fullmatch(pattern, text) for pattern in settings.texts(name))

    if settings.texts("schema.include.list") and not fits("schema.include.list", table.schema or ""):
        return False
    if settings.texts("table.include.list") and not fits("table.include.list", str(table)):
        return False
    return not fits("schema.exclude.list", table.schema or "") and not fits("table.exclude.list", str(table))


def _table(partition: SourcePartition) -> TableName:
    schema, _, name = str(partition["table"]).rpartition(".")
    return TableName(schema, name)


def _lsn(offset: SourceOffset | None) -> int:
    return 0 if offset is None else int(offset.get("lsn") or 0)


def _place(offset: SourceOffset | None) -> list[str] | None:
    last = None if offset is None else offset.get("last")
    return None if last is None else list(json.loads(str(last)))
