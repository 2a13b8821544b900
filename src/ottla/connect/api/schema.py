"""Connect's schemas of keys and values, which hold more than Spark's types.

A frame of Connect records has the columns of the topic (`topic`, `partition`, `offset`, `timestamp`, `headers`...) and
`key` and `value` in any Spark type. Spark's types have no logical names, versions, parameters or defaults, and lose
whether a field is optional. A `Schema` has all of these. It travels as metadata of the two columns: `attach` writes it,
`schema_of` reads it. A column without such metadata gets a schema derived from its Spark type, so every frame is a
Connect frame. A column marked as schemaless (JSON without schemas) has no `Schema`; its Spark type describes the values
of the present batch only.

The JSON form of a schema is exactly that of Kafka Connect's JsonConverter, because other programs parse it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import DataType, StructField

__all__ = [
    "DATE",
    "DECIMAL",
    "PRECISION",
    "TIME",
    "TIMESTAMP",
    "Field",
    "Schema",
    "SchemaError",
    "attach",
    "attach_schemaless",
    "is_schemaless",
    "merge",
    "scaled_as",
    "schema_from_json",
    "schema_from_spark",
    "schema_of",
    "schema_to_json",
    "spark_type",
]

DECIMAL = "org.apache.kafka.connect.data.Decimal"
DATE = "org.apache.kafka.connect.data.Date"
TIME = "org.apache.kafka.connect.data.Time"
TIMESTAMP = "org.apache.kafka.connect.data.Timestamp"

# Names of primitive types in Connect's JSON, and the Spark type of each.
PRIMITIVES: Mapping[str, str] = {
    "boolean": "BooleanType",
    "int8": "ByteType",
    "int16": "ShortType",
    "int32": "IntegerType",
    "int64": "LongType",
    "float": "FloatType",
    "double": "DoubleType",
    "bytes": "BinaryType",
    "string": "StringType",
    # Not a type of Connect: schemaless values whose type varies from record to record.
    "variant": "VariantType",
}
INTEGERS = ("int8", "int16", "int32", "int64")
NUMBERS = (*INTEGERS, "float", "double")
PRECISION_MAX = 38
# A parameter of our own; a decimal without it has the largest precision that Spark supports.
PRECISION = "connect.decimal.precision"
METADATA_SCHEMA = "connect.schema"
METADATA_SCHEMALESS = "connect.schemaless"


class SchemaError(ValueError):
    """A schema that is invalid in Connect, or two schemas that cannot share a column."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Schema:
    """A type by Connect's name in JSON, with its attributes. `default` is in its JSON form."""

    type: str
    optional: bool = False
    name: str | None = None
    version: int | None = None
    doc: str | None = None
    parameters: Mapping[str, str] | None = None
    default: Any = None
    fields: tuple[Field, ...] = ()
    items: Schema | None = None
    keys: Schema | None = None
    values: Schema | None = None

    @property
    def is_struct(self) -> bool:
        return self.type == "struct"

    def field(self, name: str) -> Schema | None:
        for candidate in self.fields:
            if candidate.name == name:
                return candidate.schema
        return None

    def with_optional(self, optional: bool = True) -> Schema:
        return replace(self, optional=optional)


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a struct."""

    name: str
    schema: Schema = field()


def schema_to_json(schema: Schema) -> dict[str, Any]:
    """The JSON form, with the members in the order of JsonConverter."""
    result: dict[str, Any] = {"type": schema.type}
    if schema.type == "array":
        assert schema.items is not None
        result["items"] = schema_to_json(schema.items)
    elif schema.type == "map":
        assert schema.keys is not None
        assert schema.values is not None
        result["keys"] = schema_to_json(schema.keys)
        result["values"] = schema_to_json(schema.values)
    elif schema.is_struct:
        result["fields"] = [
            {**schema_to_json(struct_field.schema), "field": struct_field.name} for struct_field in schema.fields
        ]
    result["optional"] = schema.optional
    if schema.name is not None:
        result["name"] = schema.name
    if schema.version is not None:
        result["version"] = schema.version
    if schema.doc is not None:
        result["doc"] = schema.doc
    if schema.parameters:
        result["parameters"] = dict(schema.parameters)
    if schema.default is not None:
        result["default"] = schema.default
    return result


def schema_from_json(data: Any) -> Schema:
    """The schema of a JSON envelope. Raises SchemaError."""
    if not isinstance(data, dict) or not isinstance(data.get("type"), str):
        raise SchemaError("a schema is an object with a 'type'")
    kind = data["type"]
    common: dict[str, Any] = {"optional": data.get("optional") is True, "default": data.get("default")}
    for name, wanted in (("name", str), ("version", int), ("doc", str)):
        if isinstance(data.get(name), wanted):
            common[name] = data[name]
    if isinstance(data.get("parameters"), dict):
        if not all(isinstance(value, str) for value in data["parameters"].values()):
            raise SchemaError("parameters of a schema are strings")
        common["parameters"] = data["parameters"]
    if kind in PRIMITIVES:
        return Schema(type=kind, **common)
    if kind == "array":
        return Schema(type=kind, items=_part(data, "items", "elements of an array"), **common)
    if kind == "map":
        keys, values = _part(data, "keys", "keys of a map"), _part(data, "values", "values of a map")
        return Schema(type=kind, keys=keys, values=values, **common)
    if kind == "struct":
        fields = data.get("fields")
        if not isinstance(fields, list):
            raise SchemaError("a struct has a list of fields")
        return Schema(type=kind, fields=tuple(_field(field_data) for field_data in fields), **common)
    raise SchemaError(f"there is no schema type '{kind}'")


def spark_type(schema: Schema) -> DataType:
    """The Spark type of a schema's values. Every field is nullable, because Spark does not enforce nullability."""
    from pyspark.sql import types as spark

    if schema.name == DECIMAL:
        return spark.DecimalType(decimal_precision(schema), decimal_scale(schema))
    if schema.name == DATE:
        return spark.DateType()
    if schema.name == TIMESTAMP:
        return spark.TimestampType()
    if schema.type == "array":
        assert schema.items is not None
        return spark.ArrayType(spark_type(schema.items))
    if schema.type == "map":
        assert schema.keys is not None
        assert schema.values is not None
        return spark.MapType(spark_type(schema.keys), spark_type(schema.values))
    if schema.is_struct:
        return spark.StructType(
            [spark.StructField(struct_field.name, spark_type(struct_field.schema)) for struct_field in schema.fields]
        )
    data_type: DataType = getattr(spark, PRIMITIVES[schema.type])()
    return data_type


