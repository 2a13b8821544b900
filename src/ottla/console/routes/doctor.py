"""The findings of `ottla doctor`, with the API request that repairs a finding, if such a request exists."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from functools import partial
from typing import Any

from ottla.cli.logic.doctor_checks import examine
from ottla.cli.logic.doctor_facts import gather
from ottla.cli.logic.doctor_finding import Finding
from ottla.client.admin import AdminClient
from ottla.console.call import Call, Route
from ottla.console.fixes import command_in, fix_of
from ottla.serdes.registry_client import RegistryClient

__all__ = ["DOCTOR_ROUTES"]

# A broker that hangs must not hide the findings about the other brokers.
PATIENCE_MS = 5_000
# The pause between two reads of groups with lag, which show whether the groups progress.
BETWEEN_SECONDS = 1.0

_SEVERITIES = {"wrong": "critical", "risk": "warning", "hint": "info"}


async def _doctor(call: Call) -> dict[str, Any]:
    settings = replace(
        call.account.settings,
        api_timeout_ms=min(call.account.settings.api_timeout_ms, PATIENCE_MS),
        connect_timeout_ms=min(call.account.settings.connect_timeout_ms, PATIENCE_MS // 2),
    )
    url = call.services.settings.registry_url
    registry = None if url is None else partial(RegistryClient, url)

    async def look(admin: AdminClient) -> dict[str, Any]:
        facts = await gather(admin, seconds=BETWEEN_SECONDS, registry=registry)
        return {
            "findings": [_finding(finding) for finding in examine(facts)],
            "unknown": facts.unknown,
            "looked_at": {"brokers": len(facts.brokers), "topics": len(facts.topics), "groups": len(facts.groups)},
        }

    async with call.services.scans.turn(call.owner):
        return await call.view.run(look, settings)


def _finding(finding: Finding) -> dict[str, Any]:
    command = command_in(finding.fix)
    return {
        "id": f"{finding.check.replace(' ', '-')}:{hashlib.sha256(finding.what.encode()).hexdigest()[:8]}",
        "check": finding.check,
        "severity": _SEVERITIES[finding.severity],
        "title": finding.what,
        "detail": finding.fix,
        "command": command,
        "fix": fix_of(command),
    }


DOCTOR_ROUTES = (Route("GET", "/api/doctor", _doctor, patience_ms=None),)
