"""Groups of every kind: lists, members, progress, lag over time."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

from ottla.client.admin.groups import ListedGroup
from ottla.client.errors import ClientError
from ottla.console.answers import PageRequest, invalid, page_of
from ottla.console.call import Call, Route
from ottla.console.group_reading import (
    KINDS,
    GroupDetail,
    GroupProgress,
    kind_of,
    progress_of_groups,
    read_group,
    total_lag,
)
from ottla.console.routes.topics import topic_of
from ottla.console.view import or_none
from ottla.console.words import partition_json
from ottla.model.errors import ErrorCode, KafkaError

__all__ = ["GROUP_ROUTES", "listed_group", "why_not_resettable"]

RESETTABLE = ("Empty", "Dead")
# The groups of a topic are found by reading the offsets of every group. In a larger cluster the list is cut.
GROUPS_OF_TOPIC_MAX = 500


async def listed_group(call: Call, group_id: str) -> ListedGroup:
    """The group in the list. The list is read again if the group is missing: it may be new. Raises KafkaError."""
    for _ in range(2):
        group = next((listed for listed in await call.view.groups.get() if listed.group_id == group_id), None)
        if group is not None:
            return group
        call.view.groups.drop()
    raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"There is no group {group_id!r}.")


def why_not_resettable(detail: GroupDetail) -> str | None:
    """None if offsets can be changed."""
    if detail.state in RESETTABLE:
        return None
    count = len(detail.members)
    members = "an active member" if count == 1 else f"{count} active members" if count else "active members"
    return f"The group is {detail.state} and has {members}; stop its consumers first."


async def _groups(call: Call) -> dict[str, Any]:
    query = call.query
    page = PageRequest.of(query, sort="id", sortable=("id", "state", "kind", "protocol_type"))
    kind, state = query.get("kind", ""), query.get("state", "").casefold()
    if kind and kind not in KINDS:
        raise invalid(f"kind is one of {', '.join(KINDS)}.")
    rows = [
        group
        for group in await call.view.groups.get()
        if (not kind or kind_of(group) == kind)
        and (not state or group.state.casefold() == state)
        and page.matches(group.group_id)
    ]
    keys: dict[str, Callable[[ListedGroup], Any]] = {
        "id": lambda group: group.group_id,
        "state": lambda group: (group.state, group.group_id),
        "kind": lambda group: (kind_of(group), group.group_id),
        "protocol_type": lambda group: (group.protocol_type, group.group_id),
    }
    shown = page.cut(rows, keys[page.sort])
    kinds = {group.group_id: kind_of(group) for group in shown}
    details, progress = await asyncio.gather(_details(call, kinds), or_none(progress_of_groups(call.admin, shown)))
    return page_of(
        [_item(call, group, details.get(group.group_id), (progress or {}).get(group.group_id)) for group in shown],
        len(rows),
        page,
    )


async def _details(call: Call, kinds: dict[str, str]) -> dict[str, GroupDetail]:
    details = await asyncio.gather(*[or_none(read_group(call.admin, *id_and_kind)) for id_and_kind in kinds.items()])
    return {group_id: detail for group_id, detail in zip(kinds, details, strict=True) if detail is not None}


def _item(
    call: Call, group: ListedGroup, detail: GroupDetail | None, progress: list[GroupProgress] | KafkaError | None
) -> dict[str, Any]:
    lag = total_lag(progress)
    if lag is not None:
        call.view.lags.add(group.group_id, int(time.time() * 1000), lag)
    return {
        "id": group.group_id,
        "kind": kind_of(group),
        "protocol_type": group.protocol_type,
        "state": group.state if detail is None else detail.state,
        "members": None if detail is None else len(detail.members),
        "lag": lag,
        "coordinator": None if detail is None else detail.coordinator,
    }


async def _group(call: Call) -> dict[str, Any]:
    group = await listed_group(call, call.part("id"))
    kind = kind_of(group)
    detail, progress = await asyncio.gather(
        read_group(call.admin, group.group_id, kind), progress_of_groups(call.admin, [group])
    )
    rows = progress[group.group_id]
    if isinstance(rows, KafkaError):
        raise rows
    owners = {partition: member.member_id for member in detail.members for partition in member.partitions}
    known = {row.partition for row in rows}
    rows = sorted(
        [*rows, *[GroupProgress(partition, None, None, None) for partition in owners if partition not in known]]
    )
    call.view.watch(group.group_id)
    why_not = why_not_resettable(detail)
    item = _item(call, group, detail, rows)
    return {
        **item,
        "assignor": detail.assignor,
        "epoch": detail.epoch,
        "member_list": [
            {
                "id": member.member_id,
                "instance_id": member.instance_id,
                "client_id": member.client_id,
                "host": member.host,
                "partitions": [partition_json(partition) for partition in member.partitions],
            }
            for member in detail.members
        ],
        "offsets": [
            {
                **partition_json(row.partition),
                "committed": row.committed,
                "last_offset": row.last_offset,
                "lag": row.lag,
                "member": owners.get(row.partition),
            }
            for row in rows
        ],
        "lag_history": call.view.lags.of(group.group_id),
        "can_reset": why_not is None,
        "why_not": why_not,
    }


async def _groups_of_topic(call: Call) -> dict[str, Any]:
    """Groups with offsets or members on the topic."""
    info = await topic_of(call, call.part("name"))
    groups = (await call.view.groups.get())[:GROUPS_OF_TOPIC_MAX]
    progress = await progress_of_groups(call.admin, groups)
    items = []
    for group in groups:
        rows = progress[group.group_id]
        if isinstance(rows, KafkaError | ClientError):
            continue
        own = [row for row in rows if row.partition.topic == info.name]
        if own:
            items.append({"id": group.group_id, "kind": kind_of(group), "state": group.state, "lag": total_lag(own)})
    return {"items": items, "total": len(items), "page": 1, "size": len(items)}


GROUP_ROUTES = (
    Route("GET", "/api/groups", _groups),
    Route("GET", "/api/groups/{id}", _group),
    Route("GET", "/api/topics/{name}/groups", _groups_of_topic),
)
