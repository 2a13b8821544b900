"""A source that polls tables or a query for new rows.

A source partition is a table; its offset is the position in the order of its rows (`table_query`). Every table is read
by one task. The modes see rows by their order only: deletes are not noticed, and a row is missed if it becomes visible
behind the position, because its transaction was slower than others. `timestamp.delay.interval.ms` waits for such
transactions. Change data capture (`postgres_source`) has neither limitation.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ottla.connect.api import (
    ConfigDefinitions,
    ConfigType,
    ConfigValue,
    ConnectError,
    Delivery,
    DeliveryClaim,
    Importance,
    OneOf,
    Range,
    ReadLimit,
    Settings,
    SomeOf,
    SourceConnector,
    SourceOffset,
    SourcePartition,
    SourceReader,
    Task,
)
from ottla.connect.plugins.connectors.databases.columns import Column, arrow_array, described, struct_of
from ottla.connect.plugins.connectors.databases.dialect import (
    Database,
    TableName,
    connection_definitions,
    open_database,
)
from ottla.connect.plugins.connectors.databases.table_query import (
    INCREMENTING,
    MODES,
    TIMESTAMP,
    Place,
    TableQuery,
    incrementing_column,
)

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql.types import StructType

__all__ = ["JdbcReader", "JdbcSourceConnector"]

TABLES = "task.tables"


class JdbcSourceConnector(SourceConnector):
    """Reads rows of tables in a database, or of a query, as records."""

    aliases = ("io.confluent.connect.jdbc.JdbcSourceConnector",)
    claim = DeliveryClaim(
        Delivery.EXACTLY_ONCE, "rows become visible in the order of the mode's columns (bulk: always)"
    )

    @classmethod
    def config_definitions(cls) -> ConfigDefinitions:
        return (
            connection_definitions()
            .define("topic.prefix", ConfigType.STRING, importance=Importance.HIGH,
                    documentation="Stands before the table's name in the topic's; with `query`, it is the topic.")
            .define("mode", ConfigType.STRING, importance=Importance.HIGH, validator=OneOf(*MODES),
                    documentation="bulk: all rows at each poll. incrementing: rows whose number is higher than any "
                    "before. timestamp: rows that changed later. timestamp+incrementing: by both.")
            .define("incrementing.column.name", ConfigType.STRING, default="",
                    documentation="The column that grows with each new row; empty: the primary key.")
            .define("timestamp.column.name", ConfigType.LIST, default=(),
                    documentation="The column with the time of the last change; of several, the first not null.")
            .define("timestamp.delay.interval.ms", ConfigType.LONG, default=0, validator=Range(minimum=0),
                    documentation="How old a row must be: time for transactions that began earlier to commit.")
            .define("table.whitelist", ConfigType.LIST, default=(), documentation="The tables to read; empty: all.")
            .define("table.blacklist", ConfigType.LIST, default=(), documentation="Tables not to read.")
            .define("table.include.list", ConfigType.LIST, default=(),
                    documentation="Patterns (regular expressions) of the tables to read, as schema.table.")
            .define("table.exclude.list", ConfigType.LIST, default=(),
                    documentation="Patterns of tables not to read.")
            .define("schema.pattern", ConfigType.STRING, default=None, documentation="Only tables of this schema.")
            .define("table.types", ConfigType.LIST, default=("TABLE",),
                    validator=SomeOf("TABLE", "VIEW", may_be_empty=True), documentation="TABLE, VIEW, or both.")
            .define("query", ConfigType.STRING, default="", documentation="A query to read instead of tables.")
            .define("query.suffix", ConfigType.STRING, default="", importance=Importance.LOW,
                    documentation="What to write at the end of statements, such as a hint.")
            .define("poll.interval.ms", ConfigType.INT, default=5000, validator=Range(minimum=0),
                    documentation="How often a table is looked at when it had nothing more.")
            .define("batch.max.rows", ConfigType.INT, default=0, importance=Importance.LOW, validator=Range(minimum=0),
                    documentation="How many rows of a table are read at once; 0 leaves it to the worker.")
            .define("db.timezone", ConfigType.STRING, default="UTC", importance=Importance.LOW,
                    documentation="The time zone of timestamps without one.")
        )  # fmt: skip

    def __init__(self) -> None:
        self._planned: list[str] | None = None

    def validate(self, config: Mapping[str, str], values: dict[str, ConfigValue]) -> None:
        if config.get("query") and any(config.get(name) for name in ("table.whitelist", "table.include.list")):
            values["query"].errors.append("query and a choice of tables exclude each other.")
        if TIMESTAMP in config.get("mode", "") and not config.get("timestamp.column.name"):
            values["timestamp.column.name"].errors.append(f"mode {config['mode']} needs a column with times.")

    def plan(self, config: Mapping[str, str], max_tasks: int) -> list[dict[str, str]]:
        if config.get("query"):
            return [dict(config)]
        self._planned = self._tables(config)
        count = min(max_tasks, len(self._planned))
        shares = [self._planned[number::count] for number in range(count)]
        return [{**config, TABLES: json.dumps(share)} for share in shares]

    def changed(self, config: Mapping[str, str]) -> bool:
        return not config.get("query") and self._tables(config) != self._planned

    def reader(self, task: Task) -> SourceReader:
        return JdbcReader(
            self.config_definitions().parse(task.config), tables=json.loads(task.config.get(TABLES, "[]"))
        )

    def _tables(self, config: Mapping[str, str]) -> list[str]:
        settings = self.config_definitions().parse(config)
        database = open_database(settings)
        try:
            with database.transaction() as cursor:
                tables = database.tables(
                    cursor,
                    schema=settings.text_or_none("schema.pattern"),
                    views="VIEW" in settings.texts("table.types"),
                )
        finally:
            database.close()
        return [str(table) for table in tables if _is_wanted(table, settings)]


class JdbcReader(SourceReader):
    """Reads ranges of rows."""

    def __init__(self, settings: Settings, *, tables: Sequence[str] = ()) -> None:
        self._settings = settings
        self._database = open_database(settings)
        self._tables = list(tables)
        self._query = settings.text("query")
        self._mode = settings.text("mode")
        self._looked_at: dict[str, float] = {}

    def partitions(self) -> Sequence[SourcePartition]:
        return [{"query": "query"}] if self._query else [{"table": name} for name in self._tables]

    def schema(self, partition: SourcePartition) -> StructType:
        from pyspark.sql.types import StringType, StructField, StructType

        with self._database.transaction() as cursor:
            columns = self._columns(cursor, partition)
        return StructType([StructField("topic", StringType()), described("value", struct_of(columns))])

    def latest(self, partition: SourcePartition, start: SourceOffset | None, limit: ReadLimit) -> SourceOffset | None:
        name, now = _name(partition), time.monotonic()
        if now < self._looked_at.get(name, -1e9) + self._settings.integer("poll.interval.ms") / 1000:
            return start
        if self._mode == "bulk":
            self._looked_at[name] = now
            # The value has no meaning; a new value makes a new read.
            return {"read": 1 + int((start or {}).get("read") or 0)}
        with self._database.transaction() as cursor:
            query = self._table_query(cursor, partition)
            rows = self._settings.integer("batch.max.rows") or limit.records
            cursor.execute(*query.end(_place(start, self._mode), rows))
            row = cursor.fetchone()
        if row is None:
            self._looked_at[name] = now
            return start
        return _offset(tuple(row), self._mode)

    def read(
        self, partition: SourcePartition, start: SourceOffset | None, end: SourceOffset
    ) -> Iterator[pyarrow.RecordBatch]:
        import pyarrow

        topic = self._settings.text("topic.prefix") + ("" if self._query else _name(partition).rpartition(".")[2])
        with self._database.transaction() as cursor:
            query = self._table_query(cursor, partition)
            statement, values = query.rows(_place(start, self._mode), _place(end, self._mode))
            for rows in self._database.stream(cursor, statement, values):
                arrays = [
                    arrow_array(_parsed(cells, self._database, column), column.schema)
                    for cells, column in zip(zip(*rows, strict=True), query.columns, strict=True)
                ]
                value = pyarrow.StructArray.from_arrays(arrays, [column.name for column in query.columns])
                topics = pyarrow.array([topic] * len(rows), pyarrow.string())
                yield pyarrow.RecordBatch.from_arrays([topics, value], ["topic", "value"])

    def close(self) -> None:
        self._database.close()

    def _columns(self, cursor: Any, partition: SourcePartition) -> list[Column]:
        if self._query:
            return self._database.query_columns(cursor, self._query)
        columns = self._database.columns(cursor, _table(partition))
        if not columns:
            raise ConnectError(f"Table {_name(partition)} does not exist any more.")
        return columns

    def _table_query(self, cursor: Any, partition: SourcePartition) -> TableQuery:
        columns = self._columns(cursor, partition)
        incrementing = None
        if INCREMENTING in self._mode:
            incrementing = self._settings.text("incrementing.column.name") or incrementing_column(
                columns, _name(partition)
            )
        timestamps = tuple(self._settings.texts("timestamp.column.name")) if TIMESTAMP in self._mode else ()
        known = {column.name for column in columns}
        missing = [name for name in (*timestamps, incrementing) if name is not None and name not in known]
        if missing:
            raise ConnectError(f"{_name(partition)} has no column {', '.join(missing)}, which mode {self._mode} needs.")
        if self._query:
            # A statement in bulk mode has no placeholders and needs no escaping.
            query = self._query if self._mode == "bulk" else self._database.escaped(self._query)
            source = f"({query}) AS source"
        else:
            source = self._database.quote_table(_table(partition))
        return TableQuery(
            database=self._database,
            source=source,
            columns=columns,
            timestamps=timestamps,
            incrementing=incrementing,
            delay_ms=self._settings.integer("timestamp.delay.interval.ms"),
            suffix=self._settings.text("query.suffix"),
        )


def _parsed(values: Sequence[Any], database: Database, column: Column) -> Sequence[Any]:
    parser = database.parser(column.schema)
    return values if parser is None else [None if value is None else parser(value) for value in values]


def _is_wanted(table: TableName, settings: Settings) -> bool:
    """True if the settings select the table. Lists have names with or without schema, patterns match both parts."""
    names = {table.name, str(table)}
    wanted, patterns = settings.texts("table.whitelist"), settings.texts("table.include.list")
    if wanted and not names & set(wanted):
        return False
    if patterns and not any(re.fullmatch(pattern, str(table)) for pattern in patterns):
        return False
    if names & set(settings.texts("table.blacklist")):
        return False
    return not any(re.fullmatch(pattern, str(table)) for pattern in settings.texts("table.exclude.list"))


def _name(partition: SourcePartition) -> str:
    return str(partition.get("table") or partition.get("query"))


def _table(partition: SourcePartition) -> TableName:
    schema, _, name = str(partition["table"]).rpartition(".")
    return TableName(schema or None, name)


def _place(offset: SourceOffset | None, mode: str) -> Place | None:
    if offset is None or mode == "bulk":
        return None
    return tuple(offset[name] for name in (TIMESTAMP, INCREMENTING) if name in mode)


def _offset(place: Place, mode: str) -> SourceOffset:
    """The offset as JSON. Values without a JSON type, such as decimals, are text; the database casts it back."""
    held = [value if value is None or isinstance(value, int | float | str) else str(value) for value in place]
    return dict(zip([name for name in (TIMESTAMP, INCREMENTING) if name in mode], held, strict=True))
