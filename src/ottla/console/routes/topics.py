"""Topics: lists, partitions, settings."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from ottla.client.admin.configs import ConfigResource, ResourceType
from ottla.client.admin.offsets import EARLIEST, LATEST, FoundOffset
from ottla.client.metadata import PartitionInfo, TopicInfo
from ottla.console.answers import ApiError, PageRequest, invalid, page_of
from ottla.console.call import Call, Route
from ottla.console.cluster_state import TopicRow, topic_row
from ottla.console.view import leader_sizes, or_none
from ottla.console.words import settings_json
from ottla.model.errors import ErrorCode, KafkaError
from ottla.model.ids import TopicPartition

__all__ = ["TOPIC_ROUTES", "offset_bounds", "topic_of"]

# Partitions on the page of a topic. The list of partitions has the others.
PARTITIONS_MAX = 1_000

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

Bounds = dict[TopicPartition, tuple[int, int]]


async def topic_of(call: Call, name: str) -> TopicInfo:
    """The metadata of a topic. Raises KafkaError."""
    info = (await call.view.state.get()).topics.get(name)
    if info is None or info.error is not None:
        # The topic may be new. If the cluster has the topic, the whole state is outdated.
        await call.admin.connections.fresh_topic(name)
        call.view.state.drop()
        info = (await call.view.state.get()).topics.get(name)
    if info is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"There is no topic {name!r}.")
    if info.error is not None and not info.partitions:
        raise info.error
    return info


async def offset_bounds(call: Call, partitions: list[TopicPartition]) -> Bounds:
    """Partition -> first and last offset; partitions without an answer are missing."""
    first, last = await asyncio.gather(
        or_none(call.admin.offsets.find(dict.fromkeys(partitions, EARLIEST), timeout_ms=1_000)),
        or_none(call.admin.offsets.find(dict.fromkeys(partitions, LATEST), timeout_ms=1_000)),
    )
    bounds = {}
    for partition in partitions:
        begin, end = (first or {}).get(partition), (last or {}).get(partition)
        if isinstance(begin, FoundOffset) and isinstance(end, FoundOffset):
            bounds[partition] = (begin.offset, end.offset)
    return bounds


async def _topics(call: Call) -> dict[str, Any]:
    query = call.query
    page = PageRequest.of(query, sortable=(*_SORTS, "bytes"))
    is_wanted = _HEALTH.get(query.get("health", "all"))
    if is_wanted is None:
        raise invalid(f"health is one of {', '.join(_HEALTH)}.")
    with_internal = query.get("internal", "false") == "true"
    state = await call.view.state.get()
    rows = [
        row
        for row in state.rows
        if (with_internal or not row.is_internal) and is_wanted(row) and page.matches(row.name)
    ]
    sort = _SORTS.get(page.sort)
    if sort is None:
        totals = await _all_sizes(call)
        shown = page.cut(rows, lambda row: (totals.get(row.name, 0), row.name))
    else:
        shown = page.cut(rows, sort)
    partitions = state.partitions_of(row.name for row in shown)
    sizes, bounds = await asyncio.gather(call.view.sizes_of(partitions), offset_bounds(call, partitions))
    return page_of([_item(row, sizes, bounds) for row in shown], len(rows), page)


async def _topic(call: Call) -> dict[str, Any]:
    info = await topic_of(call, call.part("name"))
    listed = list(info.partitions.values())[:PARTITIONS_MAX]
    partitions = [TopicPartition(info.name, partition.partition) for partition in listed]
    resource = ConfigResource(ResourceType.TOPIC, info.name)
    sizes, bounds, settings = await asyncio.gather(
        call.view.sizes_of(partitions),
        offset_bounds(call, partitions),
        or_none(call.admin.configs.describe([resource], synonyms=True, documentation=True)),
    )
    entries = (settings or {}).get(resource)
    return {
        **_item(topic_row(info), sizes, bounds),
        "partition_list": [_partition(info.name, partition, sizes, bounds) for partition in listed],
        "settings": settings_json(entries) if isinstance(entries, list) else None,
        "link_schema": await _subject(call, info.name),
    }


async def _partitions(call: Call) -> dict[str, Any]:
    info = await topic_of(call, call.part("name"))
    page = PageRequest.of(call.query, sort="partition", sortable=("partition", "leader"))
    rows = [partition for partition in info.partitions.values() if page.matches(str(partition.partition))]
    by_leader = page.sort == "leader"
    shown = page.cut(
        rows, lambda partition: (partition.leader, partition.partition) if by_leader else partition.partition
    )
    partitions = [TopicPartition(info.name, partition.partition) for partition in shown]
    sizes, bounds = await asyncio.gather(call.view.sizes_of(partitions), offset_bounds(call, partitions))
    return page_of([_partition(info.name, partition, sizes, bounds) for partition in shown], len(rows), page)


async def _subject(call: Call, topic: str) -> str | None:
    registry = call.services.registry
    if registry is None:
        return None
    name = f"{topic}-value"
    try:
        return name if await registry.ask("GET", "subjects", name, "versions", accept=404) else None
    except ApiError:
        # The page of a topic does not depend on the registry.
        return None


async def _all_sizes(call: Call) -> dict[str, int]:
    """Topic -> bytes of its leaders' logs."""
    state = await call.view.state.get()
    totals: dict[str, int] = {}
    for broker, directories in (await call.view.sizes.get()).items():
        for partition, size in leader_sizes({broker: directories}).items():
            info = state.topics.get(partition.topic)
            known = None if info is None else info.partitions.get(partition.partition)
            if known is not None and known.leader == broker:
                totals[partition.topic] = totals.get(partition.topic, 0) + size
    return totals


def _item(row: TopicRow, sizes: dict[TopicPartition, int], bounds: Bounds) -> dict[str, Any]:
    partitions = [TopicPartition(row.name, number) for number in range(row.partitions)]
    known_bounds = [bounds[partition] for partition in partitions if partition in bounds]
    known_sizes = [sizes[partition] for partition in partitions if partition in sizes]
    return {
        "name": row.name,
        "id": row.topic_id,
        "partitions": row.partitions,
        "replication_factor": row.replication_factor,
        "under_replicated": row.under_replicated,
        "offline": row.offline,
        "is_internal": row.is_internal,
        "records": sum(last - first for first, last in known_bounds) if known_bounds else None,
        "bytes": sum(known_sizes) if known_sizes else None,
    }


def _partition(topic: str, info: PartitionInfo, sizes: dict[TopicPartition, int], bounds: Bounds) -> dict[str, Any]:
    key = TopicPartition(topic, info.partition)
    first, last = bounds.get(key, (None, None))
    return {
        "partition": info.partition,
        "leader": info.leader,
        "leader_epoch": info.leader_epoch,
        "replicas": list(info.replicas),
        "isr": list(info.isr),
        "offline": list(info.offline_replicas),
        "first_offset": first,
        "last_offset": last,
        "bytes": sizes.get(key),
    }


TOPIC_ROUTES = (
    Route("GET", "/api/topics", _topics),
    Route("GET", "/api/topics/{name}", _topic),
    Route("GET", "/api/topics/{name}/partitions", _partitions),
)
