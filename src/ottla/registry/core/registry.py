"""The reads of the REST interface, answered from the state. Nothing here waits or writes."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from ottla.registry.core.contexts import (
    DEFAULT,
    canonical_subject,
    context_of,
    context_subject,
    in_context,
    matches_prefix,
)
from ottla.registry.core.errors import RegistryError
from ottla.registry.core.parsing import SchemaCache
from ottla.registry.core.registration import check_compatibility, find_version
from ottla.registry.core.requests import SchemaRequest
from ottla.registry.core.settings import config_in_scope, mode_in_scope
from ottla.registry.core.state import RegistryState
from ottla.registry.core.values import SchemaContent, StoredVersion
from ottla.serdes.formats import InvalidSchema

__all__ = ["Registry"]

_VERSION_MAX = 2**31 - 1
_DIGITS_MAX = 20


class Registry:
    def __init__(self) -> None:
        self.state = RegistryState()
        self.schemas = SchemaCache(self.state)

    # By id and GUID.

    def version_by_id(self, schema_id: int, subject: str = "") -> StoredVersion:
        """A version with the id, of the subject if it has one. Raises RegistryError 40403."""
        holder = self._holder(schema_id, subject)
        if holder is None:
            raise RegistryError.schema_not_found(schema_id)
        return holder

    def _holder(self, schema_id: int, subject: str) -> StoredVersion | None:
        state, context, name = self.state, context_of(subject), canonical_subject(subject)
        if not name or name == context_subject(context):
            return state.first_with_id(context, schema_id)
        # A subject without a context may be in any context.
        others = state.contexts_with_id(schema_id) if context == DEFAULT else []
        for candidate in dict.fromkeys((context, *others)):
            qualified = in_context(candidate, name)
            for holder in state.with_id(candidate, schema_id):
                if holder.subject == qualified:
                    return holder
        return state.first_with_id(context, schema_id) if context == DEFAULT else None

    def versions_by_id(self, schema_id: int, subject: str = "", *, with_deleted: bool = False) -> list[StoredVersion]:
        context = context_of(self.version_by_id(schema_id, subject).subject)
        holders = self.state.with_id(context, schema_id)
        plain = canonical_subject(subject)
        if plain and not plain.endswith(":"):
            plain = in_context(context, plain)
            holders = [holder for holder in holders if holder.subject == plain]
        return sorted(
            (holder for holder in holders if with_deleted or not holder.deleted),
            key=lambda holder: (holder.subject, holder.version),
        )

    def version_by_guid(self, guid: str) -> StoredVersion:
        for context, schema_id in self.state.with_guid(guid):
            for holder in self.state.with_id(context, schema_id):
                if holder.guid == guid:
                    return holder
        raise RegistryError.schema_not_found(guid)

    def ids_by_guid(self, guid: str) -> list[dict[str, Any]]:
        ids = [{"context": context, "id": schema_id} for context, schema_id in self.state.with_guid(guid)]
        if not ids:
            raise RegistryError.schema_not_found(guid)
        return ids

    def formatted(self, content: SchemaContent, form: str) -> str:
        """The text, in another form if the client wants one. The usual form needs no parsing."""
        if not form:
            return content.text
        try:
            return self.schemas.parsed(content).formatted(form)
        except InvalidSchema as error:
            raise RegistryError.invalid_schema(str(error)) from error

    def tags(self, content: SchemaContent, wanted: Collection[str]) -> list[dict[str, Any]]:
        """The records and fields with one of these tags in the text; `*` stands for all."""
        try:
            tagged = self.schemas.parsed(content).tagged()
        except InvalidSchema as error:
            raise RegistryError.invalid_schema(str(error)) from error
        except RecursionError:
            raise RegistryError.invalid_schema("It is nested too deeply.") from None
        return [
            {"schemaEntity": {"entityPath": entity.path, "entityType": entity.kind}, "tags": list(tags)}
            for entity, tags in tagged.items()
            if "*" in wanted or not set(wanted).isdisjoint(tags)
        ]

    # By subject.

    def namesakes(self, subject: str) -> list[str]:
        """The subjects of this name in other contexts, where a client may mean any context: the name is without one."""
        if context_of(subject) != DEFAULT:
            return []
        names = (in_context(context, subject) for context in self.state.contexts() if context != DEFAULT)
        return [name for name in names if self.state.versions(name, with_deleted=True)]

    def subjects(self, *, prefix: str, with_deleted: bool, deleted_only: bool) -> list[str]:
        names = self.state.subjects(with_deleted=with_deleted or deleted_only)
        if deleted_only:
            live = set(self.state.subjects())
            names = [name for name in names if name not in live]
        return [name for name in names if matches_prefix(name, prefix)]

    def version_numbers(self, subject: str, *, with_deleted: bool, deleted_only: bool) -> list[StoredVersion]:
        versions = self.state.versions(subject, with_deleted=with_deleted or deleted_only)
        if deleted_only:
            versions = [version for version in versions if version.deleted]
        if not versions:
            raise RegistryError.subject_not_found(subject)
        return versions

    def version(self, subject: str, text: str, *, with_deleted: bool = False) -> StoredVersion:
        """A version by its number, `latest` or `-1`. Raises RegistryError 40401, 40402 or 42202."""
        number = _version_number(text)
        versions = self.state.versions(subject, with_deleted=with_deleted)
        if not versions:
            raise RegistryError.subject_not_found(subject)
        if number is None:
            return versions[-1]
        match = next((version for version in versions if version.version == number), None)
        if match is None:
            raise RegistryError.version_not_found(number)
        return match

    def latest_with_metadata(
        self, subject: str, properties: Mapping[str, str], *, with_deleted: bool = False
    ) -> StoredVersion:
        versions = self.state.versions(subject, with_deleted=with_deleted)
        if not versions:
            raise RegistryError.subject_not_found(subject)
        for version in reversed(versions):
            stored = (version.content.metadata or {}).get("properties") or {}
            if all(stored.get(key) == value for key, value in properties.items()):
                return version
        raise RegistryError.schema_not_found()

    def lookup(self, subject: str, request: SchemaRequest, *, normalize: bool, with_deleted: bool) -> StoredVersion:
        return find_version(self.state, self.schemas, subject, request, normalize=normalize, with_deleted=with_deleted)

    def referring_ids(self, version: StoredVersion, *, with_deleted: bool) -> list[int]:
        holders = self.state.referring_to(version.subject, version.version, with_deleted=with_deleted)
        return sorted({holder.id for holder in holders})

    def compatibility(self, subject: str, request: SchemaRequest, version: str | None, *, normalize: bool) -> list[str]:
        """Why the schema is incompatible with the given version, or with the versions that the level requires."""
        versions = self.state.versions(subject)
        if version is not None:
            if not versions and _version_number(version) is None:
                versions = []
            else:
                # Also if there is no such subject, the answer is that there is no such version.
                number = _version_number(version)
                versions = [known for known in versions if number in (None, known.version)][-1:]
                if not versions:
                    raise RegistryError.version_not_found(number)
        return check_compatibility(self.state, self.schemas, subject, request, versions, normalize=normalize)

    def list_versions(
        self, *, prefix: str, with_deleted: bool, latest_only: bool, rule_type: str = ""
    ) -> list[StoredVersion]:
        selected: list[StoredVersion] = []
        for subject in self.state.subjects(with_deleted=with_deleted):
            if matches_prefix(subject, prefix):
                versions = self.state.versions(subject, with_deleted=with_deleted)
                selected += versions[-1:] if latest_only else versions
        if rule_type:
            selected = [version for version in selected if _has_rule(version.content, rule_type)]
        return selected

    # Settings.

    def config(self, subject: str | None, *, inherits: bool) -> dict[str, Any]:
        if subject is not None and not inherits and subject not in self.state.configs:
            raise RegistryError.no_subject_config(subject)
        return config_in_scope(self.state, subject)

    def mode(self, subject: str | None, *, inherits: bool) -> str:
        if subject is not None and not inherits and subject not in self.state.modes:
            raise RegistryError.no_subject_mode(subject)
        return mode_in_scope(self.state, subject)

    def resolve_alias(self, subject: str) -> str:
        """The subject that an alias names, if the subject has no schemas of its own."""
        alias = self.state.configs.get(subject, {}).get("alias")
        return canonical_subject(alias) if alias and not self.state.versions(subject) else subject


def _version_number(text: str) -> int | None:
    """None for the latest."""
    if text in ("latest", "-1"):
        return None
    # Python refuses to read a number of thousands of digits.
    if not text.isdecimal() or len(text) > _DIGITS_MAX or not 0 < int(text) <= _VERSION_MAX:
        raise RegistryError.invalid_version(text)
    return int(text)


def _has_rule(content: SchemaContent, rule_type: str) -> bool:
    rules = (content.rule_set or {}).values()
    return any(rule.get("type") == rule_type for group in rules if isinstance(group, list) for rule in group)
