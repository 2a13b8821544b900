"""PostgreSQL for the JDBC connectors, with psycopg."""

from __future__ import annotations

import contextlib
import datetime
import json
import urllib.parse
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, ClassVar

from ottla.connect.api import ConnectError, RetriableError
from ottla.connect.api.schema import DATE, DECIMAL, TIME, TIMESTAMP, Schema, decimal_precision, decimal_scale
from ottla.connect.plugins.connectors.databases.columns import Column, time_of
from ottla.connect.plugins.connectors.databases.dialect import Database, TableName, zone_of
from ottla.connect.plugins.connectors.databases.postgres_types import BOUNDS, column_of_type, numeric_modifier

__all__ = ["PostgreSQL", "postgres_parameters"]

ROWS_AT_A_TIME = 10_000
CONNECT_SECONDS = 10
IDLE_MS = 300_000
TYPES = {
    "boolean": "BOOLEAN",
    "int8": "SMALLINT",
    "int16": "SMALLINT",
    "int32": "INTEGER",
    "int64": "BIGINT",
    "float": "REAL",
    "double": "DOUBLE PRECISION",
    "bytes": "BYTEA",
    "string": "TEXT",
}
LOGICAL_TYPES = {DATE: "DATE", TIME: "TIME", TIMESTAMP: "TIMESTAMP"}

COLUMNS = """
SELECT a.attname, coalesce(nullif(t.typbasetype, 0), a.atttypid),
       CASE WHEN t.typbasetype <> 0 THEN t.typtypmod ELSE a.atttypmod END, a.attnotnull,
       coalesce(a.attnum = ANY(i.indkey), false)
FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid
LEFT JOIN pg_index i ON i.indrelid = a.attrelid AND i.indisprimary
WHERE a.attrelid = to_regclass(%s) AND a.attnum > 0 AND NOT a.attisdropped
ORDER BY a.attnum
"""
TABLES = """
SELECT n.nspname, c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind = ANY(%s) AND NOT c.relispartition AND n.nspname NOT IN ('pg_catalog', 'information_schema')
  AND n.nspname NOT LIKE 'pg\\_t%%' AND (%s::text IS NULL OR n.nspname = %s)
  AND has_table_privilege(c.oid, 'SELECT')
ORDER BY 1, 2
"""


def postgres_parameters(
    *, user: str | None, password: str | None, time_zone: str = "UTC", **given: str
) -> dict[str, str | int]:
    """The arguments of psycopg.connect. The session writes times, bytes and numbers in the form that we parse."""
    parameters: dict[str, str | int] = {
        "connect_timeout": CONNECT_SECONDS,
        "application_name": "ottla-connect",
        "options": f"-c TimeZone={time_zone} -c DateStyle=ISO -c bytea_output=hex -c extra_float_digits=1 "
        # A frozen worker must not keep its locks for ever.
        f"-c idle_in_transaction_session_timeout={IDLE_MS}",
        # Detects a database that vanished without closing the connection.
        "keepalives_idle": 20,
        "keepalives_interval": 5,
        "keepalives_count": 3,
    }
    parameters |= {name: value for name, value in given.items() if value}
    if user:
        parameters["user"] = user
    if password:
        parameters["password"] = password
    return parameters


