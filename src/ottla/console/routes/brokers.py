"""Brokers and the quorum of controllers."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

from ottla.client.admin.configs import ConfigResource, ResourceType
from ottla.client.admin.nodes import ClusterNode, Quorum, QuorumReplica
from ottla.client.admin.partitions import LogDirectory
from ottla.console.answers import ApiError, PageRequest, page_of
from ottla.console.call import Call, Need, Route
from ottla.console.change import Change, command_line
from ottla.console.cluster_state import ClusterState
from ottla.console.routes.topic_changes import settings_change
from ottla.console.view import or_none
from ottla.console.words import settings_json

__all__ = ["BROKER_ROUTES", "broker_items"]

_SORTS = ("id", "host", "leaders", "replicas", "bytes", "out_of_sync")


async def broker_items(call: Call) -> list[dict[str, Any]]:
    state = await call.view.state.get()
    description, sizes, controller = await asyncio.gather(
        or_none(call.admin.cluster.describe(fenced=True)),
        or_none(call.view.sizes.get(), 1.0),
        call.view.controller_id(),
    )
    if description is not None:
        nodes = list(description.brokers)
    else:
        nodes = [
            ClusterNode(broker.node_id, broker.host, broker.port, broker.rack, False)
            for broker in state.brokers.values()
        ]
    leaders, replicas, behind = _counts(state)
    items = []
    for node in nodes:
        directories = (sizes or {}).get(node.node_id)
        items.append(
            {
                "id": node.node_id,
                "host": node.host,
                "port": node.port,
                "rack": node.rack,
                "is_controller": node.node_id == controller,
                "is_alive": node.node_id in state.brokers and not node.is_fenced,
                "leaders": leaders[node.node_id],
                "replicas": replicas[node.node_id],
                "out_of_sync": behind[node.node_id],
                "bytes": sum(map(_bytes, directories)) if isinstance(directories, list) else None,
            }
        )
    return items


def _counts(state: ClusterState) -> tuple[Counter[int], Counter[int], Counter[int]]:
    leaders: Counter[int] = Counter()
    replicas: Counter[int] = Counter()
    behind: Counter[int] = Counter()
    for info in state.topics.values():
        for partition in info.partitions.values():
            leaders[partition.leader] += 1
            replicas.update(partition.replicas)
            if len(partition.isr) < len(partition.replicas):
                behind.update(set(partition.replicas).difference(partition.isr))
    return leaders, replicas, behind


def _bytes(directory: LogDirectory) -> int:
    return sum(replica.size_bytes for replica in directory.replicas.values())


async def _brokers(call: Call) -> dict[str, Any]:
    page = PageRequest.of(call.query, sort="id", sortable=_SORTS)
    rows = [
        broker
        for broker in await broker_items(call)
        if page.matches(f"{broker['id']} {broker['host']} {broker['rack'] or ''}")
    ]
    shown = page.cut(rows, lambda broker: (broker[page.sort] is not None, broker[page.sort], broker["id"]))
    return page_of(shown, len(rows), page)


async def _broker(call: Call) -> dict[str, Any]:
    item = next((broker for broker in await broker_items(call) if str(broker["id"]) == call.part("id")), None)
    if item is None:
        raise ApiError(404, "NOT_FOUND", f"There is no broker {call.part('id')}.")
    resource = ConfigResource(ResourceType.BROKER, call.part("id"))
    # Directories without their replicas, which are many and were counted a moment ago.
    directories, settings = await asyncio.gather(
        or_none(call.admin.partitions.log_directories([item["id"]], partitions=[])),
        or_none(call.admin.configs.describe([resource], synonyms=True, documentation=True)),
    )
    directories_of_broker = (directories or {}).get(item["id"])
    counted = (call.view.sizes.value or {}).get(item["id"])
    counted_by_path = {directory.path: directory for directory in counted} if isinstance(counted, list) else {}
    entries = (settings or {}).get(resource)
    return {
        **item,
        "log_dirs": [_directory(directory, counted_by_path.get(directory.path)) for directory in directories_of_broker]
        if isinstance(directories_of_broker, list)
        else None,
        "settings": settings_json(entries) if isinstance(entries, list) else None,
    }


def _directory(directory: LogDirectory, counted: LogDirectory | None) -> dict[str, Any]:
    return {
        "path": directory.path,
        "total_bytes": directory.total_bytes if directory.total_bytes >= 0 else None,
        "usable_bytes": directory.usable_bytes if directory.usable_bytes >= 0 else None,
        "replicas": None if counted is None else len(counted.replicas),
        "bytes": None if counted is None else _bytes(counted),
        "error": None if directory.error is None else directory.error.message,
    }


async def _settings(call: Call) -> Change:
    broker = call.part("id")
    if broker == "default":
        resource = ConfigResource(ResourceType.BROKER, "")
        return await settings_change(call, resource, owner="all brokers", option=("--broker-defaults", True))
    if not broker.isdecimal():
        raise ApiError(404, "NOT_FOUND", f"There is no broker {broker!r}.")
    resource = ConfigResource(ResourceType.BROKER, broker)
    return await settings_change(call, resource, owner=f"broker {broker}", option=("--broker", broker))


async def _unregister(call: Call) -> Change:
    broker = next(
        (candidate for candidate in await broker_items(call) if str(candidate["id"]) == call.part("id")), None
    )
    if broker is None:
        raise ApiError(404, "NOT_FOUND", f"There is no broker {call.part('id')}.")
    if broker["is_alive"]:
        raise ApiError(409, "INVALID_REQUEST", f"Broker {broker['id']} is running.", "Stop it first.")

    async def apply() -> dict[str, Any]:
        await call.admin.cluster.unregister(broker["id"])
        return {"unregistered": broker["id"]}

    return Change(
        plan=[f"Forgets broker {broker['id']}, which is not running and holds {broker['replicas']} replicas."],
        command=command_line("cluster", "unregister", options=[("--id", broker["id"])]),
        apply=apply,
        warnings=["Its replicas stay missing until they are moved to other brokers."] if broker["replicas"] else [],
    )


async def _quorum(call: Call) -> dict[str, Any]:
    quorum = await call.admin.cluster.quorum()
    return {
        "leader": quorum.leader_id,
        "epoch": quorum.leader_epoch,
        "high_watermark": quorum.high_watermark,
        "voters": [_replica(quorum, voter) for voter in quorum.voters],
        "observers": [_replica(quorum, observer) for observer in quorum.observers],
    }


def _replica(quorum: Quorum, replica: QuorumReplica) -> dict[str, Any]:
    leader = next((voter for voter in quorum.voters if voter.node_id == quorum.leader_id), None)
    end = quorum.high_watermark if leader is None else leader.log_end_offset
    return {
        "id": replica.node_id,
        "log_end_offset": replica.log_end_offset,
        "lag": max(end - replica.log_end_offset, 0),
        "last_fetch": replica.last_fetch_timestamp if replica.last_fetch_timestamp > 0 else None,
        "last_caught_up": replica.last_caught_up_timestamp if replica.last_caught_up_timestamp > 0 else None,
        "endpoints": list(quorum.endpoints.get(replica.node_id, ())),
    }


BROKER_ROUTES = (
    Route("GET", "/api/brokers", _brokers),
    Route("GET", "/api/brokers/{id}", _broker),
    Route("PUT", "/api/brokers/{id}/settings", _settings, Need.WRITE),
    Route("DELETE", "/api/brokers/{id}", _unregister, Need.WRITE),
    Route("GET", "/api/quorum", _quorum),
)
