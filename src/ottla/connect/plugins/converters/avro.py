"""Avro: a message is the plain binary form of a value, with a schema from the configuration.

`value.converter.schema` is the schema, `value.converter.schema.file` a file with it. With `schema.registry.url`,
messages contain the id of their schema (`registry`).

Spark's own Avro functions are not part of its package, so fastavro converts whole columns.
"""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from pathlib import Path
from struct import error as struct_error
from typing import TYPE_CHECKING, Any

from ottla.connect.api import ConfigDefinitions, ConfigError, ConfigType, ConnectError, Importance, schema
from ottla.connect.api.spark_functions import arrow_function, sql
from ottla.connect.plugins.converters.avro_schema import avro_from_schema, field_name, readable_avro, schema_from_avro
from ottla.connect.plugins.converters.base import STAGED, ColumnConverter, Converted, java_names
from ottla.connect.plugins.converters.registry import decode_with_registry, encode_with_registry, registry_settings
from ottla.serdes.avro_limits import value_limits
from ottla.spark.registry_values import values_with_problems

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql import Column, DataFrame

__all__ = ["AvroConverter", "plain"]


class AvroConverter(ColumnConverter):
    """Avro's binary form, alone or with the id of a schema in a registry."""

    aliases = java_names("io.confluent.connect.avro.AvroConverter")

    @classmethod
    def config_definitions(cls) -> ConfigDefinitions:
        return (
            registry_settings(ConfigDefinitions())
            .define(
                "schema",
                ConfigType.STRING,
                default=None,
                importance=Importance.HIGH,
                documentation="The Avro schema of all messages, as JSON. Sources may leave it out: "
                "what they write then follows from their own schema.",
            )
            .define(
                "schema.file",
                ConfigType.STRING,
                default=None,
                importance=Importance.HIGH,
                documentation="A file with the Avro schema, instead of `schema`.",
            )
        )

    def configure(self, config: Mapping[str, str], *, is_key: bool) -> None:
        super().configure(config, is_key=is_key)
        text, file = self.settings.text_or_none("schema"), self.settings.text_or_none("schema.file")
        if text and file:
            raise ConfigError("schema and schema.file exclude each other.", name="schema.file")
        if file:
            try:
                text = Path(file).read_text()
            except OSError as error:
                raise ConfigError(f"schema.file cannot be read: {error}", name="schema.file") from error
        self._avro = _parsed(text) if text else None

    def encode(self, column: Column, given: schema.Schema, *, schemaless: bool) -> Converted:
        avro = self._avro if self._avro is not None else avro_from_schema(given)
        text = json.dumps(avro)
        if self.settings.text_or_none("schema.registry.url"):
            _check_names(given)
            return encode_with_registry(self, column, text, "AVRO")
        staged = sql.col(STAGED)
        return Converted(
            staged=_encoded(column, text),
            column=staged.getField("bytes"),
            failed=staged.getField("problem").isNotNull(),
            message=staged.getField("problem"),
        )

    def decode(self, frame: DataFrame, column: str) -> Converted:
        from pyspark.sql import types as spark

        if self.settings.text_or_none("schema.registry.url"):
            return decode_with_registry(self, column)
        if self._avro is None:
            raise ConnectError("AvroConverter needs `schema`, `schema.file` or a registry to read messages")
        given = schema_from_avro(self._avro)
        result = spark.StructType(
            [
                spark.StructField("value", schema.spark_type(given)),
                spark.StructField("problem", spark.StringType()),
            ]
        )
        text = json.dumps(readable_avro(self._avro))

        def decoded(values: pyarrow.Array) -> pyarrow.Array:
            return _decode(values, text, result)

        staged = sql.col(STAGED)
        return Converted(
            staged=arrow_function(decoded, result)(sql.col(column)),
            column=staged.getField("value"),
            schema=given,
            failed=staged.getField("problem").isNotNull(),
            message=staged.getField("problem"),
        )


def _parsed(text: str) -> Any:
    import fastavro

    try:
        avro = json.loads(text)
        schema_from_avro(avro)
        fastavro.parse_schema(avro)
    except (ValueError, schema.SchemaError, fastavro.schema.SchemaParseException) as error:
        raise ConfigError(f"schema is not a supported Avro schema: {error}", name="schema") from error
    return avro


def _check_names(given: schema.Schema) -> None:
    """With a registry, fields are written under their own names, which Avro must allow."""
    for field in given.fields:
        if field.name != field_name(field.name):
            raise ConnectError(f"The field {field.name} has no valid Avro name; rename it with a transform")
        _check_names(field.schema)
    for inner in (given.items, given.values):
        if inner is not None:
            _check_names(inner)


def _encoded(column: Column, avro_text: str) -> Column:
    def encoded(values: pyarrow.Array) -> pyarrow.Array:
        import fastavro
        import pyarrow

        parsed = fastavro.parse_schema(json.loads(avro_text))
        result, problems = [], []
        for value in values.to_pylist():
            data, problem = None, None
            if value is not None:
                buffer = io.BytesIO()
                try:
                    fastavro.schemaless_writer(buffer, parsed, plain(value, values.type))
                    data = buffer.getvalue()
                except (ValueError, TypeError, AttributeError, KeyError, OverflowError) as error:
                    problem = f"the value does not fit the Avro schema: {error}"
            result.append(data)
            problems.append(problem)
        return pyarrow.StructArray.from_arrays(
            [pyarrow.array(result, pyarrow.binary()), pyarrow.array(problems, pyarrow.string())], ["bytes", "problem"]
        )

    return arrow_function(encoded, "struct<bytes:binary,problem:string>")(column)


def _decode(values: pyarrow.Array, avro_text: str, result: Any) -> pyarrow.Array:
    import fastavro
    from pyspark.sql.pandas.types import to_arrow_type

    parsed = fastavro.parse_schema(json.loads(avro_text))
    limits = value_limits(parsed)
    rows = []
    for data in values.to_pylist():
        row: dict[str, Any] = {"value": None, "problem": None}
        if data is not None:
            buffer = io.BytesIO(data)
            try:
                if limits is not None:
                    limits.check(memoryview(data))
                row["value"] = fastavro.schemaless_reader(buffer, parsed, None)
                if buffer.tell() != len(data):
                    row = {"value": None, "problem": f"{len(data) - buffer.tell()} bytes follow the Avro value"}
            except (ValueError, TypeError, EOFError, IndexError, KeyError, OverflowError, struct_error) as error:
                row["problem"] = f"this is no Avro of the schema: {type(error).__name__} {error}"
        rows.append(row)
    return values_with_problems(rows, to_arrow_type(result, timezone="UTC"))


def plain(value: Any, kind: pyarrow.DataType) -> Any:
    """An Arrow value for fastavro: maps as dictionaries instead of lists of pairs, fields with Avro names."""
    from pyarrow import types

    if value is None:
        return None
    if types.is_struct(kind):
        return {field_name(field.name): plain(value[field.name], field.type) for field in kind}
    if types.is_map(kind):
        return {key: plain(item, kind.item_type) for key, item in value}
    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        return [plain(element, kind.value_type) for element in value]
    return value
