"""Schemas of the registry: versions, differences, and a check before a new version is registered."""

from __future__ import annotations

import asyncio
import difflib
import json
from typing import Any

from ottla.console.answers import ApiError, PageRequest, invalid, page_of
from ottla.console.call import Call, Need, Route
from ottla.console.change import Change, command_line
from ottla.console.upstream import Upstream

__all__ = ["SCHEMA_ROUTES"]

TYPES = ("AVRO", "PROTOBUF", "JSON")
LEVELS = ("NONE", "BACKWARD", "BACKWARD_TRANSITIVE", "FORWARD", "FORWARD_TRANSITIVE", "FULL", "FULL_TRANSITIVE")


def registry_of(call: Call) -> Upstream:
    registry = call.services.registry
    if registry is None:
        raise ApiError(404, "NOT_AVAILABLE", "The console knows no Schema Registry.", "Start it with --registry URL.")
    return registry


async def _schemas(call: Call) -> dict[str, Any]:
    registry = registry_of(call)
    page = PageRequest.of(call.query, sort="subject", sortable=("subject",))
    subjects = [subject for subject in await registry.ask("GET", "subjects") if page.matches(subject)]
    shown = page.cut(subjects, lambda subject: subject)
    return page_of(await asyncio.gather(*[_item(registry, subject) for subject in shown]), len(subjects), page)


async def _item(registry: Upstream, subject: str) -> dict[str, Any]:
    versions, latest, level = await asyncio.gather(
        registry.ask("GET", "subjects", subject, "versions", accept=404),
        registry.ask("GET", "subjects", subject, "versions", "latest", accept=404),
        _level(registry, subject),
    )
    return {
        "subject": subject,
        "versions": len(versions or ()),
        "latest": (latest or {}).get("version"),
        "type": _type(latest or {}),
        "id": (latest or {}).get("id"),
        "compatibility": level[0],
    }


async def _level(registry: Upstream, subject: str) -> tuple[str | None, str]:
    own = await registry.ask("GET", "config", subject, accept=404)
    if own:
        return own.get("compatibilityLevel"), "subject"
    return ((await registry.ask("GET", "config", accept=404)) or {}).get("compatibilityLevel"), "global"


def _type(schema: dict[str, Any]) -> str | None:
    # The registry leaves the type out for Avro.
    return str(schema.get("schemaType") or "AVRO") if schema else None


async def _schema(call: Call) -> dict[str, Any]:
    registry, subject = registry_of(call), call.part("subject")
    numbers = await registry.ask("GET", "subjects", subject, "versions")
    versions = await asyncio.gather(
        *[
            registry.ask("GET", "subjects", subject, "versions", str(number), query=_FULL_NAMES, accept=404)
            for number in numbers[-200:]
        ]
    )
    known = [version for version in versions if version]
    level, source = await _level(registry, subject)
    return {
        "subject": subject,
        "versions": [{"version": version["version"], "id": version["id"]} for version in known],
        "latest": _version_json(known[-1]) if known else None,
        "compatibility": level,
        "compatibility_source": source,
    }


def _version_json(schema: dict[str, Any]) -> dict[str, Any]:
    return {
        "version": schema["version"],
        "id": schema["id"],
        "type": _type(schema),
        "schema": pretty(schema["schema"]),
        "references": schema.get("references") or [],
    }


async def _version(call: Call) -> dict[str, Any]:
    subject, version = call.part("subject"), call.part("version")
    schema = await registry_of(call).ask("GET", "subjects", subject, "versions", version, query=_FULL_NAMES)
    return {"subject": subject, **_version_json(schema)}


async def _difference(call: Call) -> dict[str, Any]:
    registry, subject, query = registry_of(call), call.part("subject"), call.query
    older, newer = await asyncio.gather(
        *[registry.ask("GET", "subjects", subject, "versions", query.get(name) or "latest") for name in ("from", "to")]
    )
    lines = difference(pretty(older["schema"]), pretty(newer["schema"]))
    return {"from": older["version"], "to": newer["version"], "lines": lines}


LINES_MAX = 2_000
# References name the context of their subjects.
_FULL_NAMES = {"referenceFormat": "qualified"}


def pretty(text: str) -> str:
    """JSON on several lines; Protobuf as it is."""
    try:
        return json.dumps(json.loads(text), indent=2, ensure_ascii=False)
    except ValueError:
        return text


