"""The SQL that reads a table in portions: the rows after a position up to and including another, in order.

A position (`Place`) has a value for each column that orders the rows: the incrementing column, the timestamp, or both.
Bulk mode has no order and no positions; it reads all rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ottla.connect.api import ConnectError
from ottla.connect.plugins.connectors.databases.columns import Column
from ottla.connect.plugins.connectors.databases.dialect import Database

__all__ = ["INCREMENTING", "MODES", "TIMESTAMP", "Place", "TableQuery", "incrementing_column"]

BULK, INCREMENTING, TIMESTAMP, BOTH = "bulk", "incrementing", "timestamp", "timestamp+incrementing"
MODES = (BULK, INCREMENTING, TIMESTAMP, BOTH)

Place = tuple[Any, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TableQuery:
    """A table or query, in a mode."""

    database: Database
    # The text after FROM.
    source: str
    columns: Sequence[Column]
    # The columns that order the rows. Several timestamp columns count as one: the first that is not null.
    timestamps: tuple[str, ...] = ()
    incrementing: str | None = None
    delay_ms: int = 0
    suffix: str = ""

    @property
    def order(self) -> list[str]:
        """The expressions of a position."""
        quote = self.database.quote
        expressions = []
        if len(self.timestamps) == 1:
            expressions.append(quote(self.timestamps[0]))
        elif self.timestamps:
            expressions.append(f"COALESCE({', '.join(map(quote, self.timestamps))})")
        if self.incrementing is not None:
            expressions.append(quote(self.incrementing))
        return expressions

    def rows(self, start: Place | None, end: Place | None) -> tuple[str, list[Any]]:
        """All columns of the rows between two positions."""
        names = ", ".join(self.database.read_expression(column) for column in self.columns)
        conditions, values = self._after(start)
        if end is not None:
            conditions.append(self._compared("<=", end))
            values += end
        return f"{self._statement(names, conditions, order=', '.join(self.order))} {self.suffix}".rstrip(), values

    def end(self, start: Place | None, limit: int) -> tuple[str, list[Any]]:
        """The position of the last row of the next portion; times are exact text."""
        order = self.order
        conditions, values = self._after(start)
        if self.timestamps:
            conditions.append(f"{order[0]} < {self.database.before_now(self.delay_ms)}")
        names = [f"k{place}" for place in range(len(order))]
        inner = self._statement(
            ", ".join(f"{expression} AS {name}" for expression, name in zip(order, names, strict=True)),
            conditions or [f"{order[0]} IS NOT NULL"],
            order=", ".join(order),
        )
        shown = [f"CAST({name} AS TEXT)" if self.timestamps and name == "k0" else name for name in names]
        backwards = ", ".join(f"q.{name} DESC" for name in names)
        return f"SELECT {', '.join(shown)} FROM ({inner} LIMIT {limit}) AS q ORDER BY {backwards} LIMIT 1", values

    def _after(self, start: Place | None) -> tuple[list[str], list[Any]]:
        if start is None or not self.order:
            return [], []
        return [self._compared(">", start)], list(start)

    def _compared(self, operator: str, place: Place) -> str:
        marks = [self.database.placeholder] * len(place)
        if len(place) == 1:
            return f"{self.order[0]} {operator} {marks[0]}"
        return f"({', '.join(self.order)}) {operator} ({', '.join(marks)})"

    def _statement(self, names: str, conditions: Sequence[str], *, order: str) -> str:
        where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
        ordered = f" ORDER BY {order}" if order else ""
        return f"SELECT {names} FROM {self.source}{where}{ordered}"


def incrementing_column(columns: Sequence[Column], table: object) -> str:
    """The default column: a primary key that is a single whole number."""
    keys = [column for column in columns if column.is_key]
    if len(keys) != 1 or not keys[0].schema.type.startswith("int"):
        raise ConnectError(f"{table} has no primary key that is a single whole number: set incrementing.column.name")
    return keys[0].name