def schema_from_spark(data_type: DataType, *, nullable: bool = True) -> Schema:
    """Connect's schema of a Spark type. A nullable type is optional."""
    from pyspark.sql import types as spark

    for name, primitive in PRIMITIVES.items():
        if type(data_type).__name__ == primitive:
            return Schema(type=name, optional=nullable)
    if isinstance(data_type, spark.DecimalType):
        parameters = {"scale": str(data_type.scale), PRECISION: str(data_type.precision)}
        return Schema(type="bytes", optional=nullable, name=DECIMAL, version=1, parameters=parameters)
    if isinstance(data_type, spark.DateType):
        return Schema(type="int32", optional=nullable, name=DATE, version=1)
    if isinstance(data_type, (spark.TimestampType, spark.TimestampNTZType)):
        return Schema(type="int64", optional=nullable, name=TIMESTAMP, version=1)
    if isinstance(data_type, spark.ArrayType):
        items = schema_from_spark(data_type.elementType, nullable=data_type.containsNull)
        return Schema(type="array", optional=nullable, items=items)
    if isinstance(data_type, spark.MapType):
        keys = schema_from_spark(data_type.keyType, nullable=False)
        values = schema_from_spark(data_type.valueType, nullable=data_type.valueContainsNull)
        return Schema(type="map", optional=nullable, keys=keys, values=values)
    if isinstance(data_type, spark.StructType):
        fields = tuple(Field(field_type.name, _schema_of_field(field_type)) for field_type in data_type.fields)
        return Schema(type="struct", optional=nullable, fields=fields)
    if isinstance(data_type, (spark.VarcharType, spark.CharType, spark.NullType)):
        return Schema(type="string", optional=nullable)
    raise SchemaError(f"Spark's {data_type.simpleString()} has no counterpart in Connect; cast it first")


def schema_of(frame: DataFrame, column: str) -> Schema | None:
    """The schema of a column; None if it is schemaless."""
    field_type = frame.schema[column]
    if field_type.metadata.get(METADATA_SCHEMALESS):
        return None
    return _schema_of_field(field_type)


def is_schemaless(frame: DataFrame, column: str) -> bool:
    return bool(frame.schema[column].metadata.get(METADATA_SCHEMALESS))


def attach(frame: DataFrame, column: str, schema: Schema | None) -> DataFrame:
    """The frame with this schema of a column; None marks the column as schemaless."""
    if schema is None:
        return attach_schemaless(frame, column)
    return frame.withMetadata(column, {METADATA_SCHEMA: json.dumps(schema_to_json(schema))})


def attach_schemaless(frame: DataFrame, column: str) -> DataFrame:
    return frame.withMetadata(column, {METADATA_SCHEMALESS: True})


