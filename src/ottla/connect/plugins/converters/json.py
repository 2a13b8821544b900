"""JSON as Kafka Connect's JsonConverter writes and reads it, with schemas and without.

With schemas (`schemas.enable=true`, the default) a message is an envelope, `{"schema": ..., "payload": ...}`. A
DataFrame has one type for all rows, but every message has its own schema. Reading therefore first collects the schemas
of a batch and merges them (all fields, widened numbers). With `schema.content` the schema is in the configuration
(KIP-1054): messages are bare payloads, and the first pass is not needed. Without schemas the first pass infers fields
and types, unless there is a `schema.content`.

A message that is not JSON, not an envelope, or does not match its schema fails alone.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ottla.connect.api import ConfigDefinitions, ConfigError, ConfigType, ConnectError, Importance, OneOf, Range, schema
from ottla.connect.api.spark_functions import sql
from ottla.connect.plugins.converters.base import STAGED, ColumnConverter, Converted, java_names
from ottla.connect.plugins.converters.json_expressions import (
    decimals_lost,
    json_text,
    parse_type,
    required_missing,
    typed,
)

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType

__all__ = ["JsonConverter", "default_as", "json_text"]

# The most different schemas in a batch: the driver parses all of them.
SCHEMAS_MAX = 1000
CORRUPT = "__corrupt"
# Schemas with other scales of decimals than the merged schema, and their text in messages.
Otherwise = Sequence[tuple[schema.Schema, str]]


class JsonConverter(ColumnConverter):
    """JSON, with Connect's schemas or without."""

    aliases = java_names("org.apache.kafka.connect.json.JsonConverter")

    @classmethod
    def config_definitions(cls) -> ConfigDefinitions:
        return (
            ConfigDefinitions()
            .define(
                "schemas.enable",
                ConfigType.BOOLEAN,
                default=True,
                importance=Importance.HIGH,
                documentation="Whether every message is an envelope of its schema and its payload.",
            )
            .define(
                "schema.content",
                ConfigType.STRING,
                default=None,
                importance=Importance.HIGH,
                documentation="The schema of all messages, in Connect's JSON. Messages are then read as bare payloads.",
                validator=_check_schema,
            )
            .define(
                "schemas.cache.size",
                ConfigType.INT,
                default=SCHEMAS_MAX,
                importance=Importance.HIGH,
                validator=Range(minimum=1),
                documentation="How many different schemas one batch may have.",
            )
            .define(
                "decimal.format",
                ConfigType.STRING,
                default="BASE64",
                importance=Importance.LOW,
                validator=OneOf("BASE64", "NUMERIC", any_case=True),
                documentation="How decimals are written: the base64 of their bytes, or a number. Both are read.",
            )
            .define(
                "replace.null.with.default",
                ConfigType.BOOLEAN,
                default=True,
                importance=Importance.LOW,
                documentation="Whether a field that is null and has a default gets the default.",
            )
        )

    def encode(self, column: Column, given: schema.Schema, *, schemaless: bool) -> Converted:
        defaults = self.settings.flag("replace.null.with.default")
        numeric = self.settings.text("decimal.format").upper() == "NUMERIC"
        payload = json_text(column, given, numeric_decimals=numeric, defaults=defaults)
        if self.settings.flag("schemas.enable"):
            written = None if schemaless else schema.schema_to_json(given)
            text = json.dumps(written, separators=(",", ":"), ensure_ascii=False)
            payload = sql.concat(sql.lit(f'{{"schema":{text},"payload":'), payload, sql.lit("}"))
        failed = None if schemaless else required_missing(column, given, defaults=defaults)
        return Converted(
            column=sql.when(column.isNotNull(), payload).cast("binary"),
            failed=None if failed is None else column.isNotNull() & failed,
            message=sql.lit("a field that is required and has no default is null"),
        )

    @property
    def looks_at_batch(self) -> bool:
        return self._fixed_schema is None

    def decode(self, frame: DataFrame, column: str) -> Converted:
        text = sql.col(column).cast("string")
        if self._fixed_schema is not None:
            return self._decoded(text, text, self._fixed_schema)
        if not self.settings.flag("schemas.enable"):
            return self._decode_schemaless(frame, text, text)
        merged, otherwise, left_out = self._schemas_in(frame, text)
        if merged is None:
            payload = sql.get_json_object(text, "$.payload")
            return _require_envelope(self._decode_schemaless(frame, text, payload), text, left_out)
        return _require_envelope(self._decoded(text, text, merged, wrapped=True, otherwise=otherwise), text, left_out)

    @property
    def _fixed_schema(self) -> schema.Schema | None:
        content = self.settings.text_or_none("schema.content")
        return schema.schema_from_json(json.loads(content)) if content else None

    def _schemas_in(self, frame: DataFrame, text: Column) -> tuple[schema.Schema | None, Otherwise, list[str]]:
        """The merged schema of a batch, the schemas with other decimal scales, and the schemas that cannot be merged.

        The most frequent schema comes first, so that a single deviating message does not fail the batch.
        """
        _require_batch(frame)
        most = self.settings.integer("schemas.cache.size")
        counts = frame.select(sql.get_json_object(text, "$.schema").alias("schema")).groupBy("schema").count()
        rows = [row for row in counts.limit(most + 2).collect() if row["schema"] is not None]
        if len(rows) > most:
            raise ConnectError(f"a batch has more than {most} different schemas (schemas.cache.size)")
        merged: schema.Schema | None = None
        known, left_out = [], []
        for row in sorted(rows, key=lambda row: (-row["count"], row["schema"])):
            try:
                given = schema.schema_from_json(json.loads(row["schema"]))
                merged = given if merged is None else schema.merge(merged, given)
                known.append((row["schema"], given))
            except (schema.SchemaError, ValueError):
                left_out.append(row["schema"])
        otherwise = []
        for given_text, given in known:
            assert merged is not None
            rescaled = schema.scaled_as(merged, given)
            if rescaled != merged:
                otherwise.append((rescaled, given_text))
        return merged, otherwise, left_out

    def _decoded(
        self, text: Column, source: Column, given: schema.Schema, *, wrapped: bool = False, otherwise: Otherwise = ()
    ) -> Converted:
        """Values of a known schema. Spark keeps the text of values that do not match in a column."""
        from pyspark.sql import types as spark

        defaults = self.settings.flag("replace.null.with.default")
        # A bare payload is wrapped, so that `from_json` can parse lists and single values, too.
        name = "payload"
        document = source if wrapped else sql.concat(sql.lit('{"payload":'), source, sql.lit("}"))
        fields = [spark.StructField(name, parse_type(given)), spark.StructField(CORRUPT, spark.StringType())]
        options = {"columnNameOfCorruptRecord": CORRUPT, "mode": "PERMISSIVE"}
        parsed = sql.col(STAGED)
        payload = parsed.getField(name)
        failed = text.isNotNull() & (parsed.isNull() | parsed.getField(CORRUPT).isNotNull())
        missing = required_missing(payload, given, defaults=defaults)
        if missing is not None:
            failed = failed | (payload.isNotNull() & missing)
        own_schema = sql.get_json_object(text, "$.schema")
        if not given.optional and not (defaults and given.default is not None):
            has_schema = own_schema.isNotNull() if wrapped else sql.lit(True)
            failed = failed | (payload.isNull() & text.isNotNull() & has_schema)
        lost = decimals_lost(payload, given)
        if lost is not None:
            failed = failed | lost
        value = typed(payload, given, defaults=defaults)
        for other, written in otherwise:
            rescaled = typed(payload, other, defaults=defaults).cast(schema.spark_type(given))
            value = sql.when(own_schema == written, rescaled).otherwise(value)
        return Converted(
            staged=sql.from_json(document, spark.StructType(fields), options),
            column=value,
            schema=given,
            failed=sql.coalesce(failed, sql.lit(False)),
            message=sql.concat(sql.lit("the JSON does not fit its schema: "), sql.left(text, sql.lit(200))),
        )

    def _decode_schemaless(self, frame: DataFrame, text: Column, payload: Column) -> Converted:
        from pyspark.sql import types as spark

        _require_batch(frame)
        variant = sql.try_parse_json(payload)
        row = frame.select(sql.schema_of_variant_agg(variant).alias("looks")).first()
        value_type = _type_of_variants(row[0] if row is not None and row[0] is not None else "VOID")
        wrapped = spark.StructType(
            [spark.StructField("value", value_type), spark.StructField(CORRUPT, spark.StringType())]
        )
        document = sql.concat(sql.lit('{"value":'), payload, sql.lit("}"))
        parsed = sql.col(STAGED)
        return Converted(
            staged=sql.from_json(document, wrapped, {"columnNameOfCorruptRecord": CORRUPT}),
            column=parsed.getField("value"),
            schemaless=True,
            failed=payload.isNotNull() & (parsed.isNull() | parsed.getField(CORRUPT).isNotNull()),
            message=sql.concat(sql.lit("this is no JSON: "), sql.left(text, sql.lit(200))),
        )


