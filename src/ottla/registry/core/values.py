"""Values of the registry: references, and versions of schemas."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ottla.registry.core.contexts import DEFAULT, canonical_subject, in_context

__all__ = ["Reference", "SchemaContent", "StoredVersion"]


@dataclass(frozen=True, slots=True)
class Reference:
    """A reference as the client wrote it: records, answers and GUIDs have its subject in this form."""

    name: str
    subject: str
    version: int
    # The context of the schema that has the reference: a subject without a context is in the same one.
    context: str = DEFAULT

    @property
    def place(self) -> tuple[str, int]:
        """The full name of the referenced subject, and the version."""
        return in_context(self.context, canonical_subject(self.subject)), self.version

    def as_json(self) -> dict[str, Any]:
        return {"name": self.name, "subject": self.subject, "version": self.version}


@dataclass(frozen=True, slots=True)
class SchemaContent:
    """The identity of a schema: schemas with the same content share their id and GUID."""

    schema_type: str
    text: str
    references: tuple[Reference, ...] = ()
    metadata: Mapping[str, Any] | None = None
    rule_set: Mapping[str, Any] | None = None

    def as_json(self) -> dict[str, Any]:
        """The fields of answers and records that describe the content; empty ones are left out."""
        fields: dict[str, Any] = {"schemaType": self.schema_type}
        if self.references:
            fields["references"] = [reference.as_json() for reference in self.references]
        if self.metadata is not None:
            fields["metadata"] = dict(self.metadata)
        if self.rule_set is not None:
            fields["ruleSet"] = dict(self.rule_set)
        fields["schema"] = self.text
        return fields


@dataclass(frozen=True, slots=True)
class StoredVersion:
    """A version of a subject."""

    subject: str
    version: int
    id: int
    guid: str
    content: SchemaContent
    deleted: bool = False
    timestamp_ms: int = 0

    def as_json(self) -> dict[str, Any]:
        fields = {"subject": self.subject, "version": self.version, "id": self.id, "guid": self.guid}
        fields |= self.content.as_json()
        if self.timestamp_ms > 0:
            fields["ts"] = self.timestamp_ms
        if self.deleted:
            fields["deleted"] = True
        return fields
