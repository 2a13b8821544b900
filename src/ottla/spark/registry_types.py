"""Spark types of Avro, Protobuf and JSON schemas."""

from __future__ import annotations

from typing import Any

__all__ = ["UnsupportedSchema", "avro_type", "json_type", "protobuf_type"]

_DEPTH_MAX = 20
_JSON_WORDS = ("string", "integer", "number", "boolean", "object", "array")


class UnsupportedSchema(Exception):
    """A schema that has no column type."""


def avro_type(avro: Any, named: dict[str, Any] | None = None, depth: int = 0) -> Any:
    """The type of an Avro schema. Unions must be of null and one type; recursive types have no column type."""
    from pyspark.sql import types as spark

    named = {} if named is None else named
    if depth > _DEPTH_MAX:
        raise UnsupportedSchema("The schema is recursive, which columns cannot be.")
    if isinstance(avro, list):
        branches = [branch for branch in avro if branch != "null"]
        if len(branches) != 1:
            raise UnsupportedSchema("The only unions that columns have are those of null and one type.")
        return avro_type(branches[0], named, depth + 1)
    if isinstance(avro, str):
        return _avro_named(avro, named, depth)
    kind, logical = avro["type"], avro.get("logicalType")
    if "name" in avro:
        named[_full_name(avro)] = named[avro["name"]] = avro
    if logical == "decimal":
        return spark.DecimalType(int(avro["precision"]), int(avro.get("scale", 0)))
    if logical == "date":
        return spark.DateType()
    if logical in ("timestamp-millis", "timestamp-micros"):
        return spark.TimestampType()
    if logical in ("local-timestamp-millis", "local-timestamp-micros"):
        return spark.TimestampNTZType()
    if kind in ("record", "error"):
        fields = [
            spark.StructField(field["name"], avro_type(field["type"], named, depth + 1)) for field in avro["fields"]
        ]
        return spark.StructType(fields)
    if kind == "array":
        return spark.ArrayType(avro_type(avro["items"], named, depth + 1))
    if kind == "map":
        return spark.MapType(spark.StringType(), avro_type(avro["values"], named, depth + 1))
    if kind == "enum":
        return spark.StringType()
    if kind == "fixed":
        return spark.BinaryType()
    return avro_type(kind, named, depth + 1)


def _avro_named(name: str, named: dict[str, Any], depth: int) -> Any:
    from pyspark.sql import types as spark

    plain = {
        "null": spark.NullType,
        "boolean": spark.BooleanType,
        "int": spark.IntegerType,
        "long": spark.LongType,
        "float": spark.FloatType,
        "double": spark.DoubleType,
        "bytes": spark.BinaryType,
        "string": spark.StringType,
    }
    if name in plain:
        return plain[name]()
    if name not in named:
        raise UnsupportedSchema(f"The Avro type {name} is unknown.")
    return avro_type(named[name], named, depth + 1)


def _full_name(avro: dict[str, Any]) -> str:
    namespace = avro.get("namespace")
    return f"{namespace}.{avro['name']}" if namespace else str(avro["name"])


def json_type(schema: Any, root: Any = None, depth: int = 0) -> Any:
    """The type of a JSON Schema. A schema without a column type becomes a string with the JSON."""
    from pyspark.sql import types as spark

    root = schema if root is None else root
    if not isinstance(schema, dict) or depth > _DEPTH_MAX:
        return spark.StringType()
    reference = schema.get("$ref")
    if isinstance(reference, str) and reference.startswith("#/"):
        target = root
        for step in reference[2:].split("/"):
            target = target.get(step, {}) if isinstance(target, dict) else {}
        return json_type(target, root, depth + 1)
    declared = schema.get("type")
    kinds = [kind for kind in (declared if isinstance(declared, list) else [declared]) if kind != "null"]
    kind = kinds[0] if len(kinds) == 1 and kinds[0] in _JSON_WORDS else None
    if kind == "object" and schema.get("properties"):
        fields = [
            spark.StructField(name, json_type(property_schema, root, depth + 1))
            for name, property_schema in schema["properties"].items()
        ]
        return spark.StructType(fields)
    if kind == "object" and isinstance(schema.get("additionalProperties"), dict):
        return spark.MapType(spark.StringType(), json_type(schema["additionalProperties"], root, depth + 1))
    if kind == "array" and isinstance(schema.get("items"), dict):
        return spark.ArrayType(json_type(schema["items"], root, depth + 1))
    plain = {"integer": spark.LongType, "number": spark.DoubleType, "boolean": spark.BooleanType}
    return plain[kind]() if kind in plain else spark.StringType()


def protobuf_type(descriptor: Any, depth: int = 0) -> Any:
    """The type of a message. Enums are their names; `google.protobuf.Timestamp` is a time."""
    from pyspark.sql import types as spark

    if depth > _DEPTH_MAX:
        raise UnsupportedSchema("The message is recursive, which columns cannot be.")
    if descriptor.full_name == "google.protobuf.Timestamp":
        return spark.TimestampType()
    return spark.StructType(
        [spark.StructField(field.name, _protobuf_field(field, depth)) for field in descriptor.fields]
    )


def _protobuf_field(field: Any, depth: int) -> Any:
    from pyspark.sql import types as spark

    message = field.message_type
    if message is not None and message.GetOptions().map_entry:
        key, value = message.fields_by_name["key"], message.fields_by_name["value"]
        return spark.MapType(_protobuf_single(key, depth), _protobuf_single(value, depth))
    single = _protobuf_single(field, depth)
    return spark.ArrayType(single) if field.is_repeated else single


def _protobuf_single(field: Any, depth: int) -> Any:
    from pyspark.sql import types as spark

    if field.message_type is not None:
        return protobuf_type(field.message_type, depth + 1)
    kinds = {
        field.CPPTYPE_INT32: spark.IntegerType,
        field.CPPTYPE_UINT32: spark.LongType,
        field.CPPTYPE_INT64: spark.LongType,
        field.CPPTYPE_UINT64: spark.LongType,
        field.CPPTYPE_DOUBLE: spark.DoubleType,
        field.CPPTYPE_FLOAT: spark.FloatType,
        field.CPPTYPE_BOOL: spark.BooleanType,
        field.CPPTYPE_ENUM: spark.StringType,
    }
    if field.cpp_type in kinds:
        return kinds[field.cpp_type]()
    return spark.BinaryType() if field.type == field.TYPE_BYTES else spark.StringType()