def default_as(given: schema.Schema, kind: str) -> object:
    """The default of a schema, cast to another primitive type, as JSON; None if there is none."""
    default = given.default
    if default is None:
        return None
    if kind == "string":
        return str(default).lower() if isinstance(default, bool) else str(default)
    if kind == "boolean":
        return default == "true" if isinstance(default, str) else bool(default)
    try:
        number = float(default) if kind in ("float", "double") else int(default)
    except (TypeError, ValueError):
        return None
    return number


def _require_envelope(decoded: Converted, text: Column, left_out: list[str]) -> Converted:
    """Fails messages that are not envelopes of schema and payload, or whose schema could not be merged."""
    keys = sql.array_sort(sql.json_object_keys(text))
    is_envelope = sql.coalesce(keys == sql.array(sql.lit("payload"), sql.lit("schema")), sql.lit(False))
    assert decoded.failed is not None
    failed = ~is_envelope | decoded.failed
    if left_out:
        failed = failed | sql.coalesce(sql.get_json_object(text, "$.schema").isin(left_out), sql.lit(False))
    complaint = sql.lit(
        "a message with schemas.enable=true is an object with exactly 'schema' and 'payload'; "
        "for plain JSON set schemas.enable=false"
    )
    return Converted(
        staged=decoded.staged,
        column=decoded.column,
        schema=decoded.schema,
        schemaless=decoded.schemaless,
        failed=text.isNotNull() & failed,
        message=sql.when(is_envelope, decoded.message).otherwise(complaint),
    )


