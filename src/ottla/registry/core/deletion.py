"""Deleting versions, subjects and contexts: first softly, which hides them, then permanently."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from ottla.registry.core.contexts import DEFAULT, context_of, context_subject
from ottla.registry.core.errors import RegistryError
from ottla.registry.core.records import (
    Record,
    config_record,
    context_record,
    delete_subject_record,
    mode_record,
    schema_record,
    schema_tombstone,
)
from ottla.registry.core.settings import mode_in_scope
from ottla.registry.core.state import RegistryState
from ottla.registry.core.values import StoredVersion

__all__ = ["decide_delete_context", "decide_delete_subject", "decide_delete_version"]


def decide_delete_subject(state: RegistryState, subject: str, *, is_permanent: bool) -> tuple[list[Record], list[int]]:
    """The numbers of the deleted versions."""
    everything, live = state.versions(subject, with_deleted=True), state.versions(subject)
    if not everything:
        raise RegistryError.subject_not_found(subject)
    if not is_permanent and not live:
        raise RegistryError.subject_soft_deleted(subject)
    _check_writable(state, subject)
    if is_permanent and live:
        raise RegistryError.subject_not_soft_deleted(subject)
    if _has_associations(state, subject):
        raise RegistryError(40904, f"One or more associations already exist for subject '{subject}'")
    # Versions of the subject that refer to each other are deleted together.
    _check_unreferenced(state, everything if is_permanent else live, is_permanent=is_permanent, besides=subject)
    if not is_permanent:
        # Settings stay until the subject is deleted permanently.
        return [delete_subject_record(subject, live[-1].version)], [version.version for version in live]
    # The highest number first: a crash in between leaves no gap below a remaining version.
    records = [schema_tombstone(version) for version in reversed(everything)]
    return [_floor(state, subject), *records, *_settings_tombstones(state, subject)], [
        version.version for version in everything
    ]


def decide_delete_version(
    state: RegistryState, version: StoredVersion, *, is_permanent: bool
) -> tuple[list[Record], int]:
    if not is_permanent and version.deleted:
        raise RegistryError.version_soft_deleted(version.subject, version.version)
    _check_writable(state, version.subject)
    if is_permanent and not version.deleted:
        raise RegistryError.version_not_soft_deleted(version.subject, version.version)
    if not is_permanent and _has_associations(state, version.subject) and state.versions(version.subject) == [version]:
        raise RegistryError(40907, f"No active (non-deleted) version exists for subject '{version.subject}'")
    _check_unreferenced(state, [version], is_permanent=is_permanent)
    if not is_permanent:
        # Settings stay until the last version is deleted permanently.
        return [schema_record(replace(version, deleted=True))], version.version
    records = [_floor(state, version.subject), schema_tombstone(version)]
    if len(state.versions(version.subject, with_deleted=True)) == 1:
        records += _settings_tombstones(state, version.subject)
    return records, version.version


def decide_delete_context(state: RegistryState, context: str) -> tuple[list[Record], Any]:
    """Only a context without subjects can be deleted."""
    if any(context_of(subject) == context for subject in state.subjects(with_deleted=True)):
        raise RegistryError(42211, f"Context '{context}' is not empty")
    if context == DEFAULT:
        # It always exists. Its settings are those of the whole registry, which need another right.
        return [], None
    return _settings_tombstones(state, context_subject(context)), None


def _floor(state: RegistryState, subject: str) -> Record:
    """Stores the context's highest id, so that the ids of deleted versions are not assigned again."""
    context = context_of(subject)
    return context_record(context, state.highest_id(context))


def _settings_tombstones(state: RegistryState, subject: str | None) -> list[Record]:
    records = [mode_record(subject, None)] if subject in state.modes else []
    return records + ([config_record(subject, None)] if subject in state.configs else [])


def _has_associations(state: RegistryState, subject: str) -> bool:
    return any(association["subject"] == subject for association in state.associations.values())


def _check_unreferenced(
    state: RegistryState, doomed: Iterable[StoredVersion], *, is_permanent: bool, besides: str | None = None
) -> None:
    """Consumers read a soft-deleted version by its id, with its references, until these are deleted permanently."""
    referenced = state.referenced(with_deleted=is_permanent, besides=besides)
    for version in doomed:
        if (version.subject, version.version) in referenced:
            raise RegistryError.referenced(version.subject, version.version)


def _check_writable(state: RegistryState, subject: str) -> None:
    if mode_in_scope(state, subject).startswith("READONLY"):
        raise RegistryError.not_permitted(f"Subject {subject} is in read-only mode")
