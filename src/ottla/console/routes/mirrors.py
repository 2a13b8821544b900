"""Mirroring flows, from their heartbeats and the names of the copied topics."""

from __future__ import annotations

import time
from typing import Any

from ottla.console.answers import PageRequest, page_of
from ottla.console.call import Call, Route
from ottla.console.cluster_state import ClusterState
from ottla.console.features import heartbeat_topics
from ottla.console.record_scan import opened_consumer
from ottla.mirror.heartbeat_times import newest_heartbeats

__all__ = ["MIRROR_ROUTES"]


async def _mirrors(call: Call) -> dict[str, Any]:
    page = PageRequest.of(call.query, sort="source", sortable=("source", "target"))
    state = await call.view.state.get()
    beats = await _beats(call, state)
    now = int(time.time() * 1000)
    items = [
        {
            "source": source,
            "target": target,
            "last_heartbeat": at,
            "age_ms": max(now - at, 0),
            "topics": _copies(state, source),
        }
        for (source, target), at in beats.items()
        if page.matches(f"{source} {target}")
    ]
    shown = page.cut(items, lambda item: (item[page.sort], item["source"], item["target"]))
    return page_of(shown, len(items), page)


def _copies(state: ClusterState, source: str) -> list[dict[str, Any]]:
    prefix = f"{source}."
    return [
        {"name": row.name, "partitions": row.partitions}
        for row in state.rows
        if row.name.startswith(prefix) and not row.name.endswith((".internal", ".heartbeats"))
    ]


async def _beats(call: Call, state: ClusterState) -> dict[tuple[str, str], int]:
    """Source and target -> the time of the last heartbeat."""
    partitions = state.partitions_of(heartbeat_topics(state))
    if not partitions:
        return {}
    async with call.services.scans.turn(call.owner), opened_consumer(call, is_committed=True) as consumer:
        return await newest_heartbeats(call.admin, consumer, partitions)


MIRROR_ROUTES = (Route("GET", "/api/mirrors", _mirrors),)
