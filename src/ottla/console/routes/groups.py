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
# Groups of one topic are found by asking every group; in a larger cluster the list is cut.
GROUPS_OF_TOPIC_MAX = 500


async def listed_group(call: Call, group_id: str) -> ListedGroup:
    """Raises KafkaError. A group that is new is asked for again."""
    for _ in range(2):
        found = next((one for one in await call.view.groups.get() if one.group_id == group_id), None)
        if found is not None:
            return found
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
        one
        for one in await call.view.groups.get()
        if (not kind or kind_of(one) == kind)
        and (not state or one.state.casefold() == state)
        and page.matches(one.group_id)
    ]
    keys: dict[str, Callable[[ListedGroup], Any]] = {
        "id": lambda one: one.group_id,
        "state": lambda one: (one.state, one.group_id),
        "kind": lambda one: (kind_of(one), one.group_id),
        "protocol_type": lambda one: (one.protocol_type, one.group_id),
    }
    shown = page.cut(rows, keys[page.sort])
    kinds = {one.group_id: kind_of(one) for one in shown}
    details, progress = await asyncio.gather(_details(call, kinds), or_none(progress_of_groups(call.admin, shown)))
    return page_of(
        [_item(call, one, details.get(one.group_id), (progress or {}).get(one.group_id)) for one in shown],
        len(rows),
        page,
    )


async def _details(call: Call, kinds: dict[str, str]) -> dict[str, GroupDetail]:
    found = await asyncio.gather(*[or_none(read_group(call.admin, *one)) for one in kinds.items()])
    return {group_id: detail for group_id, detail in zip(kinds, found, strict=True) if detail is not None}


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
    owners = {one: member.member_id for member in detail.members for one in member.partitions}
    known = {one.partition for one in rows}
    rows = sorted([*rows, *[GroupProgress(one, None, None, None) for one in owners if one not in known]])
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
                "partitions": [partition_json(one) for one in member.partitions],
            }
            for member in detail.members
        ],
        "offsets": [
            {
                **partition_json(one.partition),
                "committed": one.committed,
                "last_offset": one.last_offset,
                "lag": one.lag,
                "member": owners.get(one.partition),
            }
            for one in rows
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
        own = [one for one in rows if one.partition.topic == info.name]
        if own:
            items.append({"id": group.group_id, "kind": kind_of(group), "state": group.state, "lag": total_lag(own)})
    return {"items": items, "total": len(items), "page": 1, "size": len(items)}


GROUP_ROUTES = (
    Route("GET", "/api/groups", _groups),
    Route("GET", "/api/groups/{id}", _group),
    Route("GET", "/api/topics/{name}/groups", _groups_of_topic),
)
