"""The fields of JSON values, for rules: a walk over a value along its JSON Schema. `$.address.city` is a full name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import unquote

from ottla.serdes.rules.contracts import Field, FieldKind, FieldTransform, FieldWalk

__all__ = ["json_walk"]

_KINDS = {
    "string": FieldKind.STRING,
    "integer": FieldKind.INT,
    "number": FieldKind.DOUBLE,
    "boolean": FieldKind.BOOLEAN,
}
_STEPS_MAX = 100
# A schema with the document that its references begin in.
Placed = tuple[Any, Any]


def json_walk(root: Any, others: Mapping[str, Any], is_valid: Callable[[Any, Any], bool]) -> FieldWalk:
    """`others` are documents that the schema refers to; `is_valid` says whether a value fits a schema."""

    def walk(value: Any, transform: FieldTransform) -> Any:
        return _Walk(others, is_valid, transform).visit((root, root), value, "$", None)

    return walk


class _Walk:
    def __init__(
        self, others: Mapping[str, Any], is_valid: Callable[[Any, Any], bool], transform: FieldTransform
    ) -> None:
        self._others = others
        self._is_valid = is_valid
        self._transform = transform

    def visit(self, placed: Placed, value: Any, path: str, field: Field | None) -> Any:
        schema, document = self._resolved(placed)
        if value is None or not isinstance(schema, dict):
            return value
        for word in ("allOf", "anyOf", "oneOf"):
            for branch in schema.get(word) or ():
                if word == "allOf" or self._is_valid(self._resolved((branch, document))[0], value):
                    value = self.visit((branch, document), value, path, field)
                    if word == "oneOf":
                        break
        if isinstance(value, dict):
            return self._object(schema, document, value, path)
        if isinstance(value, list):
            items = schema.get("items")
            return [self.visit((items, document), each, path, field) for each in value] if items else value
        kind = _kind(schema, value)
        if field is None or kind is None:
            return value
        return self._transform(Field(field.full_name, field.name, kind, field.tags, field.message), value)

    def _object(self, schema: Mapping[str, Any], document: Any, value: dict[str, Any], path: str) -> dict[str, Any]:
        result = dict(value)
        for name, inner in (schema.get("properties") or {}).items():
            if name in value and isinstance(inner, dict):
                tags = frozenset(inner.get("confluent:tags") or ())
                place = Field(f"{path}.{name}", name, FieldKind.NULL, tags, value)
                result[name] = self.visit((inner, document), value[name], f"{path}.{name}", place)
        return result

    def _resolved(self, placed: Placed) -> Placed:
        schema, document = placed
        for _ in range(_STEPS_MAX):
            if not isinstance(schema, dict) or not isinstance(schema.get("$ref"), str):
                return schema, document
            address, _, pointer = schema["$ref"].partition("#")
            if address:
                document = next(
                    (each for name, each in self._others.items() if address == name or address.endswith(f"/{name}")), {}
                )
            schema = document
            for step in unquote(pointer).strip("/").split("/") if pointer.strip("/") else ():
                key = step.replace("~1", "/").replace("~0", "~")
                schema = schema.get(key, {}) if isinstance(schema, dict) else {}
        return {}, document


def _kind(schema: Mapping[str, Any], value: Any) -> FieldKind | None:
    if "const" in schema or "enum" in schema:
        return FieldKind.ENUM
    types = schema.get("type")
    if not isinstance(types, list):
        return _KINDS.get(str(types))
    # Of several types the one of the value.
    for kind, classes in (("boolean", bool), ("string", str), ("integer", int), ("number", (int, float))):
        if kind in types and isinstance(value, classes):
            return _KINDS[kind]
    return None
