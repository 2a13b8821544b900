"""The head of a worker: starts and stops it, follows the config topic and the group, and has the resources of REST.

Below a `Herder` are the stores, which hold the state of the whole cluster, the `Reconciler`, which runs this worker's
share, and in distributed mode the membership in the group of workers. The requests of the REST interface are methods
of its resources (`connectors`, `tasks`, `offsets`, `topics`, `plugins`, `loggers`).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress

from ottla.client.cluster import Cluster
from ottla.connect.configuration.worker_config import WorkerConfig
from ottla.connect.control.distributed.group import GroupSettings, Membership, WorkerGroup
from ottla.connect.control.local_tasks import Resolver
from ottla.connect.control.reconciler import Reconciler
from ottla.connect.control.request_errors import RequestError
from ottla.connect.control.resources.connectors import Connectors
from ottla.connect.control.resources.loggers import Loggers
from ottla.connect.control.resources.offsets import ConnectorOffsets
from ottla.connect.control.resources.plugins import PluginCatalog
from ottla.connect.control.resources.tasks import Tasks
from ottla.connect.control.resources.topics import ActiveTopics
from ottla.connect.control.routing import Routing
from ottla.connect.control.states import ConfigState, RestartRequest
from ottla.connect.control.stores import Stores
from ottla.connect.plugins import Plugins
from ottla.connect.work.engine import Engine

__all__ = ["Herder"]

logger = logging.getLogger(__name__)

# The reconciler runs at least this often, also without a change in the config topic or the group.
_RECONCILE_SECONDS = 5.0


class Herder:
    def __init__(
        self,
        config: WorkerConfig,
        *,
        url: str,
        stores: Stores,
        plugins: Plugins,
        engine: Engine,
        resolve: Resolver,
        hide: Callable[[str], str],
        cluster: Cluster,
    ) -> None:
        self.config = config
        self.url = url
        self.cluster = cluster
        self.hide = hide
        self.worker_id = url.partition("://")[2].rstrip("/")
        self._stores = stores
        self._engine = engine
        self.routing = Routing(url, is_distributed=config.distributed)
        self.reconciler = Reconciler(
            config,
            worker_id=self.worker_id,
            store=stores.config,
            status=stores.status,
            plugins=plugins,
            engine=engine,
            resolve=resolve,
            hide=hide,
        )
        self.loggers = Loggers(stores.config)
        self.topics = ActiveTopics(stores.status, config)
        self.plugins = PluginCatalog(plugins, config, resolve=resolve, hide=hide)
        self.connectors = Connectors(stores, catalog=self.plugins, routing=self.routing, reconciler=self.reconciler)
        self.tasks = Tasks(
            stores,
            connectors=self.connectors,
            routing=self.routing,
            reconciler=self.reconciler,
            worker_id=self.worker_id,
            hide=hide,
        )
        self.offsets = ConnectorOffsets(
            stores,
            connectors=self.connectors,
            plugins=plugins,
            routing=self.routing,
            cluster=cluster,
            resolve=resolve,
            engine=engine,
            config=config,
        )
        self._reconcile_now = asyncio.Event()
        # The loops of this worker: the reconciler and, in distributed mode, the group.
        self._loops: list[asyncio.Task[None]] = []
        self._restarts: set[asyncio.Task[None]] = set()
        self._group: WorkerGroup | None = None
        self.ready = asyncio.Event()
        self.cluster_id = ""

    # Start and stop.

    async def start(self) -> None:
        """Reads the stores and begins to work; returns when requests can be answered."""
        bootstrap = self.config.settings.text("bootstrap.servers")
        logger.info("Connecting to the cluster at %s (bootstrap.servers)", bootstrap)
        metadata = await self.cluster.refresh([])
        self.cluster_id = metadata.cluster_id or ""
        logger.info("Connected to the cluster %s with %d brokers", self.cluster_id, len(metadata.brokers))
        await asyncio.gather(*(store.start() for store in self._stores))
        self._stores.config.listener = self
        if self.config.distributed:
            logger.info("Read the stored state: %d connectors", len(self._stores.config.state.connectors))
        # Spark takes seconds to start: by now everything else is known to work.
        await self._engine.start()
        if self.config.distributed:
            self._group = self._make_group()
            self._loops.append(asyncio.ensure_future(self._group.run()))
        else:
            self.reconciler.assign_everything()
            self.ready.set()
        self._loops.append(asyncio.ensure_future(self._keep_reconciling()))

    def _make_group(self) -> WorkerGroup:
        settings = self.config.settings
        return WorkerGroup(
            self.cluster,
            GroupSettings(
                group_id=self.config.group_id,
                session_timeout_ms=settings.integer("session.timeout.ms"),
                rebalance_timeout_ms=settings.integer("rebalance.timeout.ms"),
                heartbeat_interval_ms=settings.integer("heartbeat.interval.ms"),
                lost_delay_ms=settings.integer("scheduled.rebalance.max.delay.ms"),
            ),
            url=self.url,
            refresh=self._refreshed,
            owned=self.reconciler.owned,
            on_assigned=self._on_assigned,
            on_lost=self._on_lost,
        )

    async def stop(self) -> None:
        """Stops all work of this worker and leaves the group, so that other workers take over at once."""
        for loop in self._loops:
            loop.cancel()
        for loop in self._loops:
            with suppress(asyncio.CancelledError):
                await loop
        for restart in list(self._restarts):
            restart.cancel()
        await self.reconciler.close()
        if self._group is not None:
            await self._group.leave()
        await self._engine.stop()
        for store in self._stores:
            await store.stop()
        await self.cluster.close()

    async def wait_until_ready(self, seconds: float) -> None:
        """Waits until this worker has its first assignment, at most `seconds`."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self.ready.wait()

    async def _keep_reconciling(self) -> None:
        while True:
            self._reconcile_now.clear()
            try:
                await self.reconciler.reconcile()
            except Exception:
                logger.exception("Reconciling connectors and tasks failed; it is tried again")
            with suppress(TimeoutError):
                async with asyncio.timeout(_RECONCILE_SECONDS):
                    await self._reconcile_now.wait()

    # Events of the group.

    async def _refreshed(self) -> ConfigState:
        await self._stores.config.refresh(self.config.settings.integer("rebalance.timeout.ms"))
        return self._stores.config.state

    async def _on_assigned(self, membership: Membership) -> bool:
        self.routing.membership = membership
        if self._stores.config.state.offset < membership.config_offset:
            await self._refreshed()
            if self.routing.membership is not membership:
                # The worker lost its membership during the read; the assignment is void.
                return False
        given_up = await self.reconciler.assign(
            membership.assignment, membership.generation, is_leader=membership.is_leader
        )
        if self.routing.membership is not membership:
            # The membership was lost meanwhile. The group joins again when `_on_lost` has ended all work.
            return False
        logger.info(
            "Generation %d: this worker has %d connectors and %d tasks; the leader is %s",
            membership.generation,
            len(membership.assignment.connectors),
            len(membership.assignment.tasks),
            membership.leader_url,
        )
        self.ready.set()
        self._rebalance_if_needed()
        return given_up

    async def _on_lost(self) -> None:
        logger.warning("This worker lost its membership in the group %s; its tasks stop", self.config.group_id)
        self.routing.membership = None
        self.ready.clear()
        await self.reconciler.lose_everything()

    def _rebalance_if_needed(self) -> None:
        """As leader, starts a rebalance if connectors or tasks came or went since the last assignment."""
        membership = self.routing.membership
        if self._group is not None and membership is not None and membership.is_leader:
            state = self._stores.config.state
            if self._group.divided_work != (frozenset(state.connectors), frozenset(state.all_tasks())):
                self._group.request_rejoin()

    # Events of the config topic.

    def on_change(self, connector: str) -> None:
        del connector
        self._reconcile_now.set()
        self._rebalance_if_needed()

    def on_restart(self, request: RestartRequest) -> None:
        task = asyncio.ensure_future(self.reconciler.restart_parts(request))
        self._restarts.add(task)
        task.add_done_callback(self._restarts.discard)

    def on_logger(self, name: str, level: str) -> None:
        try:
            self.loggers.set(name, level)
        except RequestError as error:
            # The record may be of another program: an error would end the reader of the config topic.
            logger.warning("The level of the logger %s is left as it is: %s", name, error)
