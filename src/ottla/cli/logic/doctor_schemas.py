"""Versions in a Schema Registry that consumers of the version before cannot read."""

from __future__ import annotations

from typing import NamedTuple

from ottla.serdes.formats import InvalidSchema, SchemaSource, parse
from ottla.serdes.registry_client import RegistryClient, SchemaText, quoted

__all__ = ["BreakingVersion", "find_breaking_versions"]

# More subjects would take the doctor too long; the first ones by name are checked.
SUBJECTS_MAX = 500
REFERENCES_MAX = 100


class BreakingVersion(NamedTuple):
    subject: str
    version: int
    before: int
    # The first reason why readers of the version before cannot read the records of this one.
    problem: str

    @property
    def topic(self) -> str | None:
        """The topic by the usual naming of subjects; None for a subject that is named otherwise."""
        name, _, part = self.subject.rpartition("-")
        return name if name and part in ("key", "value") else None


def find_breaking_versions(client: RegistryClient) -> list[BreakingVersion]:
    """The latest versions of subjects without a level of compatibility. Blocks; raises RegistryClientError.

    For any other level the registry has checked the compatibility when the version was registered.
    """
    breaking = []
    for subject in sorted(client.call("GET", "/subjects"))[:SUBJECTS_MAX]:
        level = client.call("GET", f"/config/{quoted(subject)}?defaultToGlobal=true")["compatibilityLevel"]
        versions = client.call("GET", f"/subjects/{quoted(subject)}/versions") if level == "NONE" else []
        if len(versions) < 2:
            continue
        before, latest = sorted(versions)[-2:]
        problem = _problem(client, client.version(subject, before), client.version(subject, latest))
        if problem is not None:
            breaking.append(BreakingVersion(subject, latest, before, problem))
    return breaking


def _problem(client: RegistryClient, reader: SchemaText, writer: SchemaText) -> str | None:
    if reader.schema_type != writer.schema_type:
        return f"it is {writer.schema_type}, and the version before is {reader.schema_type}"
    try:
        problems = parse(_source(client, reader)).problems_reading(parse(_source(client, writer)))
    except InvalidSchema:
        # This parser does not understand every schema of other registries. An unknown schema is no finding.
        return None
    return problems[0] if problems else None


def _source(client: RegistryClient, schema: SchemaText) -> SchemaSource:
    texts: dict[str, str] = {}
    _collect(client, schema, texts)
    return SchemaSource(schema.schema_type, schema.text, tuple(texts.items()))


def _collect(client: RegistryClient, schema: SchemaText, texts: dict[str, str]) -> None:
    """Collects the texts of the referenced schemas, each before the schema that refers to it."""
    for name, subject, version in schema.references:
        if name not in texts and len(texts) < REFERENCES_MAX:
            referenced = client.version(subject, version)
            _collect(client, referenced, texts)
            texts[name] = referenced.text