def _require_batch(frame: DataFrame) -> None:
    if frame.isStreaming:
        raise ConnectError("streaming JSON needs schema.content, because schemas are inferred from batches")


def _type_of_variants(text: str) -> DataType:
    """Connect's types of schemaless JSON: 64-bit whole numbers, doubles; values of varying type are variants."""
    from pyspark.sql import types as spark

    return _widened(spark.DataType.fromDDL(re.sub(r"\bOBJECT<", "STRUCT<", text)))


def _widened(data_type: DataType) -> DataType:
    from pyspark.sql import types as spark

    if isinstance(data_type, spark.StructType):
        return spark.StructType([spark.StructField(field.name, _widened(field.dataType)) for field in data_type.fields])
    if isinstance(data_type, spark.ArrayType):
        return spark.ArrayType(_widened(data_type.elementType))
    if isinstance(data_type, (spark.DecimalType, spark.FloatType)):
        return spark.DoubleType()
    if isinstance(data_type, (spark.ByteType, spark.ShortType, spark.IntegerType)):
        return spark.LongType()
    if isinstance(data_type, spark.NullType):
        return spark.StringType()
    return data_type


def _check_schema(value: object) -> str | None:
    if value in (None, ""):
        return None
    try:
        schema.schema_from_json(json.loads(str(value)))
    except (schema.SchemaError, ValueError, ConfigError) as error:
        return f"it must be a schema of Connect in JSON: {error}."
    return None
