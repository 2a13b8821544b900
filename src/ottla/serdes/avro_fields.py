"""The fields of Avro values, for rules: a walk over a value along its schema."""

from __future__ import annotations

import datetime
import decimal
import uuid
from collections.abc import Mapping
from typing import Any

from ottla.serdes.rules.contracts import Field, FieldKind, FieldTransform, FieldWalk

__all__ = ["avro_walk"]

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
    named: dict[str, Any] = {}
    _collect(parsed, named)

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
            return [self.visit(schema["items"], each, field) for each in value]
        if kind == "map" and isinstance(value, dict):
            return {key: self.visit(schema["values"], each, field) for key, each in value.items()}
        if kind in ("record", "error"):
            return self._record(schema, value) if isinstance(value, dict) else value
        if field is None or kind not in _KINDS:
            return value
        return self._transform(Field(field.full_name, field.name, _KINDS[kind], field.tags, field.message), value)

    def _record(self, schema: Mapping[str, Any], value: dict[str, Any]) -> dict[str, Any]:
        result = dict(value)
        for each in schema["fields"]:
            name = each["name"]
            if name in value:
                tags = frozenset(each.get("confluent:tags") or ())
                place = Field(f"{schema['name']}.{name}", name, FieldKind.NULL, tags, value)
                result[name] = self.visit(each["type"], value[name], place)
        return result

    def _union(self, branches: list[Any], value: Any, field: Field | None) -> Any:
        """Within the branch that the value fits; a pair of name and value names its branch."""
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

    def _fits(self, given: Any, value: Any) -> bool:
        schema: Any = self._named.get(given, given) if isinstance(given, str) else given
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
            names = {each["name"] for each in schema["fields"]}
            needed = {each["name"] for each in schema["fields"] if "default" not in each}
            return needed <= content.keys() <= names
        return True


def _collect(schema: Any, named: dict[str, Any]) -> None:
    """Every named type of a schema by its full name."""
    if isinstance(schema, list):
        for each in schema:
            _collect(each, named)
    elif isinstance(schema, dict):
        for known in (schema.get("__named_schemas") or {}).values():
            if isinstance(known, dict) and known.get("name") and known["name"] not in named:
                _collect(known, named)
        if schema.get("name") and schema["name"] not in named:
            named[schema["name"]] = schema
            for each in schema.get("fields") or ():
                _collect(each["type"], named)
        for part in ("items", "values"):
            _collect(schema.get(part), named)
        if isinstance(schema.get("type"), dict | list):
            _collect(schema["type"], named)
