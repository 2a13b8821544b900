"""The fields of JSON values, for rules: a walk over a value along its JSON Schema. `$.address.city` is a full name.

A reference that leads nowhere is an error, as in Confluent's clients: the fields behind it would be written without
their rules, such as an encryption.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import unquote, urljoin

from ottla.serdes.formats.json_schema import anchored, with_identity
from ottla.serdes.rules.contracts import Field, FieldKind, FieldTransform, FieldWalk

__all__ = ["json_walk"]

_KINDS = {
    "string": FieldKind.STRING,
    "integer": FieldKind.INT,
    "number": FieldKind.DOUBLE,
    "boolean": FieldKind.BOOLEAN,
}
_STEPS_MAX = 100
# Schemas of JSON Schema itself, whose fields have no tags.
_METASCHEMAS = ("http://json-schema.org/", "https://json-schema.org/")
# A schema with the document that its references begin in.
Placed = tuple[Any, Any]
# Takes a schema, the document that its references begin in, and a value. Returns whether the value fits the schema.
IsValid = Callable[[Any, Any, Any], bool]


def json_walk(root: Any, others: Mapping[str, Any], is_valid: IsValid) -> FieldWalk:
    """`others` are documents that the schema refers to, by address."""
    references = _References(others)

    def walk(value: Any, transform: FieldTransform) -> Any:
        return _Walk(references, is_valid, transform).visit((root, root), value, "$", None)

    return walk


class _Walk:
    def __init__(self, references: _References, is_valid: IsValid, transform: FieldTransform) -> None:
        self._resolved = references.resolved
        self._is_valid = is_valid
        self._transform = transform

    def visit(self, placed: Placed, value: Any, path: str, field: Field | None) -> Any:
        schema, document = self._resolved(placed)
        if value is None or not isinstance(schema, dict):
            return value
        for word in ("allOf", "anyOf", "oneOf"):
            for branch in schema.get(word) or ():
                if word == "allOf" or self._is_valid(*self._resolved((branch, document)), value):
                    value = self.visit((branch, document), value, path, field)
                    if word == "oneOf":
                        break
        if isinstance(value, dict):
            return self._object(schema, document, value, path)
        if isinstance(value, list):
            items = schema.get("items")
            return [self.visit((items, document), element, path, field) for element in value] if items else value
        kind = _kind(schema, value)
        if field is None or kind is None:
            return value
        return self._transform(Field(field.full_name, field.name, kind, field.tags, field.message), value)

    def _object(self, schema: Mapping[str, Any], document: Any, value: dict[str, Any], path: str) -> dict[str, Any]:
        result = dict(value)
        for name, inner in (schema.get("properties") or {}).items():
            if name in value and isinstance(inner, dict):
                tags = frozenset(inner.get("confluent:tags") or ())
                field = Field(f"{path}.{name}", name, FieldKind.NULL, tags, value)
                result[name] = self.visit((inner, document), value[name], f"{path}.{name}", field)
        return result


class _References:
    def __init__(self, others: Mapping[str, Any]) -> None:
        self._others = others
        # By the identities of the schema with the reference and of its document, which live as long as the walk.
        self._targets: dict[tuple[int, int], Placed] = {}

    def resolved(self, placed: Placed) -> Placed:
        """The schema that a schema refers to, or the schema itself."""
        schema, document = placed
        if not isinstance(schema, dict) or not isinstance(schema.get("$ref"), str):
            return placed
        cache_key = (id(schema), id(document))
        target = self._targets.get(cache_key)
        if target is None:
            target = self._targets[cache_key] = self._followed(placed)
        return target

    def _followed(self, placed: Placed) -> Placed:
        schema, document = placed
        for _ in range(_STEPS_MAX):
            if not isinstance(schema, dict) or not isinstance(schema.get("$ref"), str):
                return schema, document
            reference: str = schema["$ref"]
            if reference.startswith(_METASCHEMAS):
                return {}, document
            address, _, fragment = reference.partition("#")
            try:
                if address:
                    document = self._document(address, document)
                schema = _part(document, unquote(fragment))
            except (LookupError, ValueError):
                raise ValueError(f"its JSON Schema is not valid: the reference {reference} leads nowhere") from None
        raise ValueError(f"its JSON Schema is not valid: the reference {placed[0]['$ref']} leads to itself")

    def _document(self, address: str, document: Any) -> Any:
        """The document with an address: another one, or a part of this document with an `$id` of its own.

        Raises LookupError.
        """
        for name, other in self._others.items():
            if address == name or address.endswith(f"/{name}"):
                return other
        own = document.get("$id", document.get("id", "")) if isinstance(document, dict) else ""
        # An address and an `$id` may both be relative to the address of the document.
        directory = f"{str(own).rpartition('/')[0]}/"
        for name in (address, urljoin(str(own), address), address.removeprefix(directory)):
            if name == str(own).partition("#")[0]:
                return document
            part = with_identity(document, name)
            if part is not None:
                return part
        raise LookupError(address)


def _part(document: Any, fragment: str) -> Any:
    """The part of a document that a fragment names: an anchor or a path. Raises LookupError or ValueError."""
    part = anchored(document, fragment) if fragment and not fragment.startswith("/") else None
    if part is not None:
        return part
    part = document
    for step in fragment.strip("/").split("/") if fragment.strip("/") else ():
        key = step.replace("~1", "/").replace("~0", "~")
        if not isinstance(part, dict | list):
            raise LookupError(fragment)
        part = part[int(key)] if isinstance(part, list) else part[key]
    return part


def _kind(schema: Mapping[str, Any], value: Any) -> FieldKind | None:
    if "const" in schema or "enum" in schema:
        return FieldKind.ENUM
    types = schema.get("type")
    if not isinstance(types, list):
        return _KINDS.get(str(types))
    # Of several types, the first that the value has.
    for kind, classes in (("boolean", bool), ("string", str), ("integer", int), ("number", (int, float))):
        if kind in types and isinstance(value, classes):
            return _KINDS[kind]
    return None
