"""Runs this worker's share: starts, stops and replaces connectors and tasks until they match the wanted state.

`reconcile` compares the config topic and the assignment with the running connectors and tasks, and applies the
difference. It runs after every change and is idempotent, so a missed event does no harm. `ConnectorPlanner` has the
connectors, `LocalTasks` the tasks, `StaleStatuses` the leader's clean-up.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from ottla.connect.configuration.worker_config import WorkerConfig
from ottla.connect.control.connector_planner import ConnectorPlanner
from ottla.connect.control.distributed.assignor import Ownership
from ottla.connect.control.local_tasks import LocalTasks, Resolver
from ottla.connect.control.reporting import Background, StatusReports
from ottla.connect.control.stale_statuses import StaleStatuses
from ottla.connect.control.states import ConnectorState, RestartRequest, State, TaskId
from ottla.connect.control.stores.config import ConfigStore
from ottla.connect.control.stores.status import StatusStore
from ottla.connect.plugins import Plugins
from ottla.connect.work.engine import Engine

__all__ = ["Reconciler"]


class Reconciler:
    def __init__(
        self,
        config: WorkerConfig,
        *,
        worker_id: str,
        store: ConfigStore,
        status: StatusStore,
        plugins: Plugins,
        engine: Engine,
        resolve: Resolver,
        hide: Callable[[str], str] = str,
    ) -> None:
        self._config = config
        self._store = store
        self._status = status
        self._assigned = Ownership()
        self._everything = False
        self._closing = False
        self._lock = asyncio.Lock()
        self.background = Background()
        self._reports = StatusReports(status, worker_id=worker_id, hide=hide)
        self.planner = ConnectorPlanner(
            config,
            store=store,
            plugins=plugins,
            engine=engine,
            resolve=resolve,
            hide=hide,
            reports=self._reports,
            background=self.background,
        )
        self.local = LocalTasks(
            config,
            store=store,
            status=status,
            plugins=plugins,
            engine=engine,
            resolve=resolve,
            hide=hide,
            reports=self._reports,
            background=self.background,
            lock=self._lock,
        )
        self.stale = StaleStatuses(config, store=store, status=status, engine=engine, background=self.background)
        self.is_leader = False

    @property
    def generation(self) -> int:
        return self._reports.generation

    async def reconcile(self) -> None:
        async with self._lock:
            if self._closing:
                return
            assigned = self._assigned
            if self._everything:
                assigned = Ownership(frozenset(self._store.state.connectors), frozenset(self._store.state.all_tasks()))
            await self.planner.reconcile(assigned)
            await self.local.reconcile(assigned)
            if self.is_leader:
                await self.stale.remove()

    async def settle(self, connector: str) -> None:
        """On a standalone worker, returns when a new connector has a status, or the tasks of a deleted one stopped.

        The wait ends at the latest with the graceful time-out of tasks; a connector that has to wait longer for its
        start is UNASSIGNED until then. Workers of a group answer before the change is applied.
        """
        if not self._everything:
            return
        timeout = self._config.settings.integer("task.shutdown.graceful.timeout.ms") / 1000
        # The time-out does not cancel the reconcile, which would leave tasks half stopped. The first step of planning
        # reports a status, and runs before the end of the reconcile is noticed here.
        await asyncio.wait([self.background.start(self.reconcile())], timeout=timeout)
        if self._store.state.contains(connector) and self._status.connector(connector) is None:
            await self._reports.write(connector, State.UNASSIGNED)

    # Assignment.

    def assign_everything(self) -> None:
        """A standalone worker runs all connectors and tasks."""
        self._everything = True
        self.is_leader = True

    async def assign(self, assignment: Ownership, generation: int, *, is_leader: bool) -> bool:
        """Applies an assignment. Returns True if the worker gave up connectors or tasks that need another owner."""
        self._reports.generation, self.is_leader = generation, is_leader
        owned, state = self.owned(), self._store.state
        # Deleted connectors and tasks may still be in the previous assignment; they need no owner.
        given_up = any(state.contains(name) for name in owned.connectors - assignment.connectors) or any(
            state.task_config(task) is not None for task in owned.tasks - assignment.tasks
        )
        self._assigned = assignment
        await self.reconcile()
        return given_up

    async def lose_everything(self) -> None:
        """Stops everything without a status report: other workers own the work."""
        self._assigned = Ownership()
        self.is_leader = False
        async with self._lock:
            self.planner.connectors.clear()
            await self.local.stop_all()

    async def close(self) -> None:
        """Stops everything and reports UNASSIGNED."""
        self._closing = self.local.is_closing = self.stale.is_closing = True
        async with self._lock:
            for task in await self.local.stop_all():
                await self._reports.write(task.id, State.UNASSIGNED, safe=True)
            for name in self.planner.connectors:
                await self._reports.write(name, State.UNASSIGNED, safe=True)
            self.planner.connectors.clear()
        await self.background.cancel()

    def owned(self) -> Ownership:
        """Assigned work, also while it is restarted, and work that this worker still has to give up."""
        return Ownership(
            self._assigned.connectors.union(self.planner.connectors), self._assigned.tasks.union(self.local.tasks)
        )

    def progress(self, task: TaskId) -> dict[str, Any] | None:
        """The progress of a task of this worker."""
        local = self.local.tasks.get(task)
        return None if local is None or local.running is None else local.running.progress.body()

    def local_tasks(self) -> dict[TaskId, tuple[State, dict[str, Any]]]:
        """The tasks of this worker with their progress, for metrics."""
        progress = {}
        for task, local in self.local.tasks.items():
            state = State.FAILED if local.failed or local.retrying else State.PAUSED if local.paused else State.RUNNING
            progress[task] = (state, {} if local.running is None else local.running.progress.body())
        return progress

    # Restarts.

    async def restart_connector(self, name: str) -> None:
        async with self._lock:
            self.planner.connectors.pop(name, None)
        await self.reconcile()

    async def restart_task(self, task: TaskId) -> None:
        async with self._lock:
            local = self.local.tasks.pop(task, None)
            if local is not None:
                await self._reports.write(task, State.RESTARTING)
                await self.local.stop(local)
        await self.reconcile()

    async def restart_parts(self, request: RestartRequest) -> None:
        """Restarts this worker's parts of a connector, as a record of the config topic asks."""
        state = self._status.connector(request.connector)
        if request.connector in self.planner.connectors and _is_selected(state, request):
            await self._reports.write(request.connector, State.RESTARTING)
            async with self._lock:
                self.planner.connectors.pop(request.connector, None)
        if request.include_tasks:
            for task in [task for task in self.local.tasks if task.connector == request.connector]:
                if _is_selected(self._status.task(task), request):
                    await self.restart_task(task)
        await self.reconcile()


def _is_selected(state: ConnectorState | None, request: RestartRequest) -> bool:
    return not request.only_failed or (state is not None and state.state is State.FAILED)
