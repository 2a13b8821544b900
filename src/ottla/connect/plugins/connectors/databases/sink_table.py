"""A target table of a batch: its columns, which are created if they are missing, and its statements."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ottla.connect.api import ConnectError
from ottla.connect.api.schema import Schema
from ottla.connect.plugins.connectors.databases.dialect import Database, TableName

__all__ = ["SinkTable", "TargetColumn"]

ROWS_KEPT = 20_000

Row = tuple[Any, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetColumn:
    """A column with the values of the records."""

    name: str
    schema: Schema
    values: Sequence[Any]

    @property
    def is_empty(self) -> bool:
        return all(value is None for value in self.values)


class SinkTable:
    """Collects rows and writes them in bulk, with the result of writing them one by one."""

    def __init__(
        self, database: Database, cursor: Any, table: TableName, settings: Mapping[str, Any], *, ignores_empty: bool
    ) -> None:
        self._database = database
        self._cursor = cursor
        self._table = table
        self._settings = settings
        self._ignores_empty = ignores_empty
        self._mode = settings["insert.mode"]
        self._known: set[str] | None = None
        self._keys: list[str] = []
        self._fields: list[str] = []
        # With upserts the last row of each key; otherwise all rows in order. The row of a delete is None.
        self._last: dict[Row, Row | None] = {}
        self._ordered: list[tuple[Row, Row | None]] = []

    def write(self, keys: Sequence[TargetColumn], fields: Sequence[TargetColumn], present: Sequence[bool]) -> None:
        """Adds rows. `present` is False for tombstones."""
        if not all(present) and not self._settings["delete.enabled"]:
            raise ConnectError("a record has no value, which only delete.enabled=true with pk.mode=record_key allows")
        if any(present):
            fields = self._with_columns(keys, fields)
        elif not self._exists():
            return
        names, key_names = [field.name for field in fields], [key.name for key in keys]
        if any(present) and (names != self._fields or key_names != self._keys):
            self.flush()
            self._fields = names
        self._keys = key_names
        key_rows = list(zip(*(key.values for key in keys), strict=True)) if keys else [()] * len(present)
        rows = list(zip(*(field.values for field in fields), strict=True)) if fields else [()] * len(present)
        if any(None in key for key in key_rows):
            raise ConnectError(f"a record for {self._table} has no value for its primary key {', '.join(key_names)}")
        for key, row, is_present in zip(key_rows, rows, present, strict=True):
            if self._mode == "upsert":
                self._last[key] = row if is_present else None
            else:
                self._ordered.append((key, row if is_present else None))
        if len(self._last) + len(self._ordered) >= ROWS_KEPT:
            self.flush()

    def flush(self) -> None:
        """Writes the collected rows."""
        if self._mode == "upsert":
            self._delete([key for key, row in self._last.items() if row is None])
            self._put([(key, row) for key, row in self._last.items() if row is not None])
            self._last = {}
            return
        run: list[tuple[Row, Row]] = []
        for key, row in self._ordered:
            if row is None:
                self._put(run)
                run = []
                self._delete([key])
            else:
                run.append((key, row))
        self._put(run)
        self._ordered = []

    def _put(self, rows: Sequence[tuple[Row, Row]]) -> None:
        if not rows:
            return
        names = [*self._keys, *self._fields]
        if self._mode == "update":
            if self._fields:
                changes = self._equations(self._fields, ", ")
                statement = f"UPDATE {self._quoted} SET {changes} WHERE {self._equations(self._keys, ' AND ')}"
                self._cursor.executemany(statement, [(*row, *key) for key, row in rows])
            return
        if self._mode == "upsert":
            statement = self._database.upsert(self._table, names, self._keys)
        else:
            statement = self._database.insert(self._table, names)
        self._cursor.executemany(statement, [(*key, *row) for key, row in rows])

    def _delete(self, keys: Sequence[Row]) -> None:
        if keys:
            statement = f"DELETE FROM {self._quoted} WHERE {self._equations(self._keys, ' AND ')}"
            self._cursor.executemany(statement, list(keys))

    def _equations(self, names: Sequence[str], between: str) -> str:
        return between.join(f"{self._database.quote(name)} = {self._database.placeholder}" for name in names)

    # Columns.

    @property
    def _quoted(self) -> str:
        return self._database.quote_table(self._table)

    def _exists(self) -> bool:
        if self._known is None:
            self._known = {column.name for column in self._database.columns(self._cursor, self._table)}
        return bool(self._known)

    def _with_columns(self, keys: Sequence[TargetColumn], fields: Sequence[TargetColumn]) -> list[TargetColumn]:
        """The fields that are columns. Missing columns are added if that is allowed."""
        if not self._exists():
            fields = [field for field in fields if not (self._ignores_empty and field.is_empty)]
            self._create(keys, fields)
        assert self._known is not None
        missing = [column for column in (*keys, *fields) if column.name not in self._known]
        if self._ignores_empty:
            fields = [field for field in fields if field.name in self._known or not field.is_empty]
            missing = [column for column in missing if not column.is_empty]
        if missing:
            self._add(missing)
        return list(fields)

    def _create(self, keys: Sequence[TargetColumn], fields: Sequence[TargetColumn]) -> None:
        if not self._settings["auto.create"]:
            raise ConnectError(f"Table {self._table} does not exist, and auto.create is false.")
        parts = [f"{self._definition(key, is_key=True)} NOT NULL" for key in keys]
        # New columns are nullable, because later records may not have them.
        parts += [self._definition(field) for field in fields]
        if keys:
            parts.append(f"PRIMARY KEY ({', '.join(self._database.quote(key.name) for key in keys)})")
        self._database.lock(self._cursor, f"ottla:{self._quoted}")
        self._cursor.execute(f"CREATE TABLE IF NOT EXISTS {self._quoted} ({', '.join(parts)})")
        self._known = None
        self._exists()

    def _add(self, missing: Sequence[TargetColumn]) -> None:
        if not self._settings["auto.evolve"]:
            names = ", ".join(column.name for column in missing)
            raise ConnectError(f"Table {self._table} has no column {names}, and auto.evolve is false.")
        self._database.lock(self._cursor, f"ottla:{self._quoted}")
        self._known = None
        self._exists()
        for column in missing:
            assert self._known is not None
            if column.name not in self._known:
                self._cursor.execute(f"ALTER TABLE {self._quoted} ADD COLUMN {self._definition(column)}")
                self._known.add(column.name)

    def _definition(self, column: TargetColumn, *, is_key: bool = False) -> str:
        return f"{self._database.quote(column.name)} {self._database.sql_type(column.schema, is_key=is_key)}"
