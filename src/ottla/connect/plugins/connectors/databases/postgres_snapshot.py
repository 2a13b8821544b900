"""The present rows of a PostgreSQL table, in portions by primary key."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from ottla.connect.api import ConnectError
from ottla.connect.plugins.connectors.databases.columns import Column
from ottla.connect.plugins.connectors.databases.dialect import TableName
from ottla.connect.plugins.connectors.databases.postgres_types import column_of_type
from ottla.connect.plugins.connectors.databases.postgresql import PostgreSQL

__all__ = ["Snapshot", "table_columns"]

# The types are those in changes, where a domain is a type of its own. The key has the columns that changes contain of a
# deleted row: the primary key, or the columns of the replica identity index.
COLUMNS = """
SELECT a.attname, a.atttypid, a.atttypmod, coalesce(a.attnum = ANY(i.indkey), false)
FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid
LEFT JOIN pg_index i ON i.indrelid = c.oid
    AND CASE c.relreplident WHEN 'i' THEN i.indisreplident ELSE i.indisprimary END
WHERE a.attrelid = to_regclass(%s) AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = ''
ORDER BY a.attnum
"""
# In the order of the index, so that the query can use it.
KEYS = """
SELECT a.attname FROM pg_index i JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = ANY(i.indkey)
WHERE i.indrelid = to_regclass(%s) AND i.indisprimary ORDER BY array_position(i.indkey::int2[], a.attnum)
"""


def table_columns(database: PostgreSQL, table: TableName) -> list[Column]:
    """The columns with their types in changes. All are nullable except those of the primary key."""
    with database.transaction() as cursor:
        cursor.execute(COLUMNS, (database.quote_table(table),))
        return [
            column_of_type(name, oid, modifier, optional=not is_key, is_key=is_key)
            for name, oid, modifier, is_key in cursor.fetchall()
        ]


class Snapshot:
    def __init__(self, database: PostgreSQL) -> None:
        self._database = database

    def keys(self, table: TableName) -> list[str]:
        """The columns of the primary key."""
        with self._database.transaction() as cursor:
            cursor.execute(KEYS, (self._database.quote_table(table),))
            return [name for (name,) in cursor.fetchall()]

    def end(self, table: TableName, after: Sequence[str] | None, limit: int) -> tuple[list[str] | None, int]:
        """The primary key of the last row of the next portion, as text, and the number of its rows."""
        quoted = [self._database.quote(name) for name in self.keys(table)]
        order = ", ".join(quoted)
        where = f"WHERE {self._compared(quoted, '>')}" if after is not None else ""
        shown = ", ".join(f"portion.{name}::text" for name in quoted)
        # Without the table's name the query would order by the text of the output column.
        backwards = ", ".join(f"portion.{name} DESC" for name in quoted)
        query = (
            f"SELECT {shown}, count(*) OVER () FROM (SELECT {order} FROM {self._database.quote_table(table)} {where} "
            f"ORDER BY {order} LIMIT {limit}) AS portion ORDER BY {backwards} LIMIT 1"
        )
        with self._database.transaction() as cursor:
            row = cursor.execute(query, after).fetchone()
        return (None, 0) if row is None else (list(row[:-1]), int(row[-1]))

    def rows(
        self, table: TableName, columns: Sequence[Column], after: Sequence[str] | None, last: Sequence[str] | None
    ) -> Iterator[Sequence[Sequence[Any]]]:
        """The rows of a portion in order of the primary key; all rows of a table without one."""
        quoted = [self._database.quote(name) for name in self.keys(table)]
        conditions: list[str] = []
        values: list[Any] = []
        for operator, place in ((">", after), ("<=", last)):
            if place is not None:
                conditions.append(self._compared(quoted, operator))
                values += place
        names = ", ".join(self._database.read_expression(column) for column in columns)
        where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
        order = f" ORDER BY {', '.join(quoted)}" if quoted else ""
        query = f"SELECT {names} FROM {self._database.quote_table(table)}{where}{order}"
        with self._database.transaction() as cursor:
            yield from self._database.stream(cursor, query, values)

    def set_identities(self, tables: Sequence[TableName], wanted: Sequence[str]) -> None:
        """Sets REPLICA IDENTITY by `pattern:FULL` or `pattern:DEFAULT`."""
        for rule in wanted:
            pattern, _, identity = rule.rpartition(":")
            if identity.upper() not in ("FULL", "DEFAULT"):
                raise ConnectError(
                    f"replica.identity.autoset.values must be pattern:FULL or pattern:DEFAULT, not {rule}"
                )
            for table in tables:
                if re.fullmatch(pattern, str(table)):
                    self._set_identity(table, identity.upper())

    def _set_identity(self, table: TableName, identity: str) -> None:
        quoted = self._database.quote_table(table)
        with self._database.transaction(writes=True) as cursor:
            cursor.execute("SELECT relreplident::text FROM pg_class WHERE oid = to_regclass(%s)", (quoted,))
            if cursor.fetchone() != (identity[0].lower(),):
                cursor.execute(f"ALTER TABLE {quoted} REPLICA IDENTITY {identity}")

    def _compared(self, quoted: Sequence[str], operator: str) -> str:
        return f"({', '.join(quoted)}) {operator} ({', '.join(['%s'] * len(quoted))})"
