"""Records of change data capture: Debezium's envelope with the row before and after, and its source.

A delete is followed by a tombstone, so that compaction removes the key. An update of the key is a delete of the old key
and a create of the new one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ottla.connect.api.schema import Field, Schema
from ottla.connect.plugins.connectors.databases import columns
from ottla.connect.plugins.connectors.databases.columns import Column, arrow_array, described, primitive, struct_of
from ottla.connect.plugins.connectors.databases.pgoutput import UNCHANGED, Relation
from ottla.connect.plugins.connectors.databases.postgres_types import column_of_type, text_parser

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql.types import StructType

__all__ = ["CapturedTable", "Envelopes", "columns_of_relations"]

SOURCE = {
    "version": "string",
    "connector": "string",
    "name": "string",
    "ts_ms": "int64",
    "snapshot": "string",
    "db": "string",
    "schema": "string",
    "table": "string",
    "txId": "int64",
    "lsn": "int64",
}
Row = Sequence[Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class CapturedTable:
    """A table in a batch."""

    server: str
    database: str
    schema: str
    name: str
    columns: tuple[Column, ...]

    @property
    def topic(self) -> str:
        return f"{self.server}.{self.schema}.{self.name}"

    @property
    def keys(self) -> list[Column]:
        return [column for column in self.columns if column.is_key]

    def value_schema(self) -> Schema:
        row = struct_of(self.columns, optional=True)
        source = Schema(type="struct", fields=tuple(Field(name, primitive(kind)) for name, kind in SOURCE.items()))
        return Schema(
            type="struct",
            optional=True,
            fields=(
                Field("before", row),
                Field("after", row),
                Field("source", source),
                Field("op", primitive("string", optional=False)),
                Field("ts_ms", primitive("int64")),
            ),
        )

    def frame_schema(self) -> StructType:
        from pyspark.sql.types import StringType, StructField, StructType

        fields = [StructField("topic", StringType()), described("value", self.value_schema())]
        if self.keys:
            fields.append(described("key", struct_of(self.keys, optional=True)))
        return StructType(fields)


def columns_of_relations(relations: Sequence[Relation], keys: Sequence[str]) -> tuple[Column, ...]:
    """The columns of all descriptions of a table in a batch; a column with two types is text.

    `keys` are the columns of the primary key. If the table has changed since, the description's own key is used.
    """
    latest = relations[-1]
    names = {attribute.name for attribute in latest.columns}
    if not keys or not set(keys) <= names:
        keys = [attribute.name for attribute in latest.columns if attribute.is_identity and latest.identity != "f"]
    merged: dict[str, Column] = {}
    for relation in reversed(relations):
        for attribute in relation.columns:
            is_key = attribute.name in keys
            column = column_of_type(
                attribute.name, attribute.type, attribute.modifier, optional=not is_key, is_key=is_key
            )
            known = merged.setdefault(attribute.name, column)
            if known.schema != column.schema:
                merged[attribute.name] = Column(
                    name=attribute.name,
                    schema=columns.primitive("string", optional=not is_key),
                    is_key=is_key,
                    as_text=True,
                )
    return tuple(merged.values())


class Envelopes:
    """Collects the records of a table as Arrow batches."""

    def __init__(self, table: CapturedTable, *, tombstones: bool, placeholder: str, version: str) -> None:
        self._table = table
        self._tombstones = tombstones
        self._version = version
        self._key_places = [place for place, column in enumerate(table.columns) if column.is_key]
        self._parsers = [text_parser(column.schema) for column in table.columns]
        # The placeholder for an unchanged large value; null would mean that it was removed.
        known: dict[str, Any] = {"string": placeholder, "bytes": placeholder.encode()}
        self._placeholders = [None if column.schema.name else known.get(column.schema.type) for column in table.columns]
        # Key, before, after, operation (None: a tombstone), time, and (time, transaction, LSN, snapshot) of the source.
        self._records: list[tuple[Row | None, Row | None, Row | None, str | None, int, tuple[Any, ...]]] = []

    def __len__(self) -> int:
        return len(self._records)

    def places(self, relation: Relation) -> list[int | None]:
        """The index of every column of the table in the rows of a relation."""
        known = {column.name: place for place, column in enumerate(relation.columns)}
        return [known.get(column.name) for column in self._table.columns]

    def row(self, values: Sequence[Any], places: Sequence[int | None], *, old: Row | None = None) -> list[Any]:
        """The text values of a message in the table's order and types; unchanged values come from `old`."""
        row: list[Any] = []
        for number, place in enumerate(places):
            value = None if place is None else values[place]
            if value is UNCHANGED:
                known = None if old is None else old[number]
                value = known if known is not None else self._placeholders[number]
            elif value is not None and (parser := self._parsers[number]) is not None:
                value = parser(value)
            row.append(value)
        return row

    def add(self, operation: str, before: Row | None, after: Row | None, at_ms: int, source: tuple[Any, ...]) -> None:
        """Adds a row with Debezium's operation: c, u, d, r, t. `source` is time, transaction, LSN and snapshot."""
        key = self._key(after if after is not None else before)
        if operation == "u" and before is not None and (old := self._key(before)) != key and old is not None:
            self.add("d", before, None, at_ms, source)
            self.add("c", None, after, at_ms, source)
            return
        self._records.append((key, before, after, operation, at_ms, source))
        if operation == "d" and self._tombstones and key is not None:
            self._records.append((key, None, None, None, at_ms, source))

    def rekey(self, old_key: Row | None, after: Row | None, at_ms: int, source: tuple[Any, ...]) -> None:
        """Adds an update of the key: a delete and a create."""
        if self._key(old_key) == self._key(after):
            self.add("u", None, after, at_ms, source)
            return
        self.add("d", old_key, None, at_ms, source)
        self.add("c", None, after, at_ms, source)

    def take(self) -> pyarrow.RecordBatch:
        """The collected records."""
        import pyarrow

        records, self._records = self._records, []
        keys, before, after, operations, times, sources = (list(part) for part in zip(*records, strict=True))
        source = self._source(sources)
        missing = pyarrow.array([operation is None for operation in operations])
        value = pyarrow.StructArray.from_arrays(
            [
                self._struct(before, self._table.columns),
                self._struct(after, self._table.columns),
                source,
                pyarrow.array([operation or "" for operation in operations], pyarrow.string()),
                pyarrow.array(times, pyarrow.int64()),
            ],
            ["before", "after", "source", "op", "ts_ms"],
            mask=missing,
        )
        arrays = [pyarrow.array([self._table.topic] * len(records), pyarrow.string()), value]
        names = ["topic", "value"]
        if self._key_places:
            arrays.append(self._struct(keys, self._table.keys))
            names.append("key")
        return pyarrow.RecordBatch.from_arrays(arrays, names)

    def _key(self, row: Row | None) -> Row | None:
        if row is None or not self._key_places:
            return None
        return [row[place] for place in self._key_places]

    def _source(self, sources: Sequence[tuple[Any, ...]]) -> pyarrow.Array:
        import pyarrow

        count = len(sources)
        times, transactions, places, snapshots = (list(part) for part in zip(*sources, strict=True))
        table = self._table
        constant = {
            "version": self._version, "connector": "postgresql", "name": table.server,
            "db": table.database, "schema": table.schema, "table": table.name,
        }  # fmt: skip
        given = {"ts_ms": times, "txId": transactions, "lsn": places, "snapshot": snapshots}
        arrays = [
            arrow_array(given[name] if name in given else [constant[name]] * count, primitive(kind))
            for name, kind in SOURCE.items()
        ]
        return pyarrow.StructArray.from_arrays(arrays, list(SOURCE))

    def _struct(self, rows: Sequence[Row | None], wanted: Sequence[Column]) -> pyarrow.Array:
        import pyarrow

        nothing = [None] * len(wanted)
        parts = list(zip(*(nothing if row is None else row for row in rows), strict=True))
        arrays = [arrow_array(part, column.schema) for part, column in zip(parts, wanted, strict=True)]
        mask = pyarrow.array([row is None for row in rows])
        return pyarrow.StructArray.from_arrays(arrays, [column.name for column in wanted], mask=mask)
