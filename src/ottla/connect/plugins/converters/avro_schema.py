"""Conversion between Avro schemas and Connect schemas."""

from __future__ import annotations

import re
from typing import Any

from ottla.connect.api.schema import (
    DATE,
    DECIMAL,
    TIME,
    TIMESTAMP,
    Field,
    Schema,
    SchemaError,
    decimal_precision,
    decimal_scale,
)

__all__ = ["avro_from_schema", "field_name", "readable_avro", "schema_from_avro"]

TO_CONNECT = {
    "boolean": "boolean",
    "int": "int32",
    "long": "int64",
    "float": "float",
    "double": "double",
    "bytes": "bytes",
    "string": "string",
}
TO_AVRO = {**{connect: avro for avro, connect in TO_CONNECT.items()}, "int8": "int", "int16": "int"}
LOGICAL_NAMES = {"date": DATE, "time-millis": TIME, "timestamp-millis": TIMESTAMP, "timestamp-micros": TIMESTAMP}
# Logical types whose Python values match our schemas; other logical types are read as their base type.
READ_AS_THEY_ARE = ("decimal", "date", "timestamp-millis", "timestamp-micros")


def schema_from_avro(avro: Any, *, named: dict[str, Schema] | None = None) -> Schema:
    """The Connect schema of an Avro schema. The only supported unions are optional types."""
    named = {} if named is None else named
    if isinstance(avro, list):
        branches = [branch for branch in avro if branch != "null"]
        if len(branches) != 1:
            raise SchemaError("the only supported unions are those of null and one type")
        return schema_from_avro(branches[0], named=named).with_optional("null" in avro)
    if isinstance(avro, str):
        if avro in TO_CONNECT:
            return Schema(type=TO_CONNECT[avro])
        if avro in named:
            return named[avro]
        raise SchemaError(f"the Avro type '{avro}' is unknown here (recursive types are not supported)")
    if not isinstance(avro, dict) or "type" not in avro:
        raise SchemaError("an Avro schema is a name, a list or an object with a 'type'")
    return _from_object(avro, named)


def readable_avro(avro: Any) -> Any:
    """The Avro schema with which fastavro returns our types: a uuid as text, a time of day as a number."""
    if isinstance(avro, list):
        return [readable_avro(branch) for branch in avro]
    if not isinstance(avro, dict):
        return avro
    kept = {
        name: attribute for name, attribute in avro.items() if name != "logicalType" or attribute in READ_AS_THEY_ARE
    }
    for name in ("type", "items", "values"):
        if name in kept:
            kept[name] = readable_avro(kept[name])
    if isinstance(kept.get("fields"), list):
        kept["fields"] = [{**field, "type": readable_avro(field["type"])} for field in kept["fields"]]
    return kept


def avro_from_schema(given: Schema, *, path: str = "Value") -> Any:
    """The Avro schema of a Connect schema. Records without a name are named by their path."""
    avro = _required(given, path)
    return ["null", avro] if given.optional else avro


def _from_object(avro: dict[str, Any], named: dict[str, Schema]) -> Schema:
    kind = avro["type"]
    logical = avro.get("logicalType")
    if logical == "decimal":
        parameters = {"scale": str(avro.get("scale", 0)), "connect.decimal.precision": str(avro["precision"])}
        return Schema(type="bytes", name=DECIMAL, version=1, parameters=parameters)
    if logical in LOGICAL_NAMES:
        return Schema(type=TO_CONNECT[kind], name=LOGICAL_NAMES[logical], version=1)
    if kind == "record":
        fields = tuple(Field(field["name"], schema_from_avro(field["type"], named=named)) for field in avro["fields"])
        result = Schema(type="struct", fields=fields, name=avro.get("name"), doc=avro.get("doc"))
    elif kind == "enum":
        result = Schema(type="string", doc=avro.get("doc"))
    elif kind == "fixed":
        result = Schema(type="bytes")
    elif kind == "array":
        return Schema(type="array", items=schema_from_avro(avro["items"], named=named))
    elif kind == "map":
        return Schema(type="map", keys=Schema(type="string"), values=schema_from_avro(avro["values"], named=named))
    else:
        return schema_from_avro(kind, named=named)
    named[avro["name"]] = result
    return result


def _required(given: Schema, path: str) -> Any:
    if given.name == DECIMAL:
        return {
            "type": "bytes",
            "logicalType": "decimal",
            "precision": decimal_precision(given),
            "scale": decimal_scale(given),
        }
    if given.name == DATE:
        return {"type": "int", "logicalType": "date"}
    if given.name == TIMESTAMP:
        return {"type": "long", "logicalType": "timestamp-millis"}
    if given.is_struct:
        fields = []
        for field in given.fields:
            avro_field: dict[str, Any] = {
                "name": field_name(field.name),
                "type": avro_from_schema(field.schema, path=f"{path}_{field.name}"),
            }
            if field.schema.optional:
                avro_field["default"] = None
            fields.append(avro_field)
        return {"type": "record", "name": _name(given.name or path), "fields": fields}
    if given.type == "array":
        assert given.items is not None
        return {"type": "array", "items": avro_from_schema(given.items, path=f"{path}_item")}
    if given.type == "map":
        assert given.keys is not None
        assert given.values is not None
        if given.keys.type != "string":
            raise SchemaError("keys of Avro's maps are text")
        return {"type": "map", "values": avro_from_schema(given.values, path=f"{path}_value")}
    return TO_AVRO[given.type]


def field_name(text: str) -> str:
    """The Avro name of a field; writers of structs must use the same name."""
    return _name(text).replace(".", "_")


def _name(text: str) -> str:
    """A valid Avro name; dots separate namespaces."""
    name = re.sub(r"[^A-Za-z0-9_.]", "_", text)
    return f"_{name}" if name[:1].isdigit() else name
