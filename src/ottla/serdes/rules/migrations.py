"""Migrations: the rules between the version that wrote a value and the one that reads it.

Versions that are not compatible with each other differ in a metadata property (`compatibilityGroup`). The rules of a
version convert values of the previous version to values of this version (UPGRADE), and back (DOWNGRADE).
"""

from __future__ import annotations

from ottla.serdes.registry_client import RegisteredSchema, RegistryClient, SchemaText
from ottla.serdes.rules.contracts import RuleMode, RulePhase, rules_of
from ottla.serdes.wire_format import SchemaTag

__all__ = ["migrations"]


def migrations(
    client: RegistryClient, subject: str, tag: SchemaTag, writer: SchemaText, latest: RegisteredSchema, form: str
) -> list[tuple[RuleMode, SchemaText]]:
    """The schemas whose migration rules lead from the writer's version to the reader's, in order."""
    written = _version_of(client, subject, tag, writer)
    if written is None or written == latest.version:
        return []
    mode = RuleMode.UPGRADE if written < latest.version else RuleMode.DOWNGRADE
    numbers = range(min(written, latest.version) + 1, max(written, latest.version) + 1)
    schemas = [client.version(subject, number, form=form) for number in numbers]
    steps = [(mode, schema) for schema in schemas if _migrates(schema, mode)]
    return steps if mode is RuleMode.UPGRADE else steps[::-1]


def _version_of(client: RegistryClient, subject: str, tag: SchemaTag, writer: SchemaText) -> int | None:
    if tag.id is None:
        return client.lookup(subject, writer).version
    numbers = client.versions_of_id(tag.id, subject)
    return max(numbers) if numbers else None


def _migrates(schema: SchemaText, mode: RuleMode) -> bool:
    return any(rule.applies_to(mode) for rule in rules_of(schema, RulePhase.MIGRATION))
