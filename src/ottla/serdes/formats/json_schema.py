"""JSON Schemas of drafts 4, 6, 7, 2019-09 and 2020-12."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from ottla.serdes.formats.base import JSON, Entity, InvalidSchema, ParsedSchema, SchemaSource, Tags
from ottla.serdes.formats.json_differences import differences
from ottla.serdes.formats.tags import json_entities, tag_entities, tagged_entities

__all__ = ["JsonSchema", "anchored", "parse_json_schema", "with_identity"]

_REFERENCES_MAX = 1_000
_DEPTH_MAX = 500
_DRAFTS = frozenset(f"json-schema.org/{draft}/schema" for draft in ("draft-04", "draft-06", "draft-07")) | {
    "json-schema.org/draft/2019-09/schema",
    "json-schema.org/draft/2020-12/schema",
}


class JsonSchema(ParsedSchema):
    schema_type = JSON

    def __init__(self, root: Any, references: dict[str, Any]) -> None:
        self.root = root
        self.references = references

    @property
    def canonical(self) -> str:
        return json.dumps(self.root, ensure_ascii=False, separators=(",", ":"))

    @property
    def normalized(self) -> str:
        return json.dumps(self.root, ensure_ascii=False, separators=(",", ":"), sort_keys=True)

    def problems_reading(self, writer: JsonSchema) -> list[str]:
        return self._problems(writer, is_lenient=False)

    def problems_reading_lenient(self, writer: JsonSchema) -> list[str]:
        return self._problems(writer, is_lenient=True)

    def _problems(self, writer: JsonSchema, *, is_lenient: bool) -> list[str]:
        """Raises InvalidSchema if a compared part of one of the schemas breaks the rules of JSON Schema."""
        try:
            return differences(old=writer, new=self, is_lenient=is_lenient)
        except OverflowError as error:
            raise InvalidSchema("It cannot be compared: a number is too large.") from error
        except (AttributeError, LookupError, TypeError):
            # Most schemas were checked when they were registered, so the rules are checked only after an error.
            for schema in (self, writer):
                schema.check_new()
            raise

    def check_new(self) -> None:
        import jsonschema_rs

        try:
            jsonschema_rs.meta.validate(_with_draft(self.root))
        except jsonschema_rs.ValidationError as error:
            path = "/".join(map(str, error.instance_path))
            raise InvalidSchema(
                f"It does not follow the rules of JSON Schema at '/{path}': {error.message}."
            ) from error
        except (ValueError, jsonschema_rs.ReferencingError) as error:
            raise InvalidSchema(f"It is not a JSON Schema: {error}.") from error
        for reference in _pointers(self.root):
            if self.resolve(reference, self.root)[0] is None:
                raise InvalidSchema(f"The reference {reference} leads nowhere.")

    def tagged(self) -> dict[Entity, tuple[str, ...]]:
        return tagged_entities(json_entities(self.root))

    def with_tags(self, add: Tags, remove: Tags) -> str:
        root = json.loads(self.canonical)
        tag_entities(json_entities(root), add=add, remove=remove)
        return json.dumps(root, ensure_ascii=False, separators=(",", ":"))

    def names(self) -> Sequence[str]:
        title = self.root.get("title") if isinstance(self.root, dict) else None
        return [title] if isinstance(title, str) else []

    def resolve(self, reference: str, document: Any) -> tuple[Any, Any]:
        """The schema that `$ref` means, and its document; (None, None) if there is none."""
        address, _, fragment = reference.partition("#")
        if address:
            document = self._document(address)
            if document is None:
                return None, None
        if fragment and not fragment.startswith("/"):
            return anchored(document, fragment), document
        node = document
        for step in fragment.split("/")[1:]:
            key = step.replace("~1", "/").replace("~0", "~").replace("%25", "%").replace("%20", " ")
            if isinstance(node, list) and key.isdecimal() and int(key) < len(node):
                node = node[int(key)]
            elif isinstance(node, dict) and key in node:
                node = node[key]
            else:
                return None, None
        return node, document

    def _document(self, address: str) -> Any:
        for name, document in self.references.items():
            identity = document.get("$id", document.get("id")) if isinstance(document, dict) else None
            if address in (name, identity) or name.endswith("/" + address) or str(identity).endswith("/" + address):
                return document
        root_id = self.root.get("$id", self.root.get("id")) if isinstance(self.root, dict) else None
        return self.root if address == root_id else with_identity(self.root, address)


def _with_draft(root: Any) -> Any:
    """A schema that names no known draft follows draft 7, as in Confluent's registry."""
    if not isinstance(root, dict) or str(root.get("$schema")).partition("://")[2].rstrip("#") in _DRAFTS:
        return root
    return {**root, "$schema": "http://json-schema.org/draft-07/schema#"}


def parse_json_schema(source: SchemaSource) -> JsonSchema:
    """Raises InvalidSchema."""
    if len(source.references) > _REFERENCES_MAX:
        raise InvalidSchema(f"A schema refers to at most {_REFERENCES_MAX} others.")
    return JsonSchema(_schema(source.text), {name: _schema(text) for name, text in source.references})


def _schema(text: str) -> Any:
    try:
        root = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidSchema(f"It is not JSON: {error}.") from error
    if not isinstance(root, dict | bool):
        raise InvalidSchema("A JSON Schema is an object, true or false.")
    _check_depth(root)
    return root


def _check_depth(root: Any) -> None:
    """Raises InvalidSchema for a deep schema. The limit does not depend on that of the interpreter."""
    level: list[Any] = [root]
    for _ in range(_DEPTH_MAX):
        level = [inner for node in level if isinstance(node, dict | list) for inner in _inner(node)]
        if not level:
            return
    raise InvalidSchema(f"The schema is nested more than {_DEPTH_MAX} levels deep.")


def _inner(value: Any) -> Iterable[Any]:
    return value.values() if isinstance(value, dict) else value


def _pointers(schema: Any) -> list[str]:
    """Every `$ref` within the document itself."""
    if isinstance(schema, list):
        return [pointer for child in schema for pointer in _pointers(child)]
    if not isinstance(schema, dict):
        return []
    own = schema.get("$ref")
    pointers = [own] if isinstance(own, str) and own.startswith("#/") else []
    return pointers + [
        inner for key, child in schema.items() if key not in ("enum", "const") for inner in _pointers(child)
    ]


def anchored(schema: Any, anchor: str) -> Any:
    """The part of the document with this anchor; None if there is none."""
    if isinstance(schema, list):
        return next((match for child in schema if (match := anchored(child, anchor)) is not None), None)
    if not isinstance(schema, dict):
        return None
    if anchor in (schema.get("$anchor"), schema.get("$dynamicAnchor")) or schema.get("$id") == f"#{anchor}":
        return schema
    return next((match for child in schema.values() if (match := anchored(child, anchor)) is not None), None)


def with_identity(schema: Any, address: str) -> Any:
    """The part of the document with this address as its `$id`; None if there is none."""
    if isinstance(schema, list):
        return next((match for child in schema if (match := with_identity(child, address)) is not None), None)
    if not isinstance(schema, dict):
        return None
    if schema.get("$id") == address:
        return schema
    return next((match for child in schema.values() if (match := with_identity(child, address)) is not None), None)
