"""All nodes of a machine: they start together, are started again when they end, and stop in order.

One task per node keeps the node running. A deliberate stop (rolling restart, fewer nodes, shutdown) cancels the task
first, so that only one task starts a node.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
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
# Replicas in a failed directory; `_REPLICAS` does not count them.
_OFFLINE_REPLICAS = "kafka_server_replicamanager_offlinereplicacount"
_UNDER_REPLICATED = "kafka_server_replicamanager_underreplicatedpartitions"
# The leader of a partition is on another machine than its followers, so the leaders of this machine are not enough.
_OUT_OF_SYNC = "ottla_replica_out_of_sync_partitions"


class Machine:
    def __init__(self, plan: HostPlan, directory: str, *, read_page: Callable[[str], Awaitable[str]]) -> None:
        """`read_page` reads a page of a node by its URL; it raises OSError."""
        self._plan = plan
        self._directory = directory
        self._read_page = read_page
        self._nodes: dict[int, NodeChild] = {}
        self._keepers: dict[int, asyncio.Task[None]] = {}
        # Serializes changes: restarts, more or fewer nodes, shutdown.
        self._change = asyncio.Lock()
        # The tasks that hold the lock or wait for it, except shutdown.
        self._changing_tasks: set[asyncio.Task[Any]] = set()

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
        async with self._changing():
            starts = {
                node_plan.node_id: asyncio.create_task(self._start(NodeChild(node_plan, self._directory)))
                for node_plan in self._plan.nodes
            }
            try:
                # The other nodes may wait for a controller that has failed, so the first failure ends the start.
                for start in asyncio.as_completed(starts.values()):
                    if not await start:
                        break
            finally:
                for task in starts.values():
                    task.cancel()
                await asyncio.gather(*starts.values(), return_exceptions=True)
            if failed := [
                str(node_id) for node_id, task in starts.items() if not task.cancelled() and not task.result()
            ]:
                await self._stop_all()
                raise HostError(f"Node {', '.join(failed)} did not start, so the others were stopped.")

    async def stop(self) -> None:
        """Stops all nodes. Cancels the other changes: a rolling restart of many nodes takes longer than a stop may."""
        for task in self._changing_tasks:
            task.cancel()
        async with self._change:
            await self._stop_all()

    async def restart(self, plan: HostPlan | None = None) -> None:
        """Restarts the nodes one after another, when all replicas are in sync; with `plan`, only the changed nodes."""
        async with self._changing():
            # Nodes that do not serve clients are first: the other nodes wait until all nodes are ready.
            for node in sorted(self.nodes, key=lambda node: node.state is NodeState.READY):
                wanted = (
                    node.plan
                    if plan is None
                    else next((node_plan for node_plan in plan.nodes if node_plan.node_id == node.node_id), node.plan)
                )
                if plan is not None and wanted == node.plan:
                    continue
                if node.state is NodeState.READY:
                    await self._wait_in_sync()
                await self._release(node)
                node.plan = wanted
                if not await self._start(node):
                    raise HostError(f"Node {node.node_id} does not start again. The nodes after it were not restarted.")
            await self._wait_in_sync()

    async def scale(self, plan: HostPlan) -> None:
        """Starts or stops nodes to match `plan`. A node that is stopped must have no replicas."""
        wanted = {node_plan.node_id: node_plan for node_plan in plan.nodes}
        async with self._changing():
            self._check_ports(plan)
            for node in [node for node in reversed(self.nodes) if node.node_id not in wanted]:
                replicas = await self._figure(node, _REPLICAS, _OFFLINE_REPLICAS)
                if replicas is None:
                    raise HostError(f"Node {node.node_id} does not tell how many replicas it has, so it stays.")
                if replicas:
                    raise HostError(
                        f"Node {node.node_id} has {int(replicas)} replicas. Move them first: "
                        f"ottla balance run --drain {node.node_id}"
                    )
                await self._release(node)
                del self._nodes[node.node_id]
            for node_id, node_plan in wanted.items():
                if node_id in self._nodes:
                    continue
                node = NodeChild(node_plan, self._directory)
                if not await self._start(node):
                    await self._release(node)
                    del self._nodes[node_id]
                    raise HostError(f"Node {node_id} did not start, so it was not added.")
            self._plan = plan

    # -- internals

    @asynccontextmanager
    async def _changing(self) -> AsyncIterator[None]:
        """The only change at this time. `stop` cancels the task of the caller."""
        task = asyncio.current_task()
        assert task is not None
        self._changing_tasks.add(task)
        try:
            async with self._change:
                yield
        finally:
            self._changing_tasks.discard(task)

    def _check_ports(self, plan: HostPlan) -> None:
        """Raises HostError if a node would get the port of another node, which still runs when the node restarts."""
        staying = [node for node in self.nodes if any(node.node_id == node_plan.node_id for node_plan in plan.nodes)]
        for node_plan in plan.nodes:
            for node in staying:
                shared = node_plan.ports & node.plan.ports
                if shared and node.node_id != node_plan.node_id:
                    raise HostError(
                        f"Node {node_plan.node_id} would get port {min(shared)}, which node {node.node_id} has now. "
                        "Nodes restart one by one, so use other ports, or stop the host and start it again."
                    )

    async def _start(self, node: NodeChild) -> bool:
        """Starts a node and keeps it running from then on; False if it has ended or is not ready in time."""
        self._nodes[node.node_id] = node
        first_start: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._keepers[node.node_id] = asyncio.create_task(self._keep(node, first_start))
        try:
            return await asyncio.wait_for(first_start, READY_SECONDS_MAX)
        except TimeoutError:
            logger.warning("node %d is not ready after %d s", node.node_id, READY_SECONDS_MAX)
            return False

    async def _keep(self, node: NodeChild, first_start: asyncio.Future[bool]) -> None:
        """Starts a node whenever it has ended. `first_start` gets True if the node becomes ready at once."""
        while True:
            try:
                await node.start()
                is_ready = await node.wait_ready()
                if is_ready:
                    logger.info("node %d is ready", node.node_id)
                if not first_start.done():
                    first_start.set_result(is_ready)
                reason = f"has ended with exit code {await node.wait_ended()}"
            except Exception as error:
                # For example, the disk is full or there are too many processes. A defect ends no keeper either.
                reason = f"could not be started: {error}"
                if not isinstance(error, OSError):
                    logger.error("node %d was not watched to its end", node.node_id, exc_info=error)
                # The process may still run.
                await node.stop()
                if not first_start.done():
                    first_start.set_result(False)
            pause = node.restarts.pause(node.ready_seconds())
            node.state = NodeState.WAITING
            logger.warning("node %d %s; it starts again in %g s", node.node_id, reason, pause)
            await asyncio.sleep(pause)

    async def _release(self, node: NodeChild) -> None:
        """Stops a node on purpose."""
        keeper = self._keepers.pop(node.node_id, None)
        if keeper is not None:
            keeper.cancel()
            await asyncio.gather(keeper, return_exceptions=True)
        await node.stop()
        node.state = NodeState.STOPPED

    async def _stop_all(self) -> None:
        """Stops all brokers at once, then the controller, the first node: brokers hand over leaders through it."""
        brokers = [node for node in self.nodes if "controller" not in node.plan.properties["process.roles"]]
        await asyncio.gather(*(self._release(node) for node in brokers))
        await asyncio.gather(*(self._release(node) for node in self.nodes if node not in brokers))

    async def _wait_in_sync(self) -> None:
        """Returns when all partitions with a replica on this machine are in sync, and all nodes are ready."""
        end = asyncio.get_running_loop().time() + IN_SYNC_SECONDS_MAX
        while True:
            figures = [await self._figure(node, _UNDER_REPLICATED, _OUT_OF_SYNC) for node in self.nodes]
            if not self.unready and all(figure == 0 for figure in figures):
                return
            if asyncio.get_running_loop().time() >= end:
                raise HostError(
                    f"After {IN_SYNC_SECONDS_MAX:.0f} s replicas are still not in sync; nothing more was restarted. "
                    "`ottla topics describe --under-replicated-partitions` names them."
                )
            await asyncio.sleep(_LOOK_SECONDS)

    async def _figure(self, node: NodeChild, *names: str) -> float | None:
        """The sum of some metrics of a node; None if the node does not report all of them."""
        if node.state is not NodeState.READY or node.metrics_url is None:
            return None
        try:
            page = await self._read_page(node.metrics_url)
        except OSError as error:
            logger.info("node %d does not show its metrics: %s", node.node_id, error)
            return None
        sums = [sample_sum(page, name) for name in names]
        return None if None in sums else sum(filter(None, sums))
