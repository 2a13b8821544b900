"""The audit of the cluster: allowed and refused operations and logins, the newest first."""

from __future__ import annotations

import asyncio
import time
from datetime import datetime
from typing import Any

from ottla.cli.logic.audit_search import AuditSearch, events
from ottla.client.admin.offsets import EARLIEST, LATEST, FoundOffset
from ottla.console.answers import ApiError, invalid, number_of
from ottla.console.call import Call, Route
from ottla.console.features import AUDIT_TOPIC
from ottla.console.record_scan import opened_consumer
from ottla.model.ids import TopicPartition

__all__ = ["AUDIT_ROUTES"]

LIMIT_DEFAULT = 100
LIMIT_MAX = 1_000
SINCE_MS_DEFAULT = 24 * 3600 * 1000
SECONDS_MAX = 10.0
DECISIONS = ("allowed", "denied", "accepted", "refused")


async def _audit(call: Call) -> dict[str, Any]:
    topic = (await call.view.state.get()).topics.get(AUDIT_TOPIC)
    if topic is None:
        raise ApiError(
            404,
            "NOT_AVAILABLE",
            f"There is no topic {AUDIT_TOPIC}, or you may not read it.",
            "Nodes write to it with ottla.audit.topic=true.",
        )
    search, limit = _search(call), number_of(call.query, "limit", LIMIT_DEFAULT, least=1, most=LIMIT_MAX)
    partitions = [TopicPartition(AUDIT_TOPIC, number) for number in topic.partitions]
    matches, is_complete = await _read(call, search, partitions)
    matches.sort(key=lambda event: str(event.get("time")), reverse=True)
    return {"items": [_item(event) for event in matches[:limit]], "total": len(matches), "is_complete": is_complete}


def _search(call: Call) -> AuditSearch:
    query = call.query
    decision = query.get("decision") or ("denied" if query.get("denied") == "true" else None)
    if decision is not None and decision not in DECISIONS:
        raise invalid(f"decision is one of {', '.join(DECISIONS)}.")
    return AuditSearch(
        stream=query.get("stream") or None,
        principal=query.get("principal") or None,
        resource=query.get("resource") or None,
        api=query.get("api") or None,
        operation=query.get("operation") or None,
        address=query.get("host") or None,
        decision=decision,
        since_ms=number_of(query, "since", int(time.time() * 1000) - SINCE_MS_DEFAULT),
        until_ms=number_of(query, "until", 0) or None,
    )


async def _read(call: Call, search: AuditSearch, partitions: list[TopicPartition]) -> tuple[list[dict[str, Any]], bool]:
    first, last, by_time = await asyncio.gather(
        *[
            call.admin.offsets.find(dict.fromkeys(partitions, moment), timeout_ms=2_000)
            for moment in (EARLIEST, LATEST, search.since_ms or 0)
        ]
    )
    begins, ends = {}, {}
    for partition in partitions:
        begin, end, at = first[partition], last[partition], by_time[partition]
        if isinstance(begin, FoundOffset) and isinstance(end, FoundOffset) and isinstance(at, FoundOffset):
            start = end.offset if at.offset < 0 else max(begin.offset, at.offset)
            if start < end.offset:
                begins[partition], ends[partition] = start, end.offset
    matches: list[dict[str, Any]] = []
    loop = asyncio.get_running_loop()
    deadline = loop.time() + SECONDS_MAX
    async with call.services.scans.turn(call.owner), opened_consumer(call, is_committed=False) as consumer:
        await consumer.assign(sorted(begins))
        for partition, offset in begins.items():
            consumer.seek(partition, offset)
        left = dict(ends)
        while left and loop.time() < deadline:
            for record in await consumer.poll(500):
                matches += [event for event in events([record.value or b""]) if search.wants(event)]
            left = {partition: end for partition, end in left.items() if consumer.position(partition) < end}
            await asyncio.sleep(0)
    return matches, not left


def _item(event: dict[str, Any]) -> dict[str, Any]:
    is_login = event.get("stream") == "authentication"
    resource = None if is_login else f"{event.get('resource_type')}:{event.get('resource')}"
    return {
        "time": _milliseconds(event.get("time")),
        "stream": event.get("stream"),
        "principal": event.get("principal"),
        "operation": "Login" if is_login else event.get("operation"),
        "resource": resource,
        "allowed": event.get("decision") in ("allowed", "accepted"),
        "decision": event.get("decision"),
        "host": event.get("address"),
        "api": event.get("mechanism") if is_login else event.get("api"),
        "reason": event.get("reason") if is_login else event.get("rule"),
    }


def _milliseconds(text: object) -> int | None:
    try:
        return int(datetime.fromisoformat(str(text).replace("Z", "+00:00")).timestamp() * 1000)
    except ValueError:
        return None


AUDIT_ROUTES = (Route("GET", "/api/audit", _audit, patience_ms=None),)
