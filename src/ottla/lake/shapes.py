"""From records to rows, in executors: what a mode makes of a batch of the source."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import pyarrow as pa

from ottla.lake.columns import META_SCHEMA, dead_letter_rows, meta_columns, raw_rows
from ottla.lake.values import fitting_value
from ottla.serdes.protocol import SerializationError
from ottla.serdes.registry_client import RegistryClientError, SchemaText, registry_client
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
        wanted = pa.struct([each for each in self.columns if each.name not in META_SCHEMA.names])
        values: list[Any] = []
        problems: dict[int, str] = {}
        for number, data in enumerate(records.column("value").to_pylist()):
            try:
                values.append(None if data is None else self._fitted(decode(self.topic, data), wanted))
            except (SerializationError, *_DOES_NOT_FIT) as error:
                cause = error.__cause__
                if isinstance(cause, RegistryClientError) and cause.status != 404:
                    # The registry is away, which says nothing about the record: the batch is repeated.
                    raise
                values.append(None)
                problems[number] = str(error) or type(error).__name__
        columns = self._as_columns(values, wanted, problems)
        rows = self._rows(records, columns)
        if not problems:
            return rows, None
        bad = sorted(problems)
        good = pa.array(number not in problems for number in range(records.num_rows))
        return rows.filter(good), dead_letter_rows(records.take(pa.array(bad)), [problems[number] for number in bad])

    def _fitted(self, value: Any, wanted: pa.StructType) -> Any:
        if not self.is_record:
            value = {VALUE: value}
        elif self.renamed:
            # An earlier name may be that of a new field by now: a record that has both has two fields.
            names = {name: self.renamed.get(name, name) for name in value}
            value = {name if names[name] in value else names[name]: each for name, each in value.items()}
        return fitting_value(value, wanted)

    def _as_columns(self, values: list[Any], wanted: pa.StructType, problems: dict[int, str]) -> pa.StructArray:
        try:
            return pa.array(values, type=wanted)
        except _DOES_NOT_FIT:
            # A value that Arrow refuses, such as a number that is too large: each is tried alone.
            for number, value in enumerate(values):
                try:
                    pa.array([value], type=wanted)
                except _DOES_NOT_FIT as error:
                    problems[number] = str(error)
                    values[number] = None
            return pa.array(values, type=wanted)

    def _rows(self, records: pa.RecordBatch, columns: pa.StructArray) -> pa.RecordBatch:
        # `flatten` applies the nulls of tombstones to the columns.
        decoded = dict(zip([each.name for each in columns.type], columns.flatten(), strict=True))
        everything = {**meta_columns(records), **decoded}
        arrays = [everything[each.name].cast(each.type) for each in self.columns]
        return pa.RecordBatch.from_arrays(arrays, schema=self.columns)


@functools.lru_cache(maxsize=64)
def _decoder(settings: tuple[tuple[str, str], ...], latest: SchemaText) -> Any:
    """One for each worker process: it keeps the schemas that it has seen."""
    if latest.schema_type == "AVRO":
        from ottla.serdes.avro import AvroDeserializer

        made: Any = AvroDeserializer()
    elif latest.schema_type == "PROTOBUF":
        from ottla.serdes.protobuf import ProtobufDeserializer

        made = ProtobufDeserializer()
    else:
        from ottla.serdes.json_schema import JsonSchemaDeserializer

        made = JsonSchemaDeserializer()
    made.configure(dict(settings), is_key=False)
    if latest.schema_type != "PROTOBUF":
        return made.deserialize
    return functools.partial(_message_fields, made.deserialize, _first_message(settings, latest))


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