class PostgreSQL(Database):
    """A database of a PostgreSQL server."""

    placeholder: ClassVar[str] = "%s"

    def __init__(self, parameters: dict[str, str | int], *, zone: datetime.tzinfo = datetime.UTC) -> None:
        self._parameters = parameters
        self._zone = zone
        self._connection: Any = None

    @classmethod
    def from_url(cls, url: str, *, user: str | None, password: str | None, time_zone: str) -> PostgreSQL:
        address = url.removeprefix("jdbc:postgresql:")
        parsed = urllib.parse.urlsplit(address if address.startswith("//") else f"///{address}")
        options = {name: values[-1] for name, values in urllib.parse.parse_qs(parsed.query).items()}
        user, password = user or options.pop("user", None), password or options.pop("password", None)
        schema = options.pop("currentSchema", None)
        known = {
            name: options[name] for name in ("sslmode", "sslrootcert", "sslcert", "sslkey", "host") if name in options
        }
        parameters = postgres_parameters(
            user=user, password=password, time_zone=time_zone, dbname=urllib.parse.unquote(parsed.path.lstrip("/")),
            port=str(parsed.port or ""), **{"host": parsed.hostname or "", **known},
        )  # fmt: skip
        if schema:
            parameters["options"] = f"{parameters['options']} -c search_path={schema}"
        return cls(parameters, zone=zone_of(time_zone))

    @contextlib.contextmanager
    def transaction(self, *, writes: bool = False) -> Iterator[Any]:
        import psycopg

        try:
            if self._connection is None:
                self._connection = psycopg.connect(**self._parameters)
            # Prepared statements fail after a change of the table's columns; only bulk writes need them.
            self._connection.prepare_threshold = 5 if writes else None
            with self._connection.transaction(), self._connection.cursor() as cursor:
                yield cursor
        except (psycopg.OperationalError, psycopg.InterfaceError) as error:
            self.close()
            raise RetriableError(f"PostgreSQL: {error}") from error
        except psycopg.Error as error:
            self.close()
            raise ConnectError(f"PostgreSQL: {error}") from error
        except BaseException:
            self.close()
            raise

    def stream(self, cursor: Any, query: str, values: Sequence[Any]) -> Iterator[Sequence[Sequence[Any]]]:
        rows = cursor.connection.cursor("ottla_rows")
        try:
            rows.execute(query, values or None)
            while portion := rows.fetchmany(ROWS_AT_A_TIME):
                yield portion
        except BaseException:
            # The server closes the cursor with the connection, which may be lost already.
            cursor.connection.close()
            raise
        finally:
            rows.close()

    def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with contextlib.suppress(Exception):
                connection.close()

    def tables(self, cursor: Any, *, schema: str | None, views: bool) -> list[TableName]:
        kinds = ["r", "p", *(["v", "m"] if views else [])]
        return [TableName(*row) for row in cursor.execute(TABLES, (kinds, schema, schema)).fetchall()]

    def columns(self, cursor: Any, table: TableName) -> list[Column]:
        rows = cursor.execute(COLUMNS, (self.quote_table(table),)).fetchall()
        return [
            column_of_type(name, oid, modifier, optional=not required, is_key=is_key)
            for name, oid, modifier, required, is_key in rows
        ]

    def query_columns(self, cursor: Any, query: str) -> list[Column]:
        described = cursor.execute(f"SELECT * FROM ({query}) AS q LIMIT 0").description
        columns = []
        for column in described:
            precision = column.precision
            modifier = -1 if precision is None else numeric_modifier(precision, column.scale or 0)
            columns.append(column_of_type(column.name, column.type_code, modifier, optional=True))
        return columns

    def escaped(self, query: str) -> str:
        return query.replace("%", "%%")

    def read_expression(self, column: Column) -> str:
        bounds = BOUNDS.get(column.schema.name or "")
        if bounds is None:
            return super().read_expression(column)
        quoted, (first, last) = self.quote(column.name), bounds
        # Without an alias the query orders by the column, so that it can use an index.
        return (
            f"CASE WHEN {quoted} >= '10000-01-01' THEN '{last}' WHEN {quoted} < '0001-01-01' THEN '{first}' "
            f"ELSE {quoted} END"
        )

    def before_now(self, delay_ms: int) -> str:
        return f"clock_timestamp() - interval '{delay_ms} milliseconds'"

    def sql_type(self, schema: Schema, *, is_key: bool = False) -> str:
        if schema.name == DECIMAL:
            precision, scale = decimal_precision(schema), decimal_scale(schema)
            return f"NUMERIC({precision}, {scale})"
        if schema.name in LOGICAL_TYPES:
            return LOGICAL_TYPES[schema.name]
        return TYPES.get(schema.type, "JSONB")

    def formatter(self, schema: Schema) -> Callable[[Any], Any] | None:
        if schema.name == TIME:
            return time_of
        if schema.type in ("struct", "array", "map"):
            return partial(json.dumps, default=str)
        # Text of PostgreSQL cannot contain the character 0.
        return (lambda text: text.replace("\x00", "")) if schema.type == "string" else None

    def parser(self, schema: Schema) -> Callable[[Any], Any] | None:
        # Values without a zone are UTC.
        return self._with_zone if schema.name == TIMESTAMP and self._zone is not datetime.UTC else None

    def _with_zone(self, moment: datetime.datetime) -> datetime.datetime:
        return moment if moment.tzinfo is not None else moment.replace(tzinfo=self._zone)

    def lock(self, cursor: Any, name: str) -> None:
        cursor.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 7))", (name,))

    def table_name(self, text: str) -> TableName:
        parts = text.split(".")
        return TableName(parts[-2] if len(parts) > 1 else None, parts[-1])