def merge(left: Schema, right: Schema) -> Schema:
    """A schema for the values of both schemas: all fields, widened numbers. Raises SchemaError if there is none."""
    optional = left.optional or right.optional
    if left.name != right.name and (left.name in LOGICAL or right.name in LOGICAL):
        raise SchemaError(f"{left.name or left.type} and {right.name or right.type} cannot be one column")
    common = replace(left if left.version is None else right, optional=optional)
    if left.name == right.name == DECIMAL:
        return replace(common, parameters=_wider_decimal(left, right))
    if left.is_struct and right.is_struct:
        return replace(common, fields=_merge_fields(left, right))
    if left.type == right.type == "array":
        assert left.items is not None
        assert right.items is not None
        return replace(common, items=merge(left.items, right.items))
    if left.type == right.type == "map":
        assert left.keys is not None
        assert right.keys is not None
        assert left.values is not None
        assert right.values is not None
        return replace(common, keys=merge(left.keys, right.keys), values=merge(left.values, right.values))
    if left.type == right.type:
        return common
    if left.type in NUMBERS and right.type in NUMBERS:
        return replace(common, type=_wider(left.type, right.type))
    raise SchemaError(f"{left.type} and {right.type} cannot be one column")


def scaled_as(wanted: Schema, given: Schema) -> Schema:
    """The merged schema with the scales of `given`: the bytes of a decimal in a message do not have its scale."""
    if wanted.name == given.name == DECIMAL:
        return replace(wanted, parameters={**(wanted.parameters or {}), "scale": str(decimal_scale(given))})

    def part(inner: Schema | None, own: Schema | None) -> Schema | None:
        return inner if inner is None or own is None else scaled_as(inner, own)

    fields = tuple(
        Field(
            struct_field.name,
            part(struct_field.schema, given.field(struct_field.name)) or struct_field.schema,
        )
        for struct_field in wanted.fields
    )
    return replace(
        wanted, fields=fields, items=part(wanted.items, given.items), keys=part(wanted.keys, given.keys),
        values=part(wanted.values, given.values),
    )  # fmt: skip


def decimal_scale(schema: Schema) -> int:
    text = (schema.parameters or {}).get("scale")
    if text is None:
        raise SchemaError("a Decimal has the parameter 'scale'")
    return int(text)


def decimal_precision(schema: Schema) -> int:
    return min(int((schema.parameters or {}).get(PRECISION, PRECISION_MAX)), PRECISION_MAX)


LOGICAL = frozenset({DECIMAL, DATE, TIME, TIMESTAMP})


def _schema_of_field(field_type: StructField) -> Schema:
    attached = field_type.metadata.get(METADATA_SCHEMA)
    if attached is not None:
        return schema_from_json(json.loads(attached))
    return schema_from_spark(field_type.dataType, nullable=field_type.nullable)


def _part(data: dict[str, Any], name: str, subject: str) -> Schema:
    if data.get(name) is None:
        raise SchemaError(f"{subject} have a schema, '{name}'")
    return schema_from_json(data[name])


def _field(data: Any) -> Field:
    if not isinstance(data, dict) or not isinstance(data.get("field"), str):
        raise SchemaError("a field of a struct has a name, 'field'")
    return Field(data["field"], schema_from_json(data))


def _merge_fields(left: Schema, right: Schema) -> tuple[Field, ...]:
    result = []
    for left_field in left.fields:
        other = right.field(left_field.name)
        result.append(
            Field(
                left_field.name,
                left_field.schema.with_optional() if other is None else merge(left_field.schema, other),
            )
        )
    known = {left_field.name for left_field in left.fields}
    result += [
        Field(right_field.name, right_field.schema.with_optional())
        for right_field in right.fields
        if right_field.name not in known
    ]
    return tuple(result)


def _wider_decimal(left: Schema, right: Schema) -> dict[str, str]:
    """Parameters that hold the digits of both decimals, before and after the point."""
    scale = max(decimal_scale(left), decimal_scale(right))
    whole = max(decimal_precision(schema) - decimal_scale(schema) for schema in (left, right))
    parameters = {**(left.parameters or {}), **(right.parameters or {}), "scale": str(scale)}
    if all(PRECISION in (schema.parameters or {}) for schema in (left, right)):
        return {**parameters, PRECISION: str(min(whole + scale, PRECISION_MAX))}
    return {name: text for name, text in parameters.items() if name != PRECISION}


def _wider(left: str, right: str) -> str:
    if left in INTEGERS and right in INTEGERS:
        return max(left, right, key=INTEGERS.index)
    # An integer beside a float needs a double, or its low digits would be lost.
    return "double"
