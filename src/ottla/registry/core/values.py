"""Values of the registry: references, and versions of schemas."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

__all__ = ["Reference", "SchemaContent", "StoredVersion"]


@dataclass(frozen=True, slots=True)
class Reference:
    name: str
    subject: str
    version: int

    def as_json(self) -> dict[str, Any]:
        return {"name": self.name, "subject": self.subject, "version": self.version}


@dataclass(frozen=True, slots=True)
class SchemaContent:
    """All that makes a schema what it is: two with the same content share their id and GUID."""

    schema_type: str
    text: str
    references: tuple[Reference, ...] = ()
    metadata: Mapping[str, Any] | None = None
    rule_set: Mapping[str, Any] | None = None

    def as_json(self) -> dict[str, Any]:
        """The fields of answers and records that describe the content; empty ones are left out."""
        found: dict[str, Any] = {"schemaType": self.schema_type}
        if self.references:
            found["references"] = [reference.as_json() for reference in self.references]
        if self.metadata is not None:
            found["metadata"] = dict(self.metadata)
        if self.rule_set is not None:
            found["ruleSet"] = dict(self.rule_set)
        found["schema"] = self.text
        return found


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
        found = {"subject": self.subject, "version": self.version, "id": self.id, "guid": self.guid}
        found |= self.content.as_json()
        if self.timestamp_ms > 0:
            found["ts"] = self.timestamp_ms
        if self.deleted:
            found["deleted"] = True
        return found