def difference(before: str, after: str) -> list[dict[str, str]]:
    """Line by line. Of very long schemas only the beginning is compared, because comparing takes time on the loop."""
    old, new = before.splitlines()[:LINES_MAX], after.splitlines()[:LINES_MAX]
    lines: list[dict[str, str]] = []
    for kind, i1, i2, j1, j2 in difflib.SequenceMatcher(None, old, new, autojunk=True).get_opcodes():
        if kind == "equal":
            lines += [{"kind": "same", "text": line} for line in old[i1:i2]]
            continue
        lines += [{"kind": "removed", "text": line} for line in old[i1:i2]]
        lines += [{"kind": "added", "text": line} for line in new[j1:j2]]
    return lines


def _body(call: Call) -> dict[str, Any]:
    kind = call.text("type", "AVRO").upper()
    if kind not in TYPES:
        raise invalid(f"type is one of {', '.join(TYPES)}.")
    return {"schema": call.text("schema"), "schemaType": kind, "references": call.body.get("references") or []}


async def _checked(call: Call) -> dict[str, Any]:
    """The verdict about a schema, and its difference to the latest version."""
    registry, subject, body = registry_of(call), call.part("subject"), _body(call)
    latest = await registry.ask("GET", "subjects", subject, "versions", "latest", accept=404)
    lines = difference(pretty(latest["schema"]) if latest else "", pretty(body["schema"]))
    if latest is None:
        return {"is_compatible": True, "messages": [], "lines": lines}
    path = ("compatibility", "subjects", subject, "versions", "latest")
    verdict = await registry.ask("POST", *path, body=body, query={"verbose": "true"})
    return {
        "is_compatible": bool(verdict.get("is_compatible")),
        "messages": [str(message) for message in verdict.get("messages") or ()],
        "lines": lines,
    }


async def _register(call: Call) -> Change:
    registry, subject, body = registry_of(call), call.part("subject"), _body(call)
    checked = await _checked(call)

    async def apply() -> Any:
        return await registry.ask("POST", "subjects", subject, "versions", body=body)

    warnings = [] if checked["is_compatible"] else ["The registry will refuse this schema.", *checked["messages"]]
    return Change(
        plan=[f"Registers a new version of {subject}, of type {body['schemaType']}, unless it is registered already."],
        command=command_line(
            "schemas",
            "register",
            subject,
            {"AVRO": "schema.avsc", "PROTOBUF": "schema.proto", "JSON": "schema.json"}[body["schemaType"]],
        ),
        apply=apply,
        warnings=warnings,
        preview=checked,
    )


async def _set_level(call: Call) -> Change:
    registry, subject, level = registry_of(call), call.part("subject"), call.text("compatibility").upper()
    if level not in LEVELS:
        raise invalid(f"compatibility is one of {', '.join(LEVELS)}.")
    before, _ = await _level(registry, subject)

    async def apply() -> Any:
        return await registry.ask("PUT", "config", subject, body={"compatibility": level})

    return Change(
        plan=[f"New versions of {subject} must be {level}; now it is {before}."],
        command=command_line("schemas", "compatibility", subject, options=[("--set", level.lower())]),
        apply=apply,
    )


async def _delete(call: Call) -> Change:
    registry, subject = registry_of(call), call.part("subject")
    version, permanent = call.body.get("version"), bool(call.body.get("permanent"))
    path = ["subjects", subject] + ([] if version is None else ["versions", str(version)])

    async def apply() -> Any:
        query = {"permanent": "true"} if permanent else None
        return {"deleted": await registry.ask("DELETE", *path, query=query)}

    target = "all versions" if version is None else f"version {version}"
    return Change(
        plan=[f"Deletes {target} of {subject}{' for ever' if permanent else ''}."],
        command=command_line(
            "schemas",
            "delete",
            subject,
            options=[("--version", version), ("--permanent", permanent), ("--yes", permanent)],
        ),
        apply=apply,
        warnings=["Records that were written with it cannot be read any more."] if permanent else [],
    )


SCHEMA_ROUTES = (
    Route("GET", "/api/schemas", _schemas),
    Route("GET", "/api/schemas/{subject}", _schema),
    Route("GET", "/api/schemas/{subject}/versions/{version}", _version),
    Route("GET", "/api/schemas/{subject}/diff", _difference),
    Route("POST", "/api/schemas/{subject}/check", _checked),
    Route("POST", "/api/schemas/{subject}", _register, Need.WRITE_SERVICE),
    Route("PUT", "/api/schemas/{subject}/compatibility", _set_level, Need.WRITE_SERVICE),
    Route("DELETE", "/api/schemas/{subject}", _delete, Need.WRITE_SERVICE),
)
