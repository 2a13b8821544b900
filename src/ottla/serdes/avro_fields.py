"""The fields of Avro values, for rules: a walk over a value along its schema."""

from __future__ import annotations

import datetime
import decimal
import uuid
from collections.abc import Mapping
from typing import Any

from ottla.serdes.rules.contracts import Field, FieldKind, FieldTransform, FieldWalk

__all__ = ["avro_walk", "named_types"]

_KINDS = {
    "string": FieldKind.STRING,
    "bytes": FieldKind.BYTES,
    "int": FieldKind.INT,
    "long": FieldKind.LONG,
    "float": FieldKind.FLOAT,
    "double": FieldKind.DOUBLE,
    "boolean": FieldKind.BOOLEAN,
    "null": FieldKind.NULL,
    "enum": FieldKind.ENUM,
    "fixed": FieldKind.FIXED,
}
# Values that fit a branch of a union, with logical types.
_VALUES: dict[str, tuple[type, ...]] = {
    "string": (str, uuid.UUID),
    "bytes": (bytes, decimal.Decimal),
    "fixed": (bytes, decimal.Decimal, uuid.UUID),
    "int": (int, datetime.date, datetime.time),
    "long": (int, datetime.datetime, datetime.time),
    "float": (float, int),
    "double": (float, int),
    "boolean": (bool,),
    "enum": (str,),
    "array": (list, tuple),
    "map": (dict,),
    "record": (dict,),
}


def avro_walk(parsed: Any) -> FieldWalk:
    """The walk for a schema that fastavro has parsed: its names are full names."""
    named = named_types(parsed)

    def walk(value: Any, transform: FieldTransform) -> Any:
        return _Walk(named, transform).visit(parsed, value, None)

    return walk


class _Walk:
    def __init__(self, named: Mapping[str, Any], transform: FieldTransform) -> None:
        self._named = named
        self._transform = transform

    def visit(self, schema: Any, value: Any, field: Field | None) -> Any:
        if isinstance(schema, list):
            return self._union(schema, value, field)
        schema = self._named.get(schema, schema) if isinstance(schema, str) else schema
        kind = schema if isinstance(schema, str) else schema["type"]
        if isinstance(kind, dict | list):
            return self.visit(kind, value, field)
        if kind == "array" and isinstance(value, list | tuple):
            return [self.visit(schema["items"], element, field) for element in value]
        if kind == "map" and isinstance(value, dict):
            return {key: self.visit(schema["values"], element, field) for key, element in value.items()}
        if kind in ("record", "error"):
            return self._record(schema, value) if isinstance(value, dict) else value
        if field is None or kind not in _KINDS:
            return value
        return self._transform(Field(field.full_name, field.name, _KINDS[kind], field.tags, field.message), value)

    def _record(self, schema: Mapping[str, Any], value: dict[str, Any]) -> dict[str, Any]:
        result = dict(value)
        for definition in schema["fields"]:
            name = definition["name"]
            if name in value:
                tags = frozenset(definition.get("confluent:tags") or ())
                field = Field(f"{schema['name']}.{name}", name, FieldKind.NULL, tags, value)
                result[name] = self.visit(definition["type"], value[name], field)
        return result

    def _union(self, branches: list[Any], value: Any, field: Field | None) -> Any:
        """Visits the value with the branch that it fits; a pair of name and value names its branch."""
        if isinstance(value, tuple) and len(value) == 2 and isinstance(value[0], str):
            for branch in branches:
                if self._name(branch) in (value[0], value[0].rpartition(".")[2]):
                    return (value[0], self.visit(branch, value[1], field))
            return value
        for branch in branches:
            if self._fits(branch, value):
                return self.visit(branch, value, field)
        # A reader's schema may have left out fields of the record.
        records = [branch for branch in branches if self._kind(branch) == "record"]
        return self.visit(records[0], value, field) if len(records) == 1 and isinstance(value, dict) else value

    def _kind(self, schema: Any) -> Any:
        schema = self._named.get(schema, schema) if isinstance(schema, str) else schema
        return schema if isinstance(schema, str) else schema["type"]

    def _name(self, schema: Any) -> str:
        schema = self._named.get(schema, schema) if isinstance(schema, str) else schema
        return schema if isinstance(schema, str) else str(schema.get("name") or schema["type"])

    def _fits(self, branch: Any, value: Any) -> bool:
        schema: Any = self._named.get(branch, branch) if isinstance(branch, str) else branch
        kind = schema if isinstance(schema, str) else schema["type"]
        if value is None or kind == "null":
            return value is None and kind == "null"
        if isinstance(value, bool):
            return kind == "boolean"
        if not isinstance(value, _VALUES.get(kind, ())):
            return False
        content: Any = value
        if kind == "enum":
            return content in schema["symbols"]
        if kind == "record":
            if "-type" in content:
                return content["-type"] in (schema["name"], schema["name"].rpartition(".")[2])
            names = {field["name"] for field in schema["fields"]}
            needed = {field["name"] for field in schema["fields"] if "default" not in field}
            return needed <= content.keys() <= names
        return True


def named_types(parsed: Any) -> dict[str, Any]:
    """The named types of a schema that fastavro has parsed, by their full names."""
    named: dict[str, Any] = {}
    _collect(parsed, named)
    return named


def _collect(schema: Any, named: dict[str, Any]) -> None:
    if isinstance(schema, list):
        for branch in schema:
            _collect(branch, named)
    elif isinstance(schema, dict):
        for definition in (schema.get("__named_schemas") or {}).values():
            if isinstance(definition, dict) and definition.get("name") and definition["name"] not in named:
                _collect(definition, named)
        if schema.get("name") and schema["name"] not in named:
            named[schema["name"]] = schema
            for field in schema.get("fields") or ():
                _collect(field["type"], named)
        for part in ("items", "values"):
            _collect(schema.get(part), named)
        if isinstance(schema.get("type"), dict | list):
            _collect(schema["type"], named)
