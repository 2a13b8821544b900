"""What a database has to be able to do for the connectors, and which one an address means.

A dialect is a small class: how to connect, what the tables and columns are called, how its SQL differs. Addresses are
those of JDBC, because configurations have them; no Java is involved.
"""

from __future__ import annotations

import contextlib
import datetime
import zoneinfo
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

from ottla.connect.api import ConfigDefinitions, ConfigType, ConnectError, Importance, NonEmpty
from ottla.connect.api.schema import Schema
from ottla.connect.plugins.connectors.databases.columns import Column

__all__ = ["Database", "TableName", "connection_definitions", "open_database", "zone_of"]


class TableName(NamedTuple):
    schema: str | None
    name: str

    def __str__(self) -> str:
        return self.name if self.schema is None else f"{self.schema}.{self.name}"


class Database(ABC):
    """One database. It connects when it is first used, and anew after something failed."""

    placeholder: ClassVar[str]

    # Connections and transactions.

    @abstractmethod
    @contextlib.contextmanager
    def transaction(self, *, writes: bool = False) -> Iterator[Any]:
        """A cursor, in a transaction that commits at the end. What may pass by itself is a RetriableError."""

    @abstractmethod
    def stream(self, cursor: Any, query: str, values: Sequence[Any]) -> Iterator[Sequence[Sequence[Any]]]:
        """The rows of a query, some at a time, however many there are."""

    @abstractmethod
    def close(self) -> None:
        """May be called more than once."""

    # What there is.

    @abstractmethod
    def tables(self, cursor: Any, *, schema: str | None, views: bool) -> list[TableName]:
        """All tables of the user, of one schema or of all."""

    @abstractmethod
    def columns(self, cursor: Any, table: TableName) -> list[Column]:
        """In order; none when there is no such table."""

    @abstractmethod
    def query_columns(self, cursor: Any, query: str) -> list[Column]:
        """What a query would give."""

    # How its SQL is written.

    def quote(self, name: str) -> str:
        return '"' + name.replace('"', '""') + '"'

    def quote_table(self, table: TableName) -> str:
        return ".".join(self.quote(part) for part in table if part is not None)

    def read_expression(self, column: Column) -> str:
        """How a column is selected."""
        quoted = self.quote(column.name)
        return f"CAST({quoted} AS TEXT) AS {quoted}" if column.as_text else quoted

    def escaped(self, query: str) -> str:
        """A user's query as a part of one with placeholders."""
        return query

    @abstractmethod
    def before_now(self, delay_ms: int) -> str:
        """An expression: the time of the database, less some milliseconds."""

    @abstractmethod
    def sql_type(self, schema: Schema, *, is_key: bool = False) -> str:
        """The type of a column that is created."""

    @abstractmethod
    def formatter(self, schema: Schema) -> Callable[[Any], Any] | None:
        """What makes of a value from a frame one that the driver takes; None when it is one already."""

    def parser(self, schema: Schema) -> Callable[[Any], Any] | None:
        """What makes of a value that was read one of the schema's type; None when it is one already."""
        return None

    def upsert(self, table: TableName, columns: Sequence[str], keys: Sequence[str]) -> str:
        others = [name for name in columns if name not in keys]
        changes = ", ".join(f"{self.quote(name)} = excluded.{self.quote(name)}" for name in others)
        what = f"DO UPDATE SET {changes}" if others else "DO NOTHING"
        return f"{self.insert(table, columns)} ON CONFLICT ({', '.join(map(self.quote, keys))}) {what}"

    def insert(self, table: TableName, columns: Sequence[str]) -> str:
        names = ", ".join(self.quote(name) for name in columns)
        places = ", ".join([self.placeholder] * len(columns))
        return f"INSERT INTO {self.quote_table(table)} ({names}) VALUES ({places})"

    @abstractmethod
    def lock(self, cursor: Any, name: str) -> None:
        """Until the end of the transaction nobody else gets the lock of this name."""

    @abstractmethod
    def table_name(self, text: str) -> TableName:
        """What a configuration means by a name with dots."""


def connection_definitions() -> ConfigDefinitions:
    """The settings that `open_database` looks at; connectors add their own."""
    return (
        ConfigDefinitions()
        .define("connection.url", ConfigType.STRING, importance=Importance.HIGH, validator=NonEmpty(),
                documentation="jdbc:postgresql://host:port/database or jdbc:sqlite:/path/of/the/file.")
        .define("connection.user", ConfigType.STRING, default=None, importance=Importance.HIGH,
                documentation="The user of the database.")
        .define("connection.password", ConfigType.PASSWORD, default=None, importance=Importance.HIGH,
                documentation="The user's password.")
    )  # fmt: skip


def zone_of(name: str) -> datetime.tzinfo:
    """The time zone of `db.timezone`, in which timestamps are that say none."""
    try:
        return datetime.UTC if name == "UTC" else zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError) as error:
        raise ConnectError(f"db.timezone is {name}, which is no time zone that is known here") from error


def open_database(config: Mapping[str, Any]) -> Database:
    """The database that `connection.url`, `connection.user` and `connection.password` mean."""
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
    raise ConnectError(
        f"connection.url begins with {kind}, which is not known: there are jdbc:postgresql: and jdbc:sqlite:. "
        "What has a JDBC driver can be written by SparkSinkConnector with spark.format=jdbc."
    )
