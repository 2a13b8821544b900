"""Registers, finds and checks schemas: decisions that return records and change no state."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ottla.registry.core.compatibility import compatibility_problems
from ottla.registry.core.contexts import context_of
from ottla.registry.core.errors import RegistryError
from ottla.registry.core.identity import guid_of
from ottla.registry.core.parsing import SchemaCache
from ottla.registry.core.records import Record, context_record, schema_record, schema_tombstone
from ottla.registry.core.requests import SchemaRequest, checked_metadata, checked_rule_set, checked_tags
from ottla.registry.core.settings import config_in_scope, mode_in_scope
from ottla.registry.core.state import RegistryState
from ottla.registry.core.values import SchemaContent, StoredVersion
from ottla.serdes.formats import InvalidSchema, Tags

__all__ = ["check_compatibility", "decide_change_tags", "decide_register", "find_version"]

_ID_MAX = 2**31 - 1
_VERSION_PROPERTY = "confluent:version"
_NOT_FOUND = 404
# In these modes a request names the id, and nothing is compared: FORWARD is the mode of a linked registry.
_IMPORTING = ("IMPORT", "FORWARD")
# Fields of a configuration that add metadata and rules to a schema.
_CHANGING = frozenset({"defaultMetadata", "overrideMetadata", "defaultRuleSet", "overrideRuleSet"})


def decide_register(
    state: RegistryState, schemas: SchemaCache, subject: str, request: SchemaRequest, *, normalize: bool = False
) -> tuple[list[Record], dict[str, Any]]:
    """The records of a new version, or none for a schema that the subject has. Raises RegistryError."""
    mode = mode_in_scope(state, subject)
    is_read_only = mode.startswith("READONLY")
    is_import = mode in _IMPORTING
    if is_read_only or (is_import and request.id is None):
        known = _registered_already(state, schemas, subject, request, normalize=normalize)
        if known is not None:
            return [], _answer(known)
        if is_read_only:
            raise RegistryError.not_permitted(f"Subject {subject} is in read-only mode")
        raise RegistryError.not_permitted(f"Subject {subject} is not in read-write mode")
    config = config_in_scope(state, subject)
    live = state.versions(subject)
    if not is_import:
        request = _completed(schemas, request, live)
    content = _content(schemas, request, normalize=normalize or bool(config.get("normalize")))
    if request.id is not None and not is_import:
        return _known_version(state, subject, request, content)
    if not is_import:
        inherited = _inherited(content, live, config)
        content = _numbered(inherited, request, _following(state, subject))
        # Content with a version number can repeat the latest version only: an older version with the same schema has
        # another number.
        known = _same_content(schemas, live if content is inherited else live[-1:], content)
        if known is not None:
            return [], _answer(known)
        _check_new(schemas, content)
        problems = _compared(schemas, content, live, config)
        if problems:
            raise RegistryError.incompatible(subject, f"[{', '.join(problems)}]")
    elif request.version is None:
        # Clients repeat a request whose answer they did not get.
        known = _same_content(schemas, live, content)
        if known is not None and known.id == request.id:
            return [], _answer(known)
    return _new_version(state, subject, request, content)


def _registered_already(
    state: RegistryState, schemas: SchemaCache, subject: str, request: SchemaRequest, *, normalize: bool
) -> StoredVersion | None:
    """The version that the registration asks for, if it exists: it needs no record, so every mode allows it."""
    config = config_in_scope(state, subject)
    if not request.text.strip() or request.changes_tags or request.takes_over_tags or not _CHANGING.isdisjoint(config):
        return None
    try:
        known = find_version(state, schemas, subject, request, normalize=normalize)
    except RegistryError as error:
        if error.status != _NOT_FOUND:
            raise
        return None
    if request.version is None:
        return known if request.id in (None, known.id) else None
    return known if (request.id, request.version) == (known.id, known.version) else None


def decide_change_tags(
    state: RegistryState, schemas: SchemaCache, version: StoredVersion, body: Mapping[str, Any]
) -> tuple[list[Record], dict[str, Any]]:
    """A new version: the given version with changed tags, metadata and rules. Raises RegistryError."""
    content = version.content
    rules = checked_rule_set(body.get("ruleSet"))
    if body.get("rulesToMerge") is not None or body.get("rulesToRemove") is not None:
        if rules is not None:
            raise RegistryError(42210, "ruleSet should be omitted if specifying rulesToMerge or rulesToRemove")
        rules = _changed_rules(content.rule_set, body)
    number = body.get("newVersion")
    request = SchemaRequest(
        text=content.text,
        schema_type=content.schema_type,
        references=content.references,
        metadata=checked_metadata(body.get("metadata")) or content.metadata,
        rule_set=rules if rules is not None else content.rule_set,
        version=number if isinstance(number, int) and number > 0 else _following(state, version.subject),
        tags_to_add=checked_tags(body, "tagsToAdd"),
        tags_to_remove=checked_tags(body, "tagsToRemove"),
    )
    return decide_register(state, schemas, version.subject, request)


def _changed_rules(rule_set: Mapping[str, Any] | None, body: Mapping[str, Any]) -> dict[str, Any] | None:
    removed = body.get("rulesToRemove") or []
    if not isinstance(removed, list):
        raise RegistryError(42210, "rulesToRemove must be a list of names.")
    merged = _merged(rule_set, checked_rule_set(body.get("rulesToMerge")))
    if merged is None:
        return None
    return {
        name: [rule for rule in part if rule.get("name") not in removed] if isinstance(part, list) else part
        for name, part in merged.items()
    }


def find_version(
    state: RegistryState,
    schemas: SchemaCache,
    subject: str,
    request: SchemaRequest,
    *,
    normalize: bool = False,
    with_deleted: bool = False,
) -> StoredVersion:
    """The newest version with this schema. Raises RegistryError 40401 or 40403."""
    versions = state.versions(subject, with_deleted=True)
    if not versions or (not with_deleted and not state.versions(subject)):
        raise RegistryError.subject_not_found(subject)
    normalize = normalize or bool(config_in_scope(state, subject).get("normalize"))
    content = _content(schemas, request, normalize=normalize)
    candidates = [version for version in versions if with_deleted or not version.deleted]
    stored = _same_content(schemas, candidates, content, ignores_contract=content.metadata is content.rule_set is None)
    if stored is None and normalize:
        wanted = schemas.parsed(content).normalized
        for version in reversed(candidates):
            if version.content.schema_type == content.schema_type and _normalized(schemas, version) == wanted:
                return version
    if stored is None:
        raise RegistryError.schema_not_found()
    return stored


def check_compatibility(
    state: RegistryState,
    schemas: SchemaCache,
    subject: str,
    request: SchemaRequest,
    versions: list[StoredVersion],
    *,
    normalize: bool = False,
) -> list[str]:
    """Why the schema cannot follow these versions."""
    config = config_in_scope(state, subject)
    content = _content(schemas, request, normalize=normalize or bool(config.get("normalize")))
    return _compared(schemas, _inherited(content, versions, config), versions, config)


def _completed(schemas: SchemaCache, request: SchemaRequest, live: list[StoredVersion]) -> SchemaRequest:
    """The request, completed from the latest version: a missing text, and the tags if the request takes them over."""
    if not request.text.strip():
        if not live:
            raise RegistryError.invalid_schema("Empty schema")
        last = live[-1].content
        request = replace(
            request, text=last.text, schema_type=last.schema_type, references=request.references or last.references
        )
    if request.takes_over_tags and live:
        tags = dict(_tags(schemas, live[-1].content))
        for entity, more in request.tags_to_add.items():
            tags[entity] = tags.get(entity, ()) + more
        request = replace(request, tags_to_add=tags)
    return request


def _tags(schemas: SchemaCache, content: SchemaContent) -> Tags:
    try:
        return schemas.parsed(content).tagged()
    except (InvalidSchema, RecursionError):
        return {}


def _numbered(content: SchemaContent, request: SchemaRequest, number: int) -> SchemaContent:
    """Adds the version's number to the metadata if the request has it or changes tags, or the metadata had it."""
    properties = (content.metadata or {}).get("properties") or {}
    if request.version is None and not request.changes_tags and _VERSION_PROPERTY not in properties:
        return content
    changed = {**properties, _VERSION_PROPERTY: str(request.version or number)}
    return replace(content, metadata={**(content.metadata or {}), "properties": changed})


