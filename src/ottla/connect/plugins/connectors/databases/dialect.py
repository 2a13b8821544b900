"""The interface of databases for the connectors, and the choice of a database by its URL.

A dialect is a small class: connecting, listing tables and columns, differences in SQL. Addresses are JDBC URLs, because
configurations have them; no Java is involved.
"""

from __future__ import annotations

import contextlib
import datetime
import zoneinfo
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

from ottla.connect.api import ConfigDefinitions, ConfigType, ConnectError, Importance
from ottla.connect.api.schema import Schema
from ottla.connect.plugins.connectors.databases.columns import Column

__all__ = ["Database", "TableName", "connection_definitions", "open_database", "zone_of"]


class TableName(NamedTuple):
    schema: str | None
    name: str

    def __str__(self) -> str:
        return self.name if self.schema is None else f"{self.schema}.{self.name}"


class Database(ABC):
    """A database. It connects on first use, and again after a failure."""

    placeholder: ClassVar[str]

    # Connections and transactions.

    @abstractmethod
    @contextlib.contextmanager
    def transaction(self, *, writes: bool = False) -> Iterator[Any]:
        """A cursor in a transaction that commits at the end. Raises RetriableError for temporary failures."""

    @abstractmethod
    def stream(self, cursor: Any, query: str, values: Sequence[Any]) -> Iterator[Sequence[Sequence[Any]]]:
        """The rows of a query, in portions."""

    @abstractmethod
    def close(self) -> None:
        """Closes the connection; may be called more than once."""

    # Tables and columns.

    @abstractmethod
    def tables(self, cursor: Any, *, schema: str | None, views: bool) -> list[TableName]:
        """All tables of the user, in one schema or in all."""

    @abstractmethod
    def columns(self, cursor: Any, table: TableName) -> list[Column]:
        """The columns in order; empty if the table does not exist."""

    @abstractmethod
    def query_columns(self, cursor: Any, query: str) -> list[Column]:
        """The columns of a query."""

    # SQL.

    def quote(self, name: str) -> str:
        return '"' + name.replace('"', '""') + '"'

    def quote_table(self, table: TableName) -> str:
        return ".".join(self.quote(part) for part in table if part is not None)

    def read_expression(self, column: Column) -> str:
        """The expression that selects a column."""
        quoted = self.quote(column.name)
        return f"CAST({quoted} AS TEXT) AS {quoted}" if column.as_text else quoted

    def escaped(self, query: str) -> str:
        """A user's query, escaped for use in a query with placeholders."""
        return query

    @abstractmethod
    def before_now(self, delay_ms: int) -> str:
        """An expression for the database's time minus some milliseconds."""

    @abstractmethod
    def sql_type(self, schema: Schema, *, is_key: bool = False) -> str:
        """The SQL type of a new column."""

    @abstractmethod
    def formatter(self, schema: Schema) -> Callable[[Any], Any] | None:
        """Converts a value of a frame for the driver; None if no conversion is needed."""

    def parser(self, schema: Schema) -> Callable[[Any], Any] | None:
        """Converts a value of the driver to the schema's type; None if no conversion is needed."""
        return None

    def upsert(self, table: TableName, columns: Sequence[str], keys: Sequence[str]) -> str:
        others = [name for name in columns if name not in keys]
        changes = ", ".join(f"{self.quote(name)} = excluded.{self.quote(name)}" for name in others)
        action = f"DO UPDATE SET {changes}" if others else "DO NOTHING"
        return f"{self.insert(table, columns)} ON CONFLICT ({', '.join(map(self.quote, keys))}) {action}"

    def insert(self, table: TableName, columns: Sequence[str]) -> str:
        names = ", ".join(self.quote(name) for name in columns)
        places = ", ".join([self.placeholder] * len(columns))
        return f"INSERT INTO {self.quote_table(table)} ({names}) VALUES ({places})"

    @abstractmethod
    def lock(self, cursor: Any, name: str) -> None:
        """Takes the lock of this name until the end of the transaction."""

    @abstractmethod
    def table_name(self, text: str) -> TableName:
        """The table of a configured name, which may contain dots."""


class _KnownDatabase:
    """The URL of a database for which there is a dialect."""

    allowed = (
        "an address that begins with jdbc:postgresql: or jdbc:sqlite: (SparkSinkConnector with spark.format=jdbc "
        "writes to any database with a JDBC driver)"
    )

    def accepts(self, value: object) -> bool:
        return isinstance(value, str) and value.startswith(("jdbc:postgresql:", "jdbc:sqlite:"))


def connection_definitions() -> ConfigDefinitions:
    """The settings of `open_database`; connectors add their own."""
    return (
        ConfigDefinitions()
        .define("connection.url", ConfigType.STRING, importance=Importance.HIGH, validator=_KnownDatabase(),
                documentation="jdbc:postgresql://host:port/database or jdbc:sqlite:/path/of/the/file.")
        .define("connection.user", ConfigType.STRING, default=None, importance=Importance.HIGH,
                documentation="The user of the database.")
        .define("connection.password", ConfigType.PASSWORD, default=None, importance=Importance.HIGH,
                documentation="The user's password.")
    )  # fmt: skip


def zone_of(name: str) -> datetime.tzinfo:
    """The time zone `db.timezone` of timestamps without a zone."""
    try:
        return datetime.UTC if name == "UTC" else zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError) as error:
        raise ConnectError(f"db.timezone is {name}, which is not a known time zone") from error


def open_database(config: Mapping[str, Any]) -> Database:
    """The database of `connection.url`, with `connection.user` and `connection.password`."""
    url = str(config["connection.url"])
    time_zone = str(config.get("db.timezone") or "UTC")
    if url.startswith("jdbc:postgresql:"):
        from ottla.connect.plugins.connectors.databases.postgresql import PostgreSQL

        return PostgreSQL.from_url(
            url,
            user=config.get("connection.user"),
            password=config.get("connection.password"),
            time_zone=time_zone,
        )
    if url.startswith("jdbc:sqlite:"):
        from ottla.connect.plugins.connectors.databases.sqlite import SQLite

        return SQLite(url.removeprefix("jdbc:sqlite:"), time_zone=time_zone)
    kind = ":".join(url.split(":")[:2])
    raise ConnectError(f"connection.url begins with {kind}, but it must be {_KnownDatabase.allowed}.")
