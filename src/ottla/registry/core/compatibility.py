"""Whether a schema may follow the versions of its subject, by the level of compatibility."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ottla.registry.core.parsing import SchemaCache
from ottla.registry.core.values import SchemaContent, StoredVersion
from ottla.serdes.formats import InvalidSchema, ParsedSchema

__all__ = ["compatibility_problems"]


def compatibility_problems(
    schemas: SchemaCache, content: SchemaContent, earlier: Sequence[StoredVersion], config: Mapping[str, Any]
) -> list[str]:
    """The problems with the newest version that the schema conflicts with; empty if the schema is compatible."""
    level = config["compatibilityLevel"]
    if level == "NONE" or not earlier:
        return []
    group = config.get("compatibilityGroup")
    if group:
        mine = _property(content, group)
        earlier = [version for version in earlier if _property(version.content, group) == mine]
    compared = earlier if level.endswith("_TRANSITIVE") else earlier[-1:]
    new = schemas.parsed(content)
    for version in reversed(compared):
        problems = _problems(schemas, new, version, level, config.get("compatibilityPolicy") == "LENIENT")
        if problems:
            return [
                *problems,
                f"{{oldSchemaVersion: {version.version}}}",
                f"{{oldSchema: '{version.content.text}'}}",
                f"{{compatibility: '{level}'}}",
            ]
    return []


def _problems(
    schemas: SchemaCache, new: ParsedSchema, version: StoredVersion, level: str, is_lenient: bool
) -> list[str]:
    if version.content.schema_type != new.schema_type:
        return [
            f"Incompatible because of different schema type: {version.content.schema_type} before, "
            f"{new.schema_type} now"
        ]
    try:
        old = schemas.parsed(version.content)
    except InvalidSchema as error:
        return [f"Version {version.version} cannot be parsed: {error}"]
    problems: list[str] = []
    if level.startswith(("BACKWARD", "FULL")):
        problems += new.problems_reading_lenient(old) if is_lenient else new.problems_reading(old)
    if level.startswith(("FORWARD", "FULL")):
        problems += old.problems_reading_lenient(new) if is_lenient else old.problems_reading(new)
    return problems


def _property(content: SchemaContent, name: str) -> Any:
    return ((content.metadata or {}).get("properties") or {}).get(name)
