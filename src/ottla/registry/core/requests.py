"""The body of a request about a schema, checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ottla.registry.core.contexts import context_of
from ottla.registry.core.errors import RegistryError
from ottla.registry.core.values import Reference
from ottla.serdes.formats import AVRO, FIELD, PROTOBUF, RECORD, Entity, Tags

__all__ = ["SchemaRequest", "checked_metadata", "checked_rule_set", "checked_tags", "schema_request"]

_RULE_KINDS = ("migrationRules", "domainRules", "encodingRules")
_NAME_MAX = 256
_REFERENCES_MAX = 1_000
# No other decision is made while a schema is parsed; the parser of .proto files takes about 7 us for each byte.
_TEXT_MAX = 1024 * 1024
_PROTOBUF_TEXT_MAX = 256 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaRequest:
    text: str
    schema_type: str = AVRO
    references: tuple[Reference, ...] = ()
    metadata: Mapping[str, Any] | None = None
    rule_set: Mapping[str, Any] | None = None
    # Given in the mode IMPORT alone.
    id: int | None = None
    version: int | None = None
    # Tags to put into the text, and to take out of it.
    tags_to_add: Tags = field(default_factory=dict)
    tags_to_remove: Tags = field(default_factory=dict)
    # The text gets the tags of the latest version.
    takes_over_tags: bool = False

    @property
    def changes_tags(self) -> bool:
        return bool(self.tags_to_add or self.tags_to_remove)


def schema_request(body: Mapping[str, Any], subject: str = "", *, may_be_empty: bool = False) -> SchemaRequest:
    """Raises RegistryError 422 with the field that is wrong. References are in the context of the subject.

    With `may_be_empty`, an empty text stands for the text of the latest version.
    """
    text = body.get("schema")
    if text is None and may_be_empty:
        text = ""
    if not isinstance(text, str):
        raise RegistryError(42201, "Empty schema" if text is None else "schema must be a text.")
    kind = body.get("schemaType") or AVRO
    if not isinstance(kind, str):
        raise RegistryError(422, "schemaType must be a text.")
    length_max = _PROTOBUF_TEXT_MAX if kind.upper() == PROTOBUF else _TEXT_MAX
    if len(text) > length_max:
        raise RegistryError(42209, f"The schema has {len(text)} characters, but at most {length_max} are allowed.")
    return SchemaRequest(
        text=text,
        schema_type=kind.upper(),
        references=_references(body.get("references"), context_of(subject)),
        metadata=checked_metadata(body.get("metadata")),
        rule_set=checked_rule_set(body.get("ruleSet")),
        id=_number(body, "id"),
        version=_number(body, "version"),
        tags_to_add=checked_tags(body, "schemaTagsToAdd"),
        tags_to_remove=checked_tags(body, "schemaTagsToRemove"),
        takes_over_tags=body.get("propagateSchemaTags") is True,
    )


def checked_tags(body: Mapping[str, Any], name: str) -> dict[Entity, tuple[str, ...]]:
    """The tags of records and fields that a request names. Raises RegistryError 422."""
    value = body.get(name) or []
    tags_by_entity: dict[Entity, tuple[str, ...]] = {}
    for tagged in value if isinstance(value, list) else [value]:
        tags, entity = (tagged.get("tags"), tagged.get("schemaEntity")) if isinstance(tagged, dict) else (None, None)
        if not isinstance(entity, dict) or not isinstance(entity.get("entityPath"), str) or not _is_texts(tags):
            raise RegistryError(422, f"{name} must be a list of a schemaEntity with an entityPath, and its tags.")
        if entity.get("entityType") not in (RECORD, FIELD):
            raise RegistryError(422, f"The entityType of {entity['entityPath']} must be {RECORD} or {FIELD}.")
        place = Entity(entity["entityPath"], entity["entityType"])
        tags_by_entity[place] = tags_by_entity.get(place, ()) + tuple(tags or ())
    return tags_by_entity


def _references(value: Any, context: str) -> tuple[Reference, ...]:
    if value is None:
        return ()
    if not isinstance(value, list) or len(value) > _REFERENCES_MAX:
        raise RegistryError(422, f"references must be a list of at most {_REFERENCES_MAX} objects.")
    references = []
    for reference in value:
        is_valid = (
            isinstance(reference, dict)
            and isinstance(reference.get("name"), str)
            and isinstance(reference.get("subject"), str)
        )
        if not is_valid or not isinstance(reference.get("version", -1), int):
            raise RegistryError(422, "A reference needs a name, a subject and a version.")
        references.append(Reference(reference["name"], reference["subject"], reference.get("version", -1), context))
    return tuple(references)


def _number(body: Mapping[str, Any], name: str) -> int | None:
    value = body.get(name)
    if value is None or value in (0, -1):
        # Clients send 0 or -1 instead of leaving the field out.
        return None
    if not isinstance(value, int) or isinstance(value, bool) or not 0 < value < 2**31:
        raise RegistryError(422, f"{name} must be a number between 1 and 2^31-1.")
    return value


def checked_metadata(value: Any) -> Mapping[str, Any] | None:
    if value is None:
        return None
    if not isinstance(value, dict):
        raise RegistryError(422, "metadata must be an object.")
    parts: dict[str, Any] = {}
    for name, kind in (("tags", dict), ("properties", dict), ("sensitive", list)):
        part = value.get(name)
        if part is None:
            continue
        if not isinstance(part, kind):
            raise RegistryError(422, f"{name} of metadata must be {'an object' if kind is dict else 'a list'}.")
        parts[name] = part
    # The GUID of a schema is computed from these texts.
    if not all(_is_texts(tags) for tags in parts.get("tags", {}).values()) or not _is_texts(parts.get("sensitive", [])):
        raise RegistryError(422, "tags and sensitive of metadata must have lists of texts.")
    if not all(isinstance(text, str) for text in parts.get("properties", {}).values()):
        raise RegistryError(422, "properties of metadata must have texts as values.")
    return parts


def _is_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(text, str) for text in value)


def checked_rule_set(value: Any) -> Mapping[str, Any] | None:
    if value is None:
        return None
    if not isinstance(value, dict):
        raise RegistryError(422, "ruleSet must be an object.")
    rule_set: dict[str, Any] = {}
    for kind in _RULE_KINDS:
        rules = value.get(kind)
        if rules is None:
            continue
        if not isinstance(rules, list):
            raise RegistryError(42210, f"{kind} must be a list of rules.")
        rule_set[kind] = [_rule(rule, kind) for rule in rules]
        names = [rule["name"] for rule in rule_set[kind]]
        if len(set(names)) != len(names):
            raise RegistryError(42210, f"{kind} has two rules of the same name.")
    if value.get("enableAt") is not None:
        rule_set["enableAt"] = value["enableAt"]
    return rule_set


def _rule(value: Any, kind: str) -> dict[str, Any]:
    if not isinstance(value, dict) or not isinstance(value.get("name"), str) or not 0 < len(value["name"]) <= _NAME_MAX:
        raise RegistryError(42210, f"A rule of {kind} needs a name of 1 to {_NAME_MAX} characters.")
    modes = ("UPGRADE", "DOWNGRADE", "UPDOWN") if kind == "migrationRules" else ("WRITE", "READ", "WRITEREAD")
    if value.get("mode") is not None and value["mode"] not in modes:
        raise RegistryError(42210, f"The mode of the rule {value['name']} must be one of {', '.join(modes)}.")
    if value.get("kind") is not None and value["kind"] not in ("CONDITION", "TRANSFORM"):
        raise RegistryError(42210, f"The kind of the rule {value['name']} must be CONDITION or TRANSFORM.")
    if not _is_texts(value.get("tags") or []) or not isinstance(value.get("params") or {}, dict):
        raise RegistryError(42210, f"The rule {value['name']} needs a list of texts as tags and an object as params.")
    return {name: attribute for name, attribute in value.items() if attribute is not None}
