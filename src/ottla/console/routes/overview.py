"""The cluster at a glance."""

from __future__ import annotations

import asyncio
from typing import Any

from ottla.client.admin.nodes import ClusterDescription
from ottla.console.call import Call, Route
from ottla.console.cluster_state import ClusterState
from ottla.console.view import or_none

__all__ = ["OVERVIEW_ROUTES"]

SIZES_SECONDS_MAX = 0.15


async def _overview(call: Call) -> dict[str, Any]:
    state = await call.view.state.get()
    description, groups, controller = await asyncio.gather(
        or_none(call.admin.cluster.describe(fenced=True)),
        or_none(call.view.groups.get()),
        call.view.controller_id(),
    )
    # The sizes are read last, because a node with many partitions answers nothing else meanwhile. In a large cluster
    # the page does not wait for the sizes; it has them the next time.
    sizes = await or_none(call.view.sizes.get(), SIZES_SECONDS_MAX) or call.view.sizes.value
    under_replicated = sum(row.under_replicated for row in state.rows)
    offline = sum(row.offline for row in state.rows)
    findings = _findings(state, description, under_replicated=under_replicated, offline=offline)
    return {
        "cluster_id": state.cluster_id,
        "controller": controller,
        "brokers": {
            "total": len(state.brokers) if description is None else len(description.brokers),
            "alive": len(state.brokers),
        },
        "topics": len(state.rows),
        "partitions": sum(row.partitions for row in state.rows),
        "groups": None if groups is None else len(groups),
        "offline_partitions": offline,
        "under_replicated_partitions": under_replicated,
        "under_min_isr_partitions": None,
        "bytes": None
        if sizes is None
        else sum(
            replica.size_bytes
            for directories in sizes.values()
            if isinstance(directories, list)
            for directory in directories
            for replica in directory.replicas.values()
        ),
        "health": {"state": findings[0]["severity"] if findings else "ok", "findings": findings},
    }


def _findings(
    state: ClusterState, description: ClusterDescription | None, *, under_replicated: int, offline: int
) -> list[dict[str, str]]:
    """The findings about the health of the cluster, the worst first."""
    findings = []
    if offline:
        findings.append(
            {
                "severity": "critical",
                "title": f"{offline} partitions have no leader: they accept and serve no records.",
                "link": "/topics?health=offline",
            }
        )
    fenced = [] if description is None else [node for node in description.brokers if node.node_id not in state.brokers]
    findings += [
        {"severity": "warning", "title": f"Broker {node.node_id} is not running.", "link": f"/brokers/{node.node_id}"}
        for node in fenced
    ]
    if under_replicated:
        findings.append(
            {
                "severity": "warning",
                "title": f"{under_replicated} partitions have fewer in-sync replicas than replicas.",
                "link": "/topics?health=under-replicated",
            }
        )
    return findings


OVERVIEW_ROUTES = (Route("GET", "/api/overview", _overview),)
