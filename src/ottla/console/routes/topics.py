"""Topics: lists, partitions, settings."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from ottla.client.admin.offsets import EARLIEST, LATEST, FoundOffset
from ottla.console.answers import PageRequest, invalid, page_of
from ottla.console.call import Call, Route
from ottla.console.view import TopicRow, leader_sizes, or_none
from ottla.model.ids import TopicPartition

__all__ = ["TOPIC_ROUTES"]

_SORTS: dict[str, Callable[[TopicRow], Any]] = {
    "name": lambda row: row.name,
    "partitions": lambda row: (row.partitions, row.name),
    "replication_factor": lambda row: (row.replication_factor, row.name),
    "under_replicated": lambda row: (row.under_replicated, row.name),
}
_HEALTH: dict[str, Callable[[TopicRow], bool]] = {
    "all": lambda row: row is not None,
    "under-replicated": lambda row: row.under_replicated > 0,
    "offline": lambda row: row.offline > 0,
}


async def _topics(call: Call) -> dict[str, Any]:
    query = call.query
    page = PageRequest.of(query, sortable=(*_SORTS, "bytes"))
    is_healthy = _HEALTH.get(query.get("health", "all"))
    if is_healthy is None:
        raise invalid(f"health is one of {', '.join(_HEALTH)}.")
    with_internal = query.get("internal", "false") == "true"
    state = await call.view.state.get()
    rows = [
        row
        for row in state.rows
        if (with_internal or not row.is_internal) and is_healthy(row) and page.matches(row.name)
    ]
    sort = _SORTS.get(page.sort)
    if sort is None:
        totals = await _all_sizes(call)
        shown = page.cut(rows, lambda row: (totals.get(row.name, 0), row.name))
    else:
        shown = page.cut(rows, sort)
    partitions = state.partitions_of(row.name for row in shown)
    sizes, counts = await asyncio.gather(call.view.sizes_of(partitions), record_counts(call, partitions))
    return page_of([_item(row, sizes, counts) for row in shown], len(rows), page)


async def _all_sizes(call: Call) -> dict[str, int]:
    """Topic -> bytes of its leaders."""
    state = await call.view.state.get()
    totals: dict[str, int] = {}
    for broker, directories in (await call.view.sizes.get()).items():
        for one, size in leader_sizes({broker: directories}).items():
            info = state.topics.get(one.topic)
            if (
                info is not None
                and one.partition in info.partitions
                and info.partitions[one.partition].leader == broker
            ):
                totals[one.topic] = totals.get(one.topic, 0) + size
    return totals


async def record_counts(call: Call, partitions: list[TopicPartition]) -> dict[TopicPartition, tuple[int, int]]:
    """Partition -> first and last offset; partitions without an answer are missing."""
    first, last = await asyncio.gather(
        or_none(call.admin.offsets.find(dict.fromkeys(partitions, EARLIEST), timeout_ms=1_000)),
        or_none(call.admin.offsets.find(dict.fromkeys(partitions, LATEST), timeout_ms=1_000)),
    )
    found = {}
    for one in partitions:
        begin, end = (first or {}).get(one), (last or {}).get(one)
        if isinstance(begin, FoundOffset) and isinstance(end, FoundOffset):
            found[one] = (begin.offset, end.offset)
    return found


def _item(
    row: TopicRow, sizes: dict[TopicPartition, int], counts: dict[TopicPartition, tuple[int, int]]
) -> dict[str, Any]:
    partitions = [TopicPartition(row.name, number) for number in range(row.partitions)]
    told_counts = [counts[one] for one in partitions if one in counts]
    told_sizes = [sizes[one] for one in partitions if one in sizes]
    return {
        "name": row.name,
        "id": row.topic_id,
        "partitions": row.partitions,
        "replication_factor": row.replication_factor,
        "under_replicated": row.under_replicated,
        "offline": row.offline,
        "is_internal": row.is_internal,
        "records": sum(last - first for first, last in told_counts) if told_counts else None,
        "bytes": sum(told_sizes) if told_sizes else None,
    }


TOPIC_ROUTES = (Route("GET", "/api/topics", _topics),)
