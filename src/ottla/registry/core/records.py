"""Keys and values of the topic `_schemas`, in Confluent's formats.

The bytes of a key are what compaction compares, so the order of its fields is fixed. Values of other registries may
have fields that are unknown here; readers ignore them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ottla.registry.core.contexts import context_of
from ottla.registry.core.identity import guid_of
from ottla.registry.core.values import Reference, SchemaContent, StoredVersion
from ottla.serdes.formats import AVRO

__all__ = [
    "Record",
    "config_record",
    "context_record",
    "delete_subject_record",
    "mode_record",
    "noop_record",
    "schema_record",
    "schema_tombstone",
    "version_of",
]

_TENANT = "default"


@dataclass(frozen=True, slots=True)
class Record:
    key: Mapping[str, Any]
    # None deletes the key.
    value: Mapping[str, Any] | None

    def encoded(self) -> tuple[bytes, bytes | None]:
        return _bytes(self.key), None if self.value is None else _bytes(self.value)

    @classmethod
    def decode(cls, key: bytes, value: bytes | None) -> Record | None:
        """None for a record of an unknown form, which the registry ignores."""
        try:
            decoded = cls(json.loads(key), None if not value else json.loads(value))
        except (ValueError, RecursionError):
            return None
        is_valid = isinstance(decoded.key, dict) and isinstance(decoded.value, dict | None)
        # The topic of encryption keys has the record type in the field `type`.
        kind = decoded.key.get("keytype", decoded.key.get("type")) if is_valid else None
        return decoded if isinstance(kind, str) else None


def schema_record(version: StoredVersion) -> Record:
    value = {"subject": version.subject, "version": version.version, "id": version.id}
    return Record(_schema_key(version), value | version.content.as_json() | {"deleted": version.deleted})


def schema_tombstone(version: StoredVersion) -> Record:
    return Record(_schema_key(version), None)


def delete_subject_record(subject: str, version: int) -> Record:
    """Soft-deletes all versions of the subject up to this version."""
    return Record(_owned("DELETE_SUBJECT", subject), {"subject": subject, "version": version})


def config_record(subject: str | None, config: Mapping[str, Any] | None) -> Record:
    if config is None:
        return Record(_owned("CONFIG", subject), None)
    owner = {} if subject is None else {"subject": subject}
    return Record(_owned("CONFIG", subject), owner | dict(config))


def mode_record(subject: str | None, mode: str | None) -> Record:
    owner = {} if subject is None else {"subject": subject}
    return Record(_owned("MODE", subject), None if mode is None else owner | {"mode": mode})


def context_record(context: str, highest_id: int) -> Record:
    """The highest id that a context ever had: compaction may remove the schema that had it.

    `highestId` is our own field; other registries ignore it.
    """
    key = {"keytype": "CONTEXT", "tenant": _TENANT, "context": context, "magic": 0}
    return Record(key, {"tenant": _TENANT, "context": context, "highestId": highest_id})


def noop_record() -> Record:
    return Record({"keytype": "NOOP", "magic": 0}, None)


def version_of(value: Mapping[str, Any], timestamp_ms: int = 0) -> StoredVersion:
    """Raises KeyError, TypeError or ValueError for a damaged value."""
    context = context_of(str(value["subject"]))
    references = tuple(
        Reference(str(reference["name"]), str(reference["subject"]), int(reference["version"]), context)
        for reference in value.get("references") or ()
    )
    content = SchemaContent(
        schema_type=value.get("schemaType") or AVRO,
        text=str(value["schema"]),
        references=references,
        metadata=value.get("metadata"),
        rule_set=value.get("ruleSet"),
    )
    return StoredVersion(
        subject=str(value["subject"]),
        version=int(value["version"]),
        id=int(value["id"]),
        guid=guid_of(content),
        content=content,
        deleted=bool(value.get("deleted")),
        timestamp_ms=timestamp_ms,
    )


def _schema_key(version: StoredVersion) -> dict[str, Any]:
    return {"keytype": "SCHEMA", "subject": version.subject, "version": version.version, "magic": 1}


def _owned(kind: str, subject: str | None) -> dict[str, Any]:
    return {"keytype": kind, "subject": subject, "magic": 0}


def _bytes(value: Mapping[str, Any]) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
