"""A batch of the JDBC sink, in an executor, as one transaction of the database.

Records become rows by Arrow columns. With keys, only the last upsert or delete of each key is applied. Without keys,
all rows are inserted in order.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ottla.connect.api import ConnectError, OffsetRange
from ottla.connect.api.schema import Schema
from ottla.connect.plugins.connectors.databases.columns import primitive
from ottla.connect.plugins.connectors.databases.dialect import Database, open_database
from ottla.connect.plugins.connectors.databases.sink_offsets import SinkOffsets
from ottla.connect.plugins.connectors.databases.sink_table import SinkTable, TargetColumn

if TYPE_CHECKING:
    import pyarrow

__all__ = ["BatchPlan", "write_batch"]

KAFKA_COLUMNS = ("__connect_topic", "__connect_partition", "__connect_offset")


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchPlan:
    """The arguments of a batch for the executor."""

    settings: Mapping[str, Any]
    connector: str
    ranges: tuple[OffsetRange, ...]
    key: Schema | None
    value: Schema | None

    @property
    def is_of_one_topic(self) -> bool:
        return len({piece.topic for piece in self.ranges}) == 1


def write_batch(plan: BatchPlan, batches: Iterator[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
    """Writes all rows and the offsets in one transaction, or nothing if they were written before."""
    import pyarrow

    database = open_database(plan.settings)
    offsets = SinkOffsets(database, table=plan.settings["offsets.table"], connector=plan.connector)
    try:
        with database.transaction(writes=True) as cursor:
            count = 0
            if not offsets.is_written(cursor, plan.ranges):
                rows = _Rows(plan, database, cursor)
                for batch in batches:
                    rows.add(batch)
                    count += batch.num_rows
                rows.finish()
                offsets.advance(cursor, plan.ranges)
        yield pyarrow.RecordBatch.from_arrays([pyarrow.array([count], pyarrow.int64())], ["rows"])
    finally:
        database.close()


class _Rows:
    """Distributes records to their tables."""

    def __init__(self, plan: BatchPlan, database: Database, cursor: Any) -> None:
        self._plan = plan
        self._database = database
        self._cursor = cursor
        self._tables: dict[str, SinkTable] = {}
        self._mode = plan.settings["pk.mode"]
        self._wanted = set(plan.settings["fields.whitelist"])

    def add(self, batch: pyarrow.RecordBatch) -> None:
        import pyarrow.compute

        for topic in pyarrow.compute.unique(batch.column("topic")).to_pylist():
            rows = batch.filter(pyarrow.compute.equal(batch.column("topic"), topic))
            keys = self._key_columns(rows)
            fields = self._value_columns(rows, {key.name for key in keys})
            present = rows.column("value").is_valid().to_pylist()
            self._table(topic).write(keys, fields, present)

    def finish(self) -> None:
        for table in self._tables.values():
            table.flush()

    def _table(self, topic: str) -> SinkTable:
        if topic not in self._tables:
            name = self._plan.settings["table.name.format"].replace("${topic}", topic)
            self._tables[topic] = SinkTable(
                self._database,
                self._cursor,
                self._database.table_name(name),
                self._plan.settings,
                # Records of several topics share a type: fields of other topics are not columns here.
                ignores_empty=not self._plan.is_of_one_topic,
            )
        return self._tables[topic]

    def _key_columns(self, rows: pyarrow.RecordBatch) -> list[TargetColumn]:
        names = list(self._plan.settings["pk.fields"])
        if self._mode == "kafka":
            kinds = ("string", "int32", "int64")
            return [
                TargetColumn(name=name, schema=primitive(kind, optional=False), values=rows.column(source).to_pylist())
                for name, kind, source in zip(
                    names or KAFKA_COLUMNS, kinds, ("topic", "partition", "offset"), strict=True
                )
            ]
        if self._mode == "record_value":
            schema = self._plan.value
            if schema is None or not schema.is_struct:
                raise ConnectError("pk.mode=record_value needs values that are structs")
            return self._fields(rows.column("value"), schema, names or None)
        if self._mode == "record_key":
            schema = self._plan.key
            if schema is None:
                raise ConnectError("pk.mode=record_key needs records with a key")
            if schema.is_struct:
                return self._fields(rows.column("key"), schema, names or None)
            if len(names) != 1:
                raise ConnectError("the key is one value: pk.fields needs one name for it")
            return [self._target(names[0], schema, rows.column("key"))]
        return []

    def _value_columns(self, rows: pyarrow.RecordBatch, keys: set[str]) -> list[TargetColumn]:
        schema, values = self._plan.value, rows.column("value")
        if schema is None or not schema.is_struct:
            if values.null_count == len(values):
                return []
            raise ConnectError("values must be structs to become rows: use the transform HoistField")
        names = [
            field.name
            for field in schema.fields
            if field.name not in keys and (not self._wanted or field.name in self._wanted)
        ]
        return self._fields(values, schema, names)

    def _fields(self, values: Any, schema: Schema, names: Sequence[str] | None) -> list[TargetColumn]:
        """The fields of these names; None means all. With no names the row consists of its key."""
        columns = []
        parts = dict(zip([field.name for field in schema.fields], values.flatten(), strict=True))
        for name in parts if names is None else names:
            described = schema.field(name)
            if described is None:
                raise ConnectError(f"pk.fields names {name}, which the records do not have")
            columns.append(self._target(name, described, parts[name]))
        return columns

    def _target(self, name: str, schema: Schema, values: Any) -> TargetColumn:
        if schema.type == "variant":
            raise ConnectError(f"the type of {name} varies: the sink needs records with a schema")
        listed = values.to_pylist()
        formatter = self._database.formatter(schema)
        if formatter is not None:
            listed = [None if value is None else formatter(value) for value in listed]
        return TargetColumn(name=name, schema=schema, values=listed)
