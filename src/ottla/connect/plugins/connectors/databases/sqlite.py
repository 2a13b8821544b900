"""SQLite for the JDBC connectors, with the module of Python's standard library."""

from __future__ import annotations

import contextlib
import datetime
import json
import re
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from functools import partial
from typing import Any, ClassVar

from ottla.connect.api import ConnectError, RetriableError
from ottla.connect.api.schema import DATE, DECIMAL, TIME, TIMESTAMP, Schema, decimal_precision, decimal_scale
from ottla.connect.plugins.connectors.databases import columns
from ottla.connect.plugins.connectors.databases.columns import Column, time_of
from ottla.connect.plugins.connectors.databases.dialect import Database, TableName, zone_of

__all__ = ["SQLite"]

ROWS_AT_A_TIME = 10_000
BUSY_SECONDS = 20.0
TYPES = {"boolean": "BOOLEAN", "float": "REAL", "double": "REAL", "bytes": "BLOB", "string": "TEXT"}
LOGICAL_TYPES = {DATE: "DATE", TIME: "TIME", TIMESTAMP: "TIMESTAMP"}


FORMATTERS: dict[str | None, Callable[[Any], Any]] = {
    DECIMAL: str,
    DATE: datetime.date.isoformat,
    TIME: lambda milliseconds: time_of(milliseconds).isoformat(),
}


class SQLite(Database):
    """An SQLite file. Its types belong to values, so columns are read by their declared types."""

    placeholder: ClassVar[str] = "?"

    def __init__(self, path: str, *, time_zone: str = "UTC") -> None:
        self._path = path
        self._zone = zone_of(time_zone)
        self._connection: sqlite3.Connection | None = None

    @contextlib.contextmanager
    def transaction(self, *, writes: bool = False) -> Iterator[Any]:
        try:
            if self._connection is None:
                self._connection = sqlite3.connect(
                    self._path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False
                )
            cursor = self._connection.cursor()
            # A write transaction takes its lock at the beginning, because upgrading a read lock may fail.
            cursor.execute("BEGIN IMMEDIATE" if writes else "BEGIN")
            yield cursor
            cursor.execute("COMMIT")
        except sqlite3.OperationalError as error:
            self.close()
            passing = "locked" in str(error) or "busy" in str(error)
            raise (RetriableError if passing else ConnectError)(f"SQLite: {error}") from error
        except sqlite3.Error as error:
            self.close()
            raise ConnectError(f"SQLite: {error}") from error
        except BaseException:
            self.close()
            raise

    def stream(self, cursor: Any, query: str, values: Sequence[Any]) -> Iterator[Sequence[Sequence[Any]]]:
        cursor.execute(query, tuple(values))
        while portion := cursor.fetchmany(ROWS_AT_A_TIME):
            yield portion

    def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def tables(self, cursor: Any, *, schema: str | None, views: bool) -> list[TableName]:
        kinds = "('table', 'view')" if views else "('table')"
        cursor.execute(f"SELECT name FROM sqlite_master WHERE type IN {kinds} AND name NOT LIKE 'sqlite%' ORDER BY 1")
        return [TableName(None, name) for (name,) in cursor.fetchall()]

    def columns(self, cursor: Any, table: TableName) -> list[Column]:
        cursor.execute(f"PRAGMA table_info({self.quote(table.name)})")
        return [
            Column(name=name, schema=_schema(kind, optional=not (required or key)), is_key=key > 0)
            for _, name, kind, required, _, key in cursor.fetchall()
        ]

    def query_columns(self, cursor: Any, query: str) -> list[Column]:
        cursor.execute(f"SELECT * FROM ({query}) LIMIT 1")
        row = cursor.fetchone()
        names = [description[0] for description in cursor.description]
        kinds = {int: "int64", float: "double", bytes: "bytes"}
        described = []
        for place, name in enumerate(names):
            kind = kinds.get(type(row[place]), "string") if row is not None else "string"
            described.append(Column(name=name, schema=columns.primitive(kind)))
        return described

    def before_now(self, delay_ms: int) -> str:
        """In whole seconds, the resolution of CURRENT_TIMESTAMP: more rows of the present second may still come."""
        moment = datetime.datetime.now(datetime.UTC) - datetime.timedelta(milliseconds=delay_ms)
        return f"'{moment.astimezone(self._zone):%Y-%m-%d %H:%M:%S}'"

    def read_expression(self, column: Column) -> str:
        return self.quote(column.name)

    def sql_type(self, schema: Schema, *, is_key: bool = False) -> str:
        if schema.name == DECIMAL:
            return f"NUMERIC({decimal_precision(schema)}, {decimal_scale(schema)})"
        if schema.name in LOGICAL_TYPES:
            return LOGICAL_TYPES[schema.name]
        return TYPES.get(schema.type, "INTEGER" if schema.type.startswith("int") else "TEXT")

    def formatter(self, schema: Schema) -> Callable[[Any], Any] | None:
        if schema.type in ("struct", "array", "map"):
            return partial(json.dumps, default=str)
        return self._written if schema.name == TIMESTAMP else FORMATTERS.get(schema.name)

    def lock(self, cursor: Any, name: str) -> None:
        """Nothing to do: a write transaction locks the whole file."""

    def table_name(self, text: str) -> TableName:
        return TableName(None, text.split(".")[-1])

    def parser(self, schema: Schema) -> Callable[[Any], Any] | None:
        if schema.name is None and schema.type not in ("boolean", "string"):
            return None
        return partial(_parsed, schema, self._zone)

    def _written(self, moment: datetime.datetime) -> str:
        return moment.astimezone(self._zone).replace(tzinfo=None).isoformat(" ", "milliseconds")


def _parsed(schema: Schema, zone: datetime.tzinfo, value: Any) -> Any:
    """A value of the file in the declared type."""
    if schema.name == DECIMAL:
        return Decimal(str(value)).quantize(Decimal(1).scaleb(-decimal_scale(schema)))
    if schema.name == DATE:
        return datetime.date.fromisoformat(value)
    if schema.name == TIME:
        return datetime.time.fromisoformat(value)
    if schema.name == TIMESTAMP:
        moment = datetime.datetime.fromisoformat(value)
        return moment if moment.tzinfo is not None else moment.replace(tzinfo=zone)
    return bool(value) if schema.type == "boolean" else str(value)


def _schema(declared: str, *, optional: bool) -> Schema:
    """The schema of a declared type, by SQLite's rules and the type names of other databases."""
    kind = declared.upper()
    sized = re.match(r"(?:NUMERIC|DECIMAL)\s*\(\s*(\d+)\s*(?:,\s*(\d+)\s*)?\)", kind)
    if sized and int(sized[1]) <= 38:
        return columns.decimal(int(sized[1]), int(sized[2] or 0), optional=optional)
    if kind.startswith("BOOL"):
        return columns.primitive("boolean", optional=optional)
    if kind.startswith(("TIMESTAMP", "DATETIME")):
        return columns.timestamp(optional=optional)
    if kind.startswith("DATE"):
        return columns.date(optional=optional)
    if kind.startswith("TIME"):
        return columns.time(optional=optional)
    if "INT" in kind:
        return columns.primitive("int64", optional=optional)
    if "BLOB" in kind:
        return columns.primitive("bytes", optional=optional)
    if any(part in kind for part in ("REAL", "FLOA", "DOUB", "NUMERIC", "DECIMAL")):
        return columns.primitive("double", optional=optional)
    return columns.primitive("string", optional=optional)
