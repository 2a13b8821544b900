"""JSON Schemas and .proto files of Connect's schemas."""

from __future__ import annotations

import re
from typing import Any

from ottla.connect.api.schema import DATE, DECIMAL, INTEGERS, TIME, TIMESTAMP, Schema, SchemaError

__all__ = ["json_schema_of", "proto_of"]

_PROTO_TYPES = {
    "boolean": "bool",
    "int8": "int32",
    "int16": "int32",
    "int32": "int32",
    "int64": "int64",
    "float": "float",
    "double": "double",
    "bytes": "bytes",
    "string": "string",
}


def json_schema_of(given: Schema) -> dict[str, Any]:
    """The JSON Schema of values: times and dates are text in ISO 8601, bytes text in base64, decimals numbers."""
    json_schema = _json_required(given)
    if given.optional and isinstance(json_schema.get("type"), str):
        json_schema["type"] = ["null", json_schema["type"]]
    if given.doc is not None:
        json_schema["description"] = given.doc
    return json_schema


def _json_required(given: Schema) -> dict[str, Any]:
    if given.name == TIMESTAMP:
        return {"type": "string", "format": "date-time"}
    if given.name in (DATE, TIME):
        return {"type": "string", "format": "date" if given.name == DATE else "time"}
    if given.name == DECIMAL or given.type in ("float", "double"):
        return {"type": "number"}
    if given.is_struct:
        properties = {field.name: json_schema_of(field.schema) for field in given.fields}
        required = [field.name for field in given.fields if not field.schema.optional]
        base: dict[str, Any] = {"type": "object", "properties": properties, "additionalProperties": False}
        return ({"title": given.name} if given.name else {}) | base | ({"required": required} if required else {})
    if given.type == "array":
        assert given.items is not None
        return {"type": "array", "items": json_schema_of(given.items)}
    if given.type == "map":
        assert given.values is not None
        return {"type": "object", "additionalProperties": json_schema_of(given.values)}
    if given.type == "bytes":
        return {"type": "string", "contentEncoding": "base64"}
    if given.type in INTEGERS:
        return {"type": "integer"}
    return {"type": given.type if given.type in ("boolean", "string") else "string"}


def proto_of(given: Schema) -> str:
    """A .proto file whose first message is the struct. Fields are numbered in their order."""
    if not given.is_struct:
        raise SchemaError(f"a Protobuf message is a struct, not a value of the type {given.type}")
    lines = _message(given, _name(given.name or "Value"))
    head = ['syntax = "proto3";']
    if any("google.protobuf.Timestamp" in line for line in lines):
        head.append('import "google/protobuf/timestamp.proto";')
    return "\n".join([*head, *lines]) + "\n"


def _message(given: Schema, name: str) -> list[str]:
    lines, nested = [], []
    for number, field in enumerate(given.fields, start=1):
        kind, inner = _field_type(field.schema, _name(f"{field.name}_type"))
        nested += inner
        is_plain = field.schema.type not in ("array", "map", "struct") and field.schema.name != TIMESTAMP
        label = "optional " if field.schema.optional and is_plain else ""
        lines.append(f"  {label}{kind} {_name(field.name)} = {number};")
    return [f"message {name} " + "{", *lines, *(f"  {line}" for line in nested), "}"]


def _field_type(given: Schema, name: str) -> tuple[str, list[str]]:
    """The type of a field, and the messages that it needs."""
    if given.type == "array":
        assert given.items is not None
        if given.items.type in ("array", "map"):
            raise SchemaError("Protobuf has no lists of lists or maps")
        kind, nested = _field_type(given.items, name)
        return f"repeated {kind}", nested
    if given.type == "map":
        assert given.keys is not None
        assert given.values is not None
        if given.values.type in ("array", "map") or given.keys.type not in ("string", "boolean", *INTEGERS):
            raise SchemaError("Protobuf's maps have text, numbers or booleans as keys, and no lists or maps as values")
        kind, nested = _field_type(given.values, name)
        return f"map<{_PROTO_TYPES[given.keys.type]}, {kind}>", nested
    if given.is_struct:
        return name, _message(given, name)
    if given.name == TIMESTAMP:
        return "google.protobuf.Timestamp", []
    if given.name in (DATE, TIME, DECIMAL):
        return "string", []
    if given.type not in _PROTO_TYPES:
        raise SchemaError(f"Protobuf has no type for {given.type}")
    return _PROTO_TYPES[given.type], []


def _name(text: str) -> str:
    name = re.sub(r"\W", "_", text.rpartition(".")[2], flags=re.ASCII)
    return f"_{name}" if name[:1].isdigit() else name
