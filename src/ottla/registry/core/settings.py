"""Configurations and modes, and the order of inheritance: subject, its context, all contexts, the server."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from ottla.registry.core.contexts import DEFAULT, GLOBAL, context_of, context_subject
from ottla.registry.core.errors import RegistryError
from ottla.registry.core.records import Record, config_record, context_record, mode_record, schema_tombstone
from ottla.registry.core.requests import checked_metadata, checked_rule_set
from ottla.registry.core.state import RegistryState

__all__ = [
    "LEVELS",
    "MODES",
    "checked_config",
    "config_in_scope",
    "decide_config",
    "decide_delete_config",
    "decide_delete_mode",
    "decide_mode",
    "mode_in_scope",
]

LEVELS = ("NONE", "BACKWARD", "BACKWARD_TRANSITIVE", "FORWARD", "FORWARD_TRANSITIVE", "FULL", "FULL_TRANSITIVE")
MODES = ("READWRITE", "READONLY", "READONLY_OVERRIDE", "IMPORT", "FORWARD")
_DEFAULT_CONFIG = {"compatibilityLevel": "BACKWARD"}
_DEFAULT_MODE = "READWRITE"
# The fields of a configuration besides its level, with their types.
_FIELDS: dict[str, type] = {
    "alias": str,
    "aliasForDeks": bool,
    "normalize": bool,
    "validateFields": bool,
    "validateNewSchemas": bool,
    "validateRules": bool,
    "compatibilityPolicy": str,
    "compatibilityGroup": str,
    "defaultMetadata": dict,
    "overrideMetadata": dict,
    "defaultRuleSet": dict,
    "overrideRuleSet": dict,
}


def config_in_scope(state: RegistryState, subject: str | None) -> dict[str, Any]:
    """The effective configuration of a subject: every field comes from the innermost owner that has it."""
    config: dict[str, Any] = {}
    for owner in _owners(subject):
        config = {**state.configs.get(owner, {}), **config}
    return {**_DEFAULT_CONFIG, **config}


def mode_in_scope(state: RegistryState, subject: str | None) -> str:
    """READONLY_OVERRIDE of an outer owner wins over every inner mode; that of the registry also in other contexts."""
    modes = [state.modes[owner] for owner in _owners(subject) if owner in state.modes]
    if "READONLY_OVERRIDE" in (*modes, state.modes.get(None)):
        return "READONLY_OVERRIDE"
    return modes[0] if modes else _DEFAULT_MODE


def checked_config(body: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a request, with their names in records. Raises RegistryError 42203 for an unknown level."""
    config: dict[str, Any] = {}
    level = body.get("compatibility", body.get("compatibilityLevel"))
    if level is not None:
        name = str(level).upper()
        if name not in LEVELS:
            raise RegistryError(
                42203, f"Invalid compatibility level. Valid values are {', '.join(known.lower() for known in LEVELS)}"
            )
        config["compatibilityLevel"] = name
    for field, kind in _FIELDS.items():
        value = body.get(field)
        if value is None:
            continue
        if not isinstance(value, kind):
            raise RegistryError(422, f"{field} must be of type {kind.__name__}.")
        if field.endswith("Metadata"):
            value = checked_metadata(value)
        elif field.endswith("RuleSet"):
            value = checked_rule_set(value)
        config[field] = value
    if config.get("compatibilityPolicy", "STRICT") not in ("STRICT", "LENIENT", "LOGICAL"):
        raise RegistryError(42203, "Invalid compatibility policy. Valid values are strict, lenient, logical")
    return config


def decide_config(state: RegistryState, subject: str | None, body: Mapping[str, Any]) -> tuple[list[Record], Any]:
    """Fields that the request leaves out keep their values."""
    _check_writable(state, subject)
    changes = checked_config(body)
    merged = {**state.configs.get(subject, {}), **changes}
    answer = {("compatibility" if key == "compatibilityLevel" else key): value for key, value in changes.items()}
    return [config_record(subject, merged)], answer


def decide_delete_config(state: RegistryState, subject: str | None) -> tuple[list[Record], Any]:
    _check_writable(state, subject)
    former = state.configs.get(subject)
    if former is None and subject is not None:
        raise RegistryError.subject_not_found(subject)
    return [config_record(subject, None)], former or dict(_DEFAULT_CONFIG)


def decide_mode(state: RegistryState, subject: str | None, mode: Any, *, is_forced: bool) -> tuple[list[Record], Any]:
    name = str(mode).upper()
    if name not in MODES:
        raise RegistryError(42204, f"Invalid mode. Valid values are {', '.join(known.lower() for known in MODES)}")
    records: list[Record] = []
    if name == "IMPORT" and mode_in_scope(state, subject) != "IMPORT" and not is_forced:
        records = _tombstones_before_import(state, subject)
    return [*records, mode_record(subject, name)], {"mode": name}


def _tombstones_before_import(state: RegistryState, owner: str | None) -> list[Record]:
    """Deletes the softly deleted versions of the owner permanently, so that their ids can be imported.

    Raises RegistryError if the owner has versions that are not deleted, or that other versions refer to.
    """
    context = context_of(owner)
    is_context = owner == context_subject(context)
    versions = [
        version
        for version in state.all_versions()
        if version.subject == owner or (is_context and context_of(version.subject) == context)
    ]
    if not all(version.deleted for version in versions):
        raise RegistryError.not_permitted("Cannot import since found existing subjects")
    doomed = {(version.subject, version.version) for version in versions}
    for version in state.all_versions():
        # A softly deleted version is still read by its id, with its references.
        for reference in version.content.references if (version.subject, version.version) not in doomed else ():
            if reference.place in doomed:
                raise RegistryError.referenced(*reference.place)
    # The highest number first: a crash in between leaves no gap below a remaining version.
    tombstones = [schema_tombstone(version) for version in reversed(versions)]
    return [context_record(context, state.highest_id(context)), *tombstones] if tombstones else []


def decide_delete_mode(
    state: RegistryState,
    subject: str | None,
    *,
    is_recursive: bool = False,
    check: Callable[[str], object] | None = None,
) -> tuple[list[Record], Any]:
    """Recursive: also the modes of all subjects of a context. `check` raises if a subject's mode may not be deleted."""
    former = state.modes.get(subject)
    if former is None and subject is not None and not is_recursive:
        raise RegistryError.subject_not_found(subject)
    records = [mode_record(subject, None)]
    context = context_of(subject)
    if is_recursive and subject == context_subject(context):
        for owner in sorted(owner for owner in state.modes if owner not in (None, subject)):
            if context_of(owner) == context:
                if check is not None:
                    check(owner)
                records.append(mode_record(owner, None))
    if former is None and subject is not None:
        return records, {}
    return records, {"mode": former or _DEFAULT_MODE}


def _check_writable(state: RegistryState, subject: str | None) -> None:
    mode = mode_in_scope(state, subject)
    if mode.startswith("READONLY"):
        raise RegistryError.not_permitted(f"Subject {subject} is in read-only mode")


def _owners(subject: str | None) -> Iterator[str | None]:
    """The owners whose settings apply to a subject, the innermost first."""
    context = context_of(subject)
    if subject is not None:
        yield subject
    if context != DEFAULT and subject != context_subject(context):
        yield context_subject(context)
    elif context == DEFAULT:
        yield None
    if subject != GLOBAL:
        yield GLOBAL