def _content(schemas: SchemaCache, request: SchemaRequest, *, normalize: bool) -> SchemaContent:
    """The request with canonical text. Raises RegistryError 42201."""
    requested = SchemaContent(
        schema_type=request.schema_type,
        text=request.text,
        references=schemas.fixed(request.references),
        metadata=request.metadata,
        rule_set=request.rule_set,
    )
    try:
        parsed = schemas.parsed(requested)
        if request.changes_tags:
            requested = replace(requested, text=parsed.with_tags(request.tags_to_add, request.tags_to_remove))
            parsed = schemas.parsed(requested)
        references = requested.references
        if normalize:
            references = tuple(
                sorted(set(references), key=lambda reference: (reference.name, reference.subject, reference.version))
            )
        text = parsed.normalized if normalize else parsed.canonical
        # A schema in JSON may have half of a surrogate pair as an escape, which its canonical text does not escape.
        text.encode()
        return replace(requested, text=text, references=references)
    except UnicodeEncodeError:
        raise RegistryError.invalid_schema("It has half of a surrogate pair.") from None
    except InvalidSchema as error:
        raise RegistryError.invalid_schema(str(error)) from error
    except RecursionError:
        raise RegistryError.invalid_schema("It is nested too deeply.") from None


def _compared(
    schemas: SchemaCache, content: SchemaContent, earlier: list[StoredVersion], config: Mapping[str, Any]
) -> list[str]:
    """Raises RegistryError 42201 for a schema that cannot be compared."""
    try:
        return compatibility_problems(schemas, content, earlier, config)
    except InvalidSchema as error:
        raise RegistryError.invalid_schema(str(error)) from error
    except RecursionError:
        raise RegistryError.invalid_schema("It is nested too deeply.") from None


