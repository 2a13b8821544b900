"""Mirroring flows, as their heartbeats and the names of copies tell them."""

from __future__ import annotations

import time
from typing import Any

from ottla.client.admin.offsets import EARLIEST, LATEST, FoundOffset
from ottla.console.answers import PageRequest, page_of
from ottla.console.call import Call, Route
from ottla.console.cluster_state import ClusterState
from ottla.console.features import heartbeat_topics
from ottla.console.record_scan import opened_consumer
from ottla.mirror.messages import Heartbeat, MalformedMessage
from ottla.model.ids import TopicPartition

__all__ = ["MIRROR_ROUTES"]

# The newest heartbeats of a partition: a flow writes one a second.
NEWEST = 200
POLL_MS = 1_000


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
    first = await call.admin.offsets.find(dict.fromkeys(partitions, EARLIEST), timeout_ms=2_000)
    last = await call.admin.offsets.find(dict.fromkeys(partitions, LATEST), timeout_ms=2_000)
    begins: dict[TopicPartition, int] = {}
    left: dict[TopicPartition, int] = {}
    for one in partitions:
        begin, end = first[one], last[one]
        if isinstance(begin, FoundOffset) and isinstance(end, FoundOffset) and begin.offset < end.offset:
            begins[one], left[one] = max(begin.offset, end.offset - NEWEST), end.offset
    found: dict[tuple[str, str], int] = {}
    async with call.services.scans.turn(call.owner), opened_consumer(call, is_committed=True) as consumer:
        await consumer.assign(sorted(begins))
        for one, offset in begins.items():
            consumer.seek(one, offset)
        while left:
            records = await consumer.poll(POLL_MS)
            for record in records:
                try:
                    beat = Heartbeat.decode(record.key or b"", record.value or b"")
                except MalformedMessage:
                    continue
                flow = (beat.source, beat.target)
                found[flow] = max(found.get(flow, 0), beat.timestamp_ms)
            left = {one: end for one, end in left.items() if consumer.position(one) < end}
            if not records:
                break
    return found


MIRROR_ROUTES = (Route("GET", "/api/mirrors", _mirrors),)
