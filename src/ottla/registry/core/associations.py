"""Associations: the subjects of a topic's keys and values, stored in the registry (`/associations`).

Serializers with AssociatedNameStrategy look them up. A topic has at most one association for its keys and one for its
values. Associations are stored in `_schemas`, in Confluent's record form.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from ottla.registry.core.contexts import canonical_subject
from ottla.registry.core.errors import RegistryError
from ottla.registry.core.records import Record
from ottla.registry.core.state import RegistryState

__all__ = ["associations_of", "decide_associate", "decide_dissociate"]

_TENANT = "default"
_ANY_NAMESPACE = "-"
_TYPES = ("key", "value")
_LIFECYCLES = ("WEAK", "STRONG")
_RESOURCE_FIELDS = ("resourceName", "resourceNamespace", "resourceId", "resourceType")


def associations_of(
    state: RegistryState,
    *,
    subject: str | None = None,
    resource_id: str | None = None,
    namespace: str = _ANY_NAMESPACE,
    name: str | None = None,
    types: Sequence[str] = (),
) -> list[dict[str, Any]]:
    """The associations that match all filters, in the order of their topics."""
    return [
        association
        for _, association in sorted(state.associations.items())
        if subject in (None, association["subject"])
        and resource_id in (None, association["resourceId"])
        and namespace in (_ANY_NAMESPACE, association["resourceNamespace"])
        and name in (None, association["resourceName"])
        and (not types or association["associationType"] in types)
    ]


def decide_associate(state: RegistryState, body: Mapping[str, Any]) -> tuple[list[Record], dict[str, Any]]:
    """Creates associations of a topic; an equal existing association needs no new record. Raises RegistryError."""
    resource = {field: body.get(field) for field in _RESOURCE_FIELDS}
    resource["resourceType"] = resource["resourceType"] or "topic"
    for field, value in resource.items():
        if not isinstance(value, str) or not value:
            raise _invalid(field, "cannot be null or empty")
    if resource["resourceType"] != "topic":
        raise _invalid("resourceType", "must be 'topic'")
    requested = body.get("associations")
    if (
        not isinstance(requested, list)
        or not requested
        or not all(isinstance(association, dict) for association in requested)
    ):
        raise _invalid("associations", "cannot be null or empty")
    records: list[Record] = []
    associations: list[dict[str, Any]] = []
    for association in requested:
        wanted = _wanted(state, resource, association)
        if any(other["associationType"] == wanted["associationType"] for other in associations):
            raise _invalid("associations", f"has two of the type '{wanted['associationType']}'")
        known = associations_of(
            state,
            namespace=str(resource["resourceNamespace"]),
            name=str(resource["resourceName"]),
            types=[wanted["associationType"]],
        )
        if known and known[0]["subject"] != wanted["subject"]:
            raise RegistryError(
                40903,
                f"An association of type '{wanted['associationType']}' already exists for resource "
                f"'{resource['resourceName']}'",
            )
        if not known or known[0]["lifecycle"] != wanted["lifecycle"]:
            records.append(_record(wanted))
        associations.append({name: wanted[name] for name in ("subject", "associationType", "lifecycle", "frozen")})
    return records, {**resource, "associations": associations}


def decide_dissociate(state: RegistryState, resource_id: str, types: Sequence[str]) -> tuple[list[Record], None]:
    doomed = associations_of(state, resource_id=resource_id, types=types)
    if not doomed:
        raise RegistryError(40410, f"Association for '{resource_id}' not found.")
    return [Record(_record(association).key, None) for association in doomed], None


def _wanted(state: RegistryState, resource: Mapping[str, Any], requested: Mapping[str, Any]) -> dict[str, Any]:
    kind, lifecycle = requested.get("associationType") or "value", requested.get("lifecycle") or "WEAK"
    if kind not in _TYPES:
        raise _invalid("associationType", "must be either 'key' or 'value'")
    if lifecycle not in _LIFECYCLES:
        raise _invalid("lifecycle", f"must be one of {', '.join(_LIFECYCLES)}")
    if requested.get("schema") is not None or requested.get("frozen"):
        raise _invalid("schema", "and frozen are not supported: register the schema first")
    subject = requested.get("subject")
    if not isinstance(subject, str) or not subject:
        raise _invalid("subject", "must be provided")
    subject = canonical_subject(subject)
    if not state.versions(subject):
        raise RegistryError(40907, f"No active (non-deleted) version exists for subject '{subject}'")
    place = "|".join((str(resource["resourceNamespace"]), str(resource["resourceName"]), kind, subject))
    guid = str(uuid.uuid5(uuid.NAMESPACE_URL, place))
    return {"guid": guid, **resource, "associationType": kind, "subject": subject, "lifecycle": lifecycle} | {
        "frozen": False
    }


def _record(association: Mapping[str, Any]) -> Record:
    key = {
        "keytype": "ASSOC",
        "tenant": _TENANT,
        "resourceName": association["resourceName"],
        "resourceNamespace": association["resourceNamespace"],
        "resourceType": association["resourceType"],
        "associationType": association["associationType"],
        "subject": association["subject"],
        "magic": 0,
    }
    fields = ("resourceName", "resourceNamespace", "resourceId", "resourceType", "associationType", "subject")
    value = {"guid": association["guid"], "tenant": _TENANT, **{name: association[name] for name in fields}}
    return Record(key, {**value, "lifecycle": association["lifecycle"], "frozen": association["frozen"]})


def _invalid(field: str, reason: str) -> RegistryError:
    return RegistryError(42212, f"The association specified an invalid value for property: '{field}', detail: {reason}")