def _check_new(schemas: SchemaCache, content: SchemaContent) -> None:
    try:
        schemas.parsed(content).check_new()
    except InvalidSchema as error:
        raise RegistryError.invalid_schema(str(error)) from error
    except RecursionError:
        raise RegistryError.invalid_schema("It is nested too deeply.") from None


def _inherited(content: SchemaContent, live: list[StoredVersion], config: Mapping[str, Any]) -> SchemaContent:
    """Metadata and rules of the request, else of the last version, with the configuration's defaults and overrides."""
    last = live[-1].content if live else None
    metadata = content.metadata if content.metadata is not None or last is None else last.metadata
    rules = content.rule_set if content.rule_set is not None or last is None else last.rule_set
    metadata = _merged(config.get("defaultMetadata"), metadata, config.get("overrideMetadata"))
    rules = _merged(config.get("defaultRuleSet"), rules, config.get("overrideRuleSet"))
    return replace(content, metadata=metadata, rule_set=rules)


def _merged(*parts: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Later parts win; maps are merged, and rules of the same name are replaced."""
    merged: dict[str, Any] | None = None
    for part in parts:
        if part is None:
            continue
        merged = {} if merged is None else merged
        for key, value in part.items():
            former = merged.get(key)
            if isinstance(value, dict) and isinstance(former, dict):
                merged[key] = {**former, **value}
            elif isinstance(value, list) and isinstance(former, list) and all(isinstance(rule, dict) for rule in value):
                names = {rule.get("name") for rule in value}
                merged[key] = [rule for rule in former if rule.get("name") not in names] + value
            else:
                merged[key] = value
    return merged


def _same_content(
    schemas: SchemaCache, versions: list[StoredVersion], content: SchemaContent, *, ignores_contract: bool = False
) -> StoredVersion | None:
    for version in reversed(versions):
        stored = version.content
        if stored.schema_type != content.schema_type or _places(stored) != _places(content):
            continue
        if not ignores_contract and _contract(stored) != _contract(content):
            continue
        if stored.text == content.text or _canonical(schemas, version) == content.text:
            return version
    return None


def _places(content: SchemaContent) -> list[tuple[str, tuple[str, int]]]:
    return [(reference.name, reference.place) for reference in content.references]


def _contract(content: SchemaContent) -> tuple[Any, Any]:
    """Metadata and rules without default values: clients differ in the defaults that they send.

    The number of a version is left out too: it does not make the content different.
    """
    metadata = dict(content.metadata or {})
    properties = dict(metadata.pop("properties", None) or {})
    properties.pop(_VERSION_PROPERTY, None)
    return _without_defaults({**metadata, "properties": properties}), _without_defaults(content.rule_set)


def _without_defaults(value: Any) -> Any:
    if isinstance(value, Mapping):
        fields = {key: _without_defaults(field) for key, field in value.items()}
        return {key: field for key, field in fields.items() if field not in (None, False, "", [], {})}
    return [_without_defaults(element) for element in value] if isinstance(value, list) else value


def _canonical(schemas: SchemaCache, version: StoredVersion) -> str | None:
    """Our canonical text of a version that another registry may have stored in its own layout."""
    try:
        return schemas.parsed(version.content).canonical
    except InvalidSchema:
        return None


def _normalized(schemas: SchemaCache, version: StoredVersion) -> str | None:
    try:
        return schemas.parsed(version.content).normalized
    except InvalidSchema:
        return None


def _known_version(
    state: RegistryState, subject: str, request: SchemaRequest, content: SchemaContent
) -> tuple[list[Record], dict[str, Any]]:
    """Clients may repeat a registration with the id that they got."""
    for version in state.versions(subject):
        if version.id == request.id and version.content.text == content.text:
            return [], _answer(version)
    raise RegistryError.not_permitted(f"Subject {subject} is not in import mode")


def _new_version(
    state: RegistryState, subject: str, request: SchemaRequest, content: SchemaContent
) -> tuple[list[Record], dict[str, Any]]:
    context = context_of(subject)
    guid = guid_of(content)
    schema_id = request.id if request.id is not None else state.id_of(context, guid, content.schema_type)
    if schema_id is None:
        schema_id = state.highest_id(context) + 1
    elif request.id is not None:
        holders = state.with_id(context, request.id)
        if any(holder.guid != guid for holder in holders):
            raise RegistryError.not_permitted(f"Overwrite new schema with id {request.id} is not permitted.")
    if schema_id > _ID_MAX:
        raise RegistryError(50001, "The registry has no more ids.")
    known, following = state.versions(subject, with_deleted=True), _following(state, subject)
    number = request.version or following
    if number != following and mode_in_scope(state, subject) not in _IMPORTING:
        raise RegistryError.invalid_schema(f"The version {number} is not one more than the previous version.")
    version = StoredVersion(subject=subject, version=number, id=schema_id, guid=guid, content=content)
    # The new version replaces deleted versions with the same schema.
    stale = [
        stored
        for stored in known
        if stored.deleted
        and stored.id == schema_id
        and stored.version != number
        # Other schemas can refer to a deleted version, also deleted ones: consumers still read these by their ids.
        and not any(state.referring_to(subject, stored.version, with_deleted=True))
    ]
    records = [schema_tombstone(stored) for stored in stale] if request.id is None else []
    if any(stored.version == number and stored.id != schema_id for stored in known):
        # No other record of the topic keeps the id of the replaced version from being assigned again.
        records.insert(0, context_record(context, state.highest_id(context)))
    return [schema_record(version), *records], _answer(version)


def _following(state: RegistryState, subject: str) -> int:
    """The number of the next version; numbers of deleted versions are not used again."""
    known = state.versions(subject, with_deleted=True)
    return known[-1].version + 1 if known else 1


def _answer(version: StoredVersion) -> dict[str, Any]:
    """The version without its text: clients would keep it instead of theirs, in which a form such as base64 matters."""
    content = version.content.as_json()
    del content["schema"]
    return {"id": version.id, "version": version.version, "guid": version.guid} | content
