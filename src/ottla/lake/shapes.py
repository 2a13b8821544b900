"""Converts records to rows, in executors. The shape of the rows depends on the mode of the table."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import pyarrow as pa

from ottla.lake.columns import META_SCHEMA, dead_letter_rows, meta_columns, raw_rows
from ottla.lake.values import fitting_value
from ottla.serdes.protocol import SerializationError
from ottla.serdes.registry_client import SchemaText, is_registry_failure, registry_client
from ottla.spark.registry_values import message_value

__all__ = ["RawShape", "RowShape", "TypedShape"]

VALUE = "value"
"""The column of a schema that is not a record."""

_DOES_NOT_FIT = (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError, ValueError, TypeError, AttributeError)


class RowShape(Protocol):
    """`key` is the column of the record's key, `order` the columns by which records are in the order of the topic."""

    @property
    def key(self) -> str: ...

    @property
    def order(self) -> tuple[str, str]: ...

    def split(self, records: pa.RecordBatch) -> tuple[pa.RecordBatch, pa.RecordBatch | None]:
        """The rows of the records, and the dead letters among them."""
        ...


@dataclass(frozen=True, slots=True)
class RawShape:
    key: str = "key"
    order: tuple[str, str] = ("partition", "offset")

    def split(self, records: pa.RecordBatch) -> tuple[pa.RecordBatch, pa.RecordBatch | None]:
        return raw_rows(records), None


@dataclass(frozen=True, slots=True)
class TypedShape:
    """Columns of the value's schema. A record is decoded with the schema that wrote it, and fitted to the columns."""

    topic: str
    columns: pa.Schema
    """All columns of the table."""
    latest: SchemaText
    registry: tuple[tuple[str, str], ...]
    is_record: bool
    renamed: Mapping[str, str] = field(default_factory=dict)
    """Columns by the names that they had in older schemas."""
    key: str = "_key"
    order: tuple[str, str] = ("_partition", "_offset")

    def split(self, records: pa.RecordBatch) -> tuple[pa.RecordBatch, pa.RecordBatch | None]:
        decode = _decoder(self.registry, self.latest)
        value_type = pa.struct([column for column in self.columns if column.name not in META_SCHEMA.names])
        values: list[Any] = []
        problems: dict[int, str] = {}
        for number, data in enumerate(records.column("value").to_pylist()):
            try:
                values.append(None if data is None else self._fitted(decode(self.topic, data), value_type))
            except (SerializationError, *_DOES_NOT_FIT) as error:
                if is_registry_failure(error):
                    # The record may be good, so the batch is repeated. The request may be for a data key of a rule.
                    raise
                values.append(None)
                problems[number] = str(error) or type(error).__name__
        columns = self._as_columns(values, value_type, problems)
        rows = self._rows(records, columns)
        if not problems:
            return rows, None
        bad = sorted(problems)
        good = pa.array(number not in problems for number in range(records.num_rows))
        return rows.filter(good), dead_letter_rows(records.take(pa.array(bad)), [problems[number] for number in bad])

    def _fitted(self, value: Any, value_type: pa.StructType) -> Any:
        if not self.is_record:
            value = {VALUE: value}
        elif self.renamed:
            # An earlier name may be that of a new field by now: a record that has both has two fields.
            names = {name: self.renamed.get(name, name) for name in value}
            value = {name if names[name] in value else names[name]: content for name, content in value.items()}
        return fitting_value(value, value_type)

    def _as_columns(self, values: list[Any], value_type: pa.StructType, problems: dict[int, str]) -> pa.StructArray:
        try:
            return pa.array(values, type=value_type)
        except _DOES_NOT_FIT:
            # Arrow refuses a value, such as a number that is too large: every value is tried alone.
            for number, value in enumerate(values):
                try:
                    pa.array([value], type=value_type)
                except _DOES_NOT_FIT as error:
                    problems[number] = str(error)
                    values[number] = None
            return pa.array(values, type=value_type)

    def _rows(self, records: pa.RecordBatch, columns: pa.StructArray) -> pa.RecordBatch:
        # `flatten` applies the nulls of tombstones to the columns.
        decoded = dict(zip([column.name for column in columns.type], columns.flatten(), strict=True))
        everything = {**meta_columns(records), **decoded}
        arrays = [everything[column.name].cast(column.type) for column in self.columns]
        return pa.RecordBatch.from_arrays(arrays, schema=self.columns)


@functools.lru_cache(maxsize=64)
def _decoder(settings: tuple[tuple[str, str], ...], latest: SchemaText) -> Any:
    """The decoder of a worker process, which caches schemas."""
    if latest.schema_type == "AVRO":
        from ottla.serdes.avro import AvroDeserializer

        deserializer: Any = AvroDeserializer()
    elif latest.schema_type == "PROTOBUF":
        from ottla.serdes.protobuf import ProtobufDeserializer

        deserializer = ProtobufDeserializer()
    else:
        from ottla.serdes.json_schema import JsonSchemaDeserializer

        deserializer = JsonSchemaDeserializer()
    deserializer.configure(dict(settings), is_key=False)
    if latest.schema_type != "PROTOBUF":
        return deserializer.deserialize
    return functools.partial(_message_fields, deserializer.deserialize, _first_message(settings, latest))


def _first_message(settings: tuple[tuple[str, str], ...], latest: SchemaText) -> str:
    from ottla.serdes.protobuf import message_class

    client = registry_client(dict(settings))
    try:
        name: str = message_class(client, latest, [0]).DESCRIPTOR.full_name  # type: ignore[attr-defined]
        return name
    finally:
        client.close()


def _message_fields(decode: Any, expected: str, topic: str, data: bytes) -> Any:
    """The fields of a message. A file may have several messages, and the table has the columns of the first one."""
    from ottla.serdes.protobuf import message_path

    message = decode(topic, data)
    descriptor = message.DESCRIPTOR
    if descriptor.full_name != expected and message_path(descriptor) != [0]:
        raise ValueError(f"The message is a {descriptor.full_name}, and the table has the columns of {expected}.")
    return message_value(message)
