"""Tags within the texts of Avro and JSON Schema (`confluent:tags`): which records and fields have them, and changes.

A path names a record (`com.example.Person`) or a field (`com.example.Person.name`). In JSON Schema it consists of the
kinds of schemas and the names of properties: `object.address.object.street`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ottla.serdes.formats.base import FIELD, RECORD, Entity, InvalidSchema, Tags

__all__ = ["avro_entities", "changed_tags", "json_entities", "no_such_entity", "tag_entities", "tagged_entities"]

_TAGS = "confluent:tags"
_COMBINED = ("allOf", "anyOf", "oneOf")
_CONDITIONAL = ("if", "then", "else")

# Records and fields with the part of the text that holds their tags.
Entities = Iterator[tuple[Entity, dict[str, Any]]]


def tagged_entities(entities: Entities) -> dict[Entity, tuple[str, ...]]:
    """The entities that have tags, with their tags."""
    own_tags = {entity: _own(node) for entity, node in entities}
    return {entity: tags for entity, tags in own_tags.items() if tags}


def tag_entities(entities: Entities, *, add: Tags, remove: Tags) -> None:
    """Changes the nodes. Raises InvalidSchema for a path that does not exist."""
    known = list(entities)
    for entity in dict.fromkeys((*add, *remove)):
        node = next((node for known_entity, node in known if _matches(entity, known_entity)), None)
        if node is None:
            raise no_such_entity(entity)
        tags = changed_tags(_own(node), add.get(entity, ()), remove.get(entity, ()))
        node.pop(_TAGS, None)
        if tags:
            node[_TAGS] = list(tags)


def changed_tags(tags: tuple[str, ...], add: tuple[str, ...], remove: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(tag for tag in dict.fromkeys((*tags, *add)) if tag not in remove)


def no_such_entity(entity: Entity) -> InvalidSchema:
    return InvalidSchema(f"No matching path '{entity.path}' found in the schema")


def avro_entities(schema: Any, namespace: str = "") -> Entities:
    """The records of an Avro schema and their fields."""
    if isinstance(schema, list):
        for branch in schema:
            yield from avro_entities(branch, namespace)
    if not isinstance(schema, dict):
        return
    if schema.get("type") in ("record", "error"):
        name = str(schema.get("name"))
        full = name if "." in name else ".".join(filter(None, (schema.get("namespace", namespace), name)))
        yield Entity(full, RECORD), schema
        for field in schema.get("fields") or ():
            yield Entity(f"{full}.{field['name']}", FIELD), field
            yield from avro_entities(field["type"], full.rpartition(".")[0])
    for inner in ("items", "values", "type"):
        yield from avro_entities(schema.get(inner), schema.get("namespace", namespace))


def json_entities(schema: Any, scope: str = "", *, is_property: bool = False) -> Entities:
    """The objects of a JSON Schema and their properties. A property has only its own tags, even if it is an object."""
    if not isinstance(schema, dict):
        return
    for name in _COMBINED:
        branches = schema.get(name)
        for index, branch in enumerate(branches if isinstance(branches, list) else ()):
            yield from json_entities(branch, f"{scope}{name.lower()}.{index}.")
    for name in _CONDITIONAL:
        yield from json_entities(schema.get(name), f"{scope}conditional.{name}.")
    yield from json_entities(schema.get("not"), f"{scope}not.")
    yield from json_entities(schema.get("items"), f"{scope}array.")
    if "properties" not in schema and schema.get("type") != "object":
        return
    path = f"{scope}object"
    if not is_property:
        yield Entity(path, RECORD), schema
    for name, inner in _members(schema, "properties"):
        if isinstance(inner, dict):
            yield Entity(f"{path}.{name}", FIELD), inner
            yield from json_entities(inner, f"{path}.{name}.", is_property=True)
    for group in ("definitions", "$defs"):
        for name, inner in _members(schema, group):
            yield from json_entities(inner, f"{path}.{group}.{name}.")


def _members(schema: dict[str, Any], name: str) -> Iterable[tuple[str, Any]]:
    """The members of an object. The schema may be invalid, because its tags are read before it is checked."""
    members = schema.get(name)
    return members.items() if isinstance(members, dict) else ()


def _own(node: Mapping[str, Any]) -> tuple[str, ...]:
    tags = node.get(_TAGS)
    return tuple(map(str, tags)) if isinstance(tags, list) else ()


def _matches(requested: Entity, known: Entity) -> bool:
    """True if the paths match. The requested path may omit the namespace of an Avro record and begin with a dot."""
    if requested.kind != known.kind:
        return False
    path = requested.path.removeprefix(".")
    parts = 1 if requested.kind == RECORD else 2
    return path == known.path or (path.count(".") == parts - 1 and known.path.split(".")[-parts:] == path.split("."))
