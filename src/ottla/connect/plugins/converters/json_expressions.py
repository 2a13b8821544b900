"""Connect's JSON as DataFrame expressions: Spark handles native JSON types, other types are rewritten.

To JSON (`json_text`): a value is rewritten so that Spark's `to_json` writes Connect's form: dates as days, times and
timestamps as milliseconds, decimals as the base64 of their unscaled bytes, maps with other keys than text as lists of
pairs. From JSON (`parse_type`, `typed`): Spark parses into a type for that form, and the rewriting is undone. Other
parts of a schema pass unchanged, so most records cost one `to_json` or `from_json`.
"""

from __future__ import annotations

import base64
import decimal
import json
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Any

from ottla.connect.api import schema
from ottla.connect.api.spark_functions import arrow_function, sql

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql import Column
    from pyspark.sql.types import DataType

__all__ = ["decimals_lost", "default_column", "json_text", "parse_type", "required_missing", "typed"]

WITH_NULLS = {"ignoreNullFields": "false"}


def json_text(column: Column, given: schema.Schema, *, numeric_decimals: bool = False, defaults: bool = True) -> Column:
    """The JSON of a value as text; null for null."""
    value = _jsonable(column, given, numeric_decimals=numeric_decimals, defaults=defaults)
    if given.type in ("struct", "array", "map"):
        return sql.to_json(value, WITH_NULLS)
    # to_json needs a struct, list or map: a single value is written as a list of one element and unwrapped.
    listed = sql.to_json(sql.array(value), WITH_NULLS)
    return sql.when(column.isNotNull(), sql.substring(listed, sql.lit(2), sql.length(listed) - 2))


def parse_type(given: schema.Schema) -> DataType:
    """The type into which `from_json` reads values of this schema."""
    from pyspark.sql import types as spark

    if given.name == schema.DECIMAL:
        return spark.VariantType()
    if given.name in (schema.DATE, schema.TIME):
        return spark.IntegerType()
    if given.name == schema.TIMESTAMP:
        return spark.LongType()
    if given.is_struct:
        return spark.StructType([spark.StructField(field.name, parse_type(field.schema)) for field in given.fields])
    if given.type == "array":
        assert given.items is not None
        return spark.ArrayType(parse_type(given.items))
    if given.type == "map":
        assert given.keys is not None
        assert given.values is not None
        if given.keys.type == "string":
            return spark.MapType(spark.StringType(), parse_type(given.values))
        return spark.ArrayType(spark.ArrayType(spark.VariantType()))
    return schema.spark_type(given)


def typed(column: Column, given: schema.Schema, *, defaults: bool = True) -> Column:
    """Values of `parse_type` in the types of the schema, with defaults for nulls."""
    if not _is_rewritten(given, defaults=defaults):
        return column
    value = _typed(column, given, defaults=defaults)
    if defaults and given.default is not None:
        return sql.coalesce(value, default_column(given))
    return value


def required_missing(column: Column, given: schema.Schema, *, defaults: bool = True) -> Column | None:
    """True for records with a null in a required field, in structs only; None if no field is required."""
    conditions = []
    for field in given.fields:
        field_column = column.getField(field.name)
        if not field.schema.optional and not (defaults and field.schema.default is not None):
            conditions.append(field_column.isNull())
        inner = required_missing(field_column, field.schema, defaults=defaults)
        if inner is not None:
            conditions.append(field_column.isNotNull() & inner)
    if not conditions:
        return None
    result = conditions[0]
    for condition in conditions[1:]:
        result = result | condition
    return result


def decimals_lost(column: Column, given: schema.Schema) -> Column | None:
    """True for records with an unreadable decimal: not base64, or more digits than Spark's decimals have.

    Checks structs but not lists and maps. None if the schema has no decimals.
    """
    if given.name == schema.DECIMAL:
        present = column.isNotNull() & ~sql.is_variant_null(column)
        return present & _typed(column, given, defaults=False).isNull()
    parts = [decimals_lost(column.getField(field.name), field.schema) for field in given.fields]
    conditions = [sql.coalesce(part, sql.lit(False)) for part in parts if part is not None]
    return reduce(or_, conditions) if conditions else None


def default_column(given: schema.Schema) -> Column:
    """The default of a schema as a constant column."""
    from pyspark.sql import types as spark

    wrapped = spark.StructType([spark.StructField("value", parse_type(given))])
    parsed = sql.from_json(sql.lit(json.dumps({"value": given.default})), wrapped).getField("value")
    return _typed(parsed, given, defaults=False)


