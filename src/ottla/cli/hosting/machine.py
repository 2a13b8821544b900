"""All nodes of a machine: they start together, are started again when they end, and stop in order.

One task for each node keeps it running. Whoever stops a node on purpose (a restart one by one, fewer nodes, the end)
cancels that task first, so that a node is never started by two.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any

from ottla.cli.hosting.node_child import NodeChild, NodeState
from ottla.cli.hosting.pages import sample_sum
from ottla.cli.hosting.plan import HostError, HostPlan

__all__ = ["Machine"]

logger = logging.getLogger("ottla.cli.hosting")

READY_SECONDS_MAX = 300.0
IN_SYNC_SECONDS_MAX = 600.0
_LOOK_SECONDS = 0.5

_REPLICAS = "kafka_server_replicamanager_partitioncount"
_UNDER_REPLICATED = "kafka_server_replicamanager_underreplicatedpartitions"


class Machine:
    def __init__(self, plan: HostPlan, directory: str, *, read_page: Callable[[str], Awaitable[str]]) -> None:
        """`read_page` reads a page of a node by its URL; it raises OSError."""
        self._plan = plan
        self._directory = directory
        self._read_page = read_page
        self._nodes: dict[int, NodeChild] = {}
        self._keepers: dict[int, asyncio.Task[None]] = {}
        # One change at a time: restarts, more or fewer nodes, the end.
        self._change = asyncio.Lock()

    @property
    def nodes(self) -> list[NodeChild]:
        return [self._nodes[node_id] for node_id in sorted(self._nodes)]

    @property
    def unready(self) -> list[int]:
        """The ids of the nodes that do not serve clients."""
        return [node.node_id for node in self.nodes if node.state is not NodeState.READY]

    def status(self) -> list[dict[str, Any]]:
        return [
            {
                "node": node.node_id,
                "state": node.state.value,
                "pid": node.pid,
                "addresses": node.addresses,
                "restarts": node.restarts.count,
                "ready_seconds": round(node.ready_seconds(), 1) if node.state is NodeState.READY else 0.0,
            }
            for node in self.nodes
        ]

    async def start(self) -> None:
        """Starts all nodes. Raises HostError if one of them ends before it is ready."""
        async with self._change:
            started = await asyncio.gather(*(self._start(NodeChild(one, self._directory)) for one in self._plan.nodes))
            if failed := [
                str(plan.node_id) for plan, ready in zip(self._plan.nodes, started, strict=True) if not ready
            ]:
                await self._stop_all()
                raise HostError(f"Node {', '.join(failed)} did not start, so the others were stopped.")

    async def stop(self) -> None:
        async with self._change:
            await self._stop_all()

    async def restart(self, plan: HostPlan | None = None) -> None:
        """Restarts nodes one by one, each when all replicas are in sync. `plan` restarts only those that it changes."""
        async with self._change:
            for node in self.nodes:
                wanted = (
                    node.plan
                    if plan is None
                    else next((one for one in plan.nodes if one.node_id == node.node_id), node.plan)
                )
                if plan is not None and wanted == node.plan:
                    continue
                await self._wait_in_sync()
                await self._release(node)
                node.plan = wanted
                if not await self._start(node):
                    raise HostError(f"Node {node.node_id} does not start again. The nodes after it were not restarted.")
            await self._wait_in_sync()

    async def scale(self, plan: HostPlan) -> None:
        """More nodes, or fewer: those that go must have no replicas."""
        wanted = {one.node_id: one for one in plan.nodes}
        async with self._change:
            for node in [node for node in reversed(self.nodes) if node.node_id not in wanted]:
                replicas = await self._figure(node, _REPLICAS)
                if replicas is None:
                    raise HostError(f"Node {node.node_id} does not tell how many replicas it has, so it stays.")
                if replicas:
                    raise HostError(
                        f"Node {node.node_id} has {int(replicas)} replicas. Move them first: "
                        f"ottla balance run --drain {node.node_id}"
                    )
                await self._release(node)
                del self._nodes[node.node_id]
            for node_id, one in wanted.items():
                if node_id not in self._nodes and not await self._start(NodeChild(one, self._directory)):
                    raise HostError(f"Node {node_id} did not start.")
            self._plan = plan

    # Inside.

    async def _start(self, node: NodeChild) -> bool:
        """Starts a node and keeps it running from then on; False if it ends before it is ready."""
        self._nodes[node.node_id] = node
        await node.start()
        try:
            is_ready = await asyncio.wait_for(node.wait_ready(), READY_SECONDS_MAX)
        except TimeoutError:
            logger.warning("node %d is not ready after %d s", node.node_id, READY_SECONDS_MAX)
            is_ready = False
        if is_ready:
            self._keepers[node.node_id] = asyncio.create_task(self._keep(node))
        return is_ready

    async def _keep(self, node: NodeChild) -> None:
        while True:
            code = await node.wait_ended()
            pause = node.restarts.pause(node.ready_seconds())
            node.state = NodeState.WAITING
            logger.warning("node %d has ended with exit code %d; it starts again in %g s", node.node_id, code, pause)
            await asyncio.sleep(pause)
            await node.start()
            if await node.wait_ready():
                logger.info("node %d is ready again", node.node_id)

    async def _release(self, node: NodeChild) -> None:
        """Stops a node on purpose."""
        keeper = self._keepers.pop(node.node_id, None)
        if keeper is not None:
            keeper.cancel()
            await asyncio.gather(keeper, return_exceptions=True)
        await node.stop()
        node.state = NodeState.STOPPED

    async def _stop_all(self) -> None:
        """Brokers first, all at once: they hand over their leaders through the controller, which is the first node."""
        brokers = [node for node in self.nodes if "controller" not in node.plan.properties["process.roles"]]
        await asyncio.gather(*(self._release(node) for node in brokers))
        await asyncio.gather(*(self._release(node) for node in self.nodes if node not in brokers))

    async def _wait_in_sync(self) -> None:
        """Returns when no leader of this machine misses a replica, and all nodes are ready."""
        end = asyncio.get_running_loop().time() + IN_SYNC_SECONDS_MAX
        while True:
            figures = [await self._figure(node, _UNDER_REPLICATED) for node in self.nodes]
            if not self.unready and all(figure == 0 for figure in figures):
                return
            if asyncio.get_running_loop().time() >= end:
                raise HostError(
                    f"After {IN_SYNC_SECONDS_MAX:.0f} s replicas are still not in sync; nothing more was restarted. "
                    "`ottla topics describe --under-replicated-partitions` names them."
                )
            await asyncio.sleep(_LOOK_SECONDS)

    async def _figure(self, node: NodeChild, name: str) -> float | None:
        """A metric of a node; None if the node does not tell."""
        if node.state is not NodeState.READY or node.metrics_url is None:
            return None
        try:
            return sample_sum(await self._read_page(node.metrics_url), name)
        except OSError as error:
            logger.info("node %d does not show its metrics: %s", node.node_id, error)
            return None
