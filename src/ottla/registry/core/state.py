"""The state of a registry, replayed from the records of `_schemas` in their order.

Only `replay` changes it. Leader, followers and restarted instances replay the same records, so their answers agree.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

from ottla.registry.core.contexts import DEFAULT, context_of, context_subject
from ottla.registry.core.records import Record, version_of
from ottla.registry.core.values import StoredVersion

__all__ = ["RegistryState"]

logger = logging.getLogger(__name__)


class RegistryState:
    def __init__(self) -> None:
        self._versions: dict[str, dict[int, StoredVersion]] = {}
        # Contexts to ids to the versions that have this id, by subject and number.
        self._by_id: dict[str, dict[int, dict[tuple[str, int], StoredVersion]]] = {DEFAULT: {}}
        # Contexts to GUIDs to their ids. A GUID has several ids if two languages share a text, and after imports.
        self._ids: dict[str, dict[str, list[int]]] = {DEFAULT: {}}
        self._highest_id: dict[str, int] = {DEFAULT: 0}
        self.configs: dict[str | None, dict[str, Any]] = {}
        self.modes: dict[str | None, str] = {}
        # Namespace and name of a topic, key or value, and subject, to the association.
        self.associations: dict[tuple[str, str, str, str], dict[str, Any]] = {}

    def replay(self, record: Record, timestamp_ms: int = 0) -> None:
        kind, subject, value = record.key.get("keytype"), record.key.get("subject"), record.value
        try:
            if kind == "SCHEMA":
                self._replay_schema(str(subject), int(record.key["version"]), value, timestamp_ms)
            elif kind in ("CONFIG", "MODE"):
                self._replay_owned(kind, subject, value)
            elif kind == "DELETE_SUBJECT" and value is not None:
                self._replay_delete_subject(str(subject), int(value["version"]))
            elif kind == "CLEAR_SUBJECT":
                self._replay_clear_subject(subject)
            elif kind == "ASSOC":
                self._replay_association(record.key, value, timestamp_ms)
            elif kind == "CONTEXT":
                self._replay_context(str(record.key.get("context", DEFAULT)), value)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            # A damaged record of another writer must not keep all schemas from being served.
            logger.error("A record of the topic cannot be replayed and is ignored: %s: %r", record.key, error)

    # Queries.

    def versions(self, subject: str, *, with_deleted: bool = False) -> list[StoredVersion]:
        """All versions of a subject in their order."""
        versions = self._versions.get(subject, {})
        return [versions[number] for number in sorted(versions) if with_deleted or not versions[number].deleted]

    def subjects(self, *, with_deleted: bool = False) -> list[str]:
        return sorted(
            subject
            for subject, versions in self._versions.items()
            if with_deleted or any(not version.deleted for version in versions.values())
        )

    def all_versions(self) -> Iterator[StoredVersion]:
        for subject in sorted(self._versions):
            yield from self.versions(subject, with_deleted=True)

    def version_count(self) -> int:
        """Versions that are not deleted."""
        return sum(not version.deleted for versions in self._versions.values() for version in versions.values())

    def schema_counts(self) -> dict[str, int]:
        """How many ids there are of each language, in all contexts together."""
        counts: dict[str, int] = {}
        for ids in self._by_id.values():
            for holders in ids.values():
                language = next(iter(holders.values())).content.schema_type
                counts[language] = counts.get(language, 0) + 1
        return counts

    def contexts(self) -> list[str]:
        """The default context, and every context with a subject or a configuration."""
        named = {context_of(subject) for subject in (*self._versions, *self.configs, *self.modes)}
        return sorted({DEFAULT, *named} - {".__GLOBAL"})

    def with_id(self, context: str, schema_id: int) -> list[StoredVersion]:
        return list(self._by_id.get(context, {}).get(schema_id, {}).values())

    def first_with_id(self, context: str, schema_id: int) -> StoredVersion | None:
        holders = self._by_id.get(context, {}).get(schema_id)
        return next(iter(holders.values())) if holders else None

    def contexts_with_id(self, schema_id: int) -> list[str]:
        """The contexts that have a schema with this id, in the order of their names."""
        return sorted(context for context, ids in self._by_id.items() if ids.get(schema_id))

    def id_of(self, context: str, guid: str, schema_type: str) -> int | None:
        """The id of a GUID in a language; the language is not part of the GUID."""
        for schema_id in self._ids.get(context, {}).get(guid, ()):
            holders = self._by_id[context][schema_id].values()
            if any(holder.guid == guid and holder.content.schema_type == schema_type for holder in holders):
                return schema_id
        return None

    def highest_id(self, context: str) -> int:
        return self._highest_id.get(context, 0)

    def with_guid(self, guid: str) -> Iterator[tuple[str, int]]:
        """The contexts that have the schema, and its id there."""
        for context, ids in self._ids.items():
            if guid in ids:
                yield context, ids[guid][0]

    def referring_to(self, subject: str, version: int, *, with_deleted: bool = False) -> Iterable[StoredVersion]:
        """The versions that refer to this version."""
        for candidate in self.all_versions():
            if (with_deleted or not candidate.deleted) and any(
                reference.place == (subject, version) for reference in candidate.content.references
            ):
                yield candidate

    def referenced(self, *, with_deleted: bool, besides: str | None = None) -> set[tuple[str, int]]:
        """Subjects and numbers of the versions that versions refer to, in one pass over all versions.

        References by versions of the subject `besides` do not count.
        """
        return {
            reference.place
            for version in self.all_versions()
            if (with_deleted or not version.deleted) and version.subject != besides
            for reference in version.content.references
        }

    # Replay.

    def _replay_schema(self, subject: str, number: int, value: Any, timestamp_ms: int) -> None:
        former = self._versions.get(subject, {}).get(number)
        if former is not None:
            self._remove(former)
        if value is None:
            return
        version = version_of(value, timestamp_ms)
        context = context_of(subject)
        self._versions.setdefault(subject, {})[number] = version
        self._by_id.setdefault(context, {}).setdefault(version.id, {})[(subject, number)] = version
        ids = self._ids.setdefault(context, {}).setdefault(version.guid, [])
        if version.id not in ids:
            ids.append(version.id)
        self._highest_id[context] = max(self._highest_id.get(context, 0), version.id)

    def _remove(self, version: StoredVersion) -> None:
        context = context_of(version.subject)
        versions = self._versions[version.subject]
        del versions[version.version]
        if not versions:
            del self._versions[version.subject]
        holders = self._by_id[context][version.id]
        del holders[(version.subject, version.version)]
        if not any(holder.guid == version.guid for holder in holders.values()):
            ids = self._ids[context][version.guid]
            ids.remove(version.id)
            if not ids:
                del self._ids[context][version.guid]
        if not holders:
            del self._by_id[context][version.id]

    def _replay_owned(self, kind: str, subject: str | None, value: Any) -> None:
        if kind == "CONFIG":
            if value is None:
                self.configs.pop(subject, None)
            else:
                self.configs[subject] = {key: setting for key, setting in value.items() if key != "subject"}
        elif value is None:
            self.modes.pop(subject, None)
        else:
            self.modes[subject] = str(value["mode"])

    def _replay_association(self, key: Any, value: Any, timestamp_ms: int) -> None:
        names = ("resourceNamespace", "resourceName", "associationType", "subject")
        place = (str(key[names[0]]), str(key[names[1]]), str(key[names[2]]), str(key[names[3]]))
        former = self.associations.pop(place, None)
        if value is not None:
            created = timestamp_ms if former is None else former["createTs"]
            fields = {name: field for name, field in value.items() if name != "tenant"}
            self.associations[place] = {"frozen": False, **fields, "createTs": created, "updateTs": timestamp_ms}

    def _replay_delete_subject(self, subject: str, last: int) -> None:
        for version in self.versions(subject):
            if version.version <= last:
                deleted = replace(version, deleted=True)
                self._versions[subject][version.version] = deleted
                key = (subject, version.version)
                self._by_id[context_of(subject)][version.id][key] = deleted

    def _replay_clear_subject(self, owner: str | None) -> None:
        """Removes the deleted versions of a subject, of a context, or (without an owner) of all subjects."""
        context = context_of(owner)
        is_context = owner is not None and owner == context_subject(context)
        for version in list(self.all_versions()):
            in_scope = context_of(version.subject) == context if is_context else owner in (None, version.subject)
            if version.deleted and in_scope:
                self._remove(version)

    def _replay_context(self, context: str, value: Any) -> None:
        if value is not None and "highestId" in value:
            self._highest_id[context] = max(self._highest_id.get(context, 0), int(value["highestId"]))