def _jsonable(column: Column, given: schema.Schema, *, numeric_decimals: bool, defaults: bool) -> Column:
    if defaults and given.default is not None:
        column = sql.coalesce(column, default_column(given))
    if not _is_rewritten(given, numeric_decimals=numeric_decimals, defaults=defaults):
        return column

    def inner(part: Column, part_schema: schema.Schema) -> Column:
        return _jsonable(part, part_schema, numeric_decimals=numeric_decimals, defaults=defaults)

    if given.name == schema.DECIMAL:
        return column if numeric_decimals else arrow_function(_decimal_to_base64, "string")(column)
    if given.name == schema.DATE:
        return sql.unix_date(column)
    if given.name == schema.TIMESTAMP:
        return sql.unix_millis(column)
    if given.is_struct:
        fields = [inner(column.getField(field.name), field.schema).alias(field.name) for field in given.fields]
        return sql.when(column.isNotNull(), sql.struct(*fields))
    if given.type == "array":
        items = given.items
        assert items is not None
        return sql.transform(column, lambda element: inner(element, items))
    if given.type == "map":
        keys, values = given.keys, given.values
        assert keys is not None
        assert values is not None
        if keys.type == "string":
            return sql.transform_values(column, lambda _, value: inner(value, values))
        pairs = sql.transform(
            sql.map_entries(column),
            lambda entry: sql.concat(
                sql.lit("["),
                sql.coalesce(json_text(entry.getField("key"), keys), sql.lit("null")),
                sql.lit(","),
                sql.coalesce(json_text(entry.getField("value"), values), sql.lit("null")),
                sql.lit("]"),
            ),
        )
        return sql.parse_json(sql.concat(sql.lit("["), sql.concat_ws(",", pairs), sql.lit("]")))
    return column


def _is_rewritten(given: schema.Schema, *, numeric_decimals: bool = False, defaults: bool = True) -> bool:
    """True if Spark's JSON differs from Connect's for a part of this schema."""
    if defaults and given.default is not None:
        return True
    if given.name == schema.DECIMAL:
        return not numeric_decimals
    if given.name in (schema.DATE, schema.TIMESTAMP):
        return True
    if given.type == "map" and given.keys is not None and given.keys.type != "string":
        return True
    parts = [field.schema for field in given.fields]
    parts += [part for part in (given.items, given.values) if part is not None]
    return any(_is_rewritten(part, numeric_decimals=numeric_decimals, defaults=defaults) for part in parts)


def _typed(column: Column, given: schema.Schema, *, defaults: bool) -> Column:
    if given.name == schema.DECIMAL:
        scale = schema.decimal_scale(given)
        wanted = schema.spark_type(given)

        def from_base64(texts: pyarrow.Array) -> pyarrow.Array:
            return _base64_to_decimal(texts, scale, wanted.precision)

        is_text = sql.schema_of_variant(column) == "STRING"
        text = sql.when(is_text, column.cast("string"))
        number = sql.when(~is_text, sql.try_variant_get(column, "$", wanted.simpleString()))
        return sql.coalesce(arrow_function(from_base64, wanted)(text), number)
    if given.name == schema.DATE:
        return sql.date_from_unix_date(column)
    if given.name == schema.TIMESTAMP:
        return sql.timestamp_millis(column)
    if given.is_struct:
        fields = [
            typed(column.getField(field.name), field.schema, defaults=defaults).alias(field.name)
            for field in given.fields
        ]
        return sql.when(column.isNotNull(), sql.struct(*fields))
    if given.type == "array":
        items = given.items
        assert items is not None
        return sql.transform(column, lambda element: typed(element, items, defaults=defaults))
    if given.type == "map":
        keys, values = given.keys, given.values
        assert keys is not None
        assert values is not None
        if keys.type == "string":
            return sql.transform_values(column, lambda _, value: typed(value, values, defaults=defaults))
        entries = sql.transform(
            column,
            lambda pair: sql.struct(
                _from_variant(pair[0], keys, defaults=defaults), _from_variant(pair[1], values, defaults=defaults)
            ),
        )
        return sql.map_from_entries(entries)
    return column


def _from_variant(column: Column, given: schema.Schema, *, defaults: bool) -> Column:
    return typed(sql.variant_get(column, "$", parse_type(given).simpleString()), given, defaults=defaults)


def _decimal_to_base64(values: pyarrow.Array) -> pyarrow.Array:
    import pyarrow

    def encoded(value: decimal.Decimal | None) -> str | None:
        if value is None:
            return None
        sign, digits, _ = value.as_tuple()
        unscaled = int("".join(map(str, digits)) or "0") * (-1 if sign else 1)
        # The shortest two's complement, as Java's BigInteger gives it.
        length = (unscaled if unscaled >= 0 else ~unscaled).bit_length() // 8 + 1
        return base64.b64encode(unscaled.to_bytes(length, "big", signed=True)).decode()

    return pyarrow.array([encoded(value) for value in values.to_pylist()], type=pyarrow.string())


def _base64_to_decimal(texts: pyarrow.Array, scale: int, precision: int) -> pyarrow.Array:
    import pyarrow

    context = decimal.Context(prec=precision)

    def decoded(text: str | None) -> decimal.Decimal | None:
        if text is None:
            return None
        try:
            unscaled = int.from_bytes(base64.b64decode(text, validate=True), "big", signed=True)
        except ValueError:
            return None
        value: Any = decimal.Decimal(unscaled).scaleb(-scale, context)
        return value if len(str(abs(unscaled))) <= precision else None

    return pyarrow.array([decoded(text) for text in texts.to_pylist()], type=pyarrow.decimal128(precision, scale))
