"""`/connectors/{name}/tasks`: configurations, status, progress and restart of tasks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ottla.connect.control.reconciler import Reconciler
from ottla.connect.control.request_errors import not_found
from ottla.connect.control.resources.connectors import Connectors, state_body
from ottla.connect.control.routing import Routing
from ottla.connect.control.states import TaskId
from ottla.connect.control.stores import Stores

__all__ = ["Tasks"]


class Tasks:
    def __init__(
        self,
        stores: Stores,
        *,
        connectors: Connectors,
        routing: Routing,
        reconciler: Reconciler,
        worker_id: str,
        hide: Callable[[str], str],
    ) -> None:
        self._store = stores.config
        self._status = stores.status
        self._connectors = connectors
        self._routing = routing
        self._reconciler = reconciler
        self._worker_id = worker_id
        self._hide = hide

    def configs(self, name: str) -> list[dict[str, Any]]:
        self._connectors.require_known(name)
        state = self._store.state
        return [
            {"id": {"connector": task.connector, "task": task.task}, "config": state.task_config(task)}
            for task in state.task_ids(name)
        ]

    def status(self, task: TaskId) -> dict[str, Any]:
        state = self._status.task(task)
        if state is None:
            raise not_found(f"Task {task} has no status.")
        return {"id": task.task, **state_body(state)}

    def progress(self, task: TaskId) -> dict[str, Any]:
        """The progress of a task of this worker. Raises Elsewhere for a task of another worker."""
        self._require_known(task)
        progress = self._reconciler.progress(task)
        if progress is None:
            self._require_owner(task)
            raise not_found(f"Task {task} is not running.")
        if progress["last_error"] is not None:
            progress["last_error"] = self._hide(progress["last_error"])
        return {"id": task.task, "connector": task.connector, "worker_id": self._worker_id, **progress}

    async def restart(self, task: TaskId) -> None:
        self._connectors.require_known(task.connector)
        self._require_known(task)
        self._require_owner(task)
        await self._reconciler.restart_task(task)

    def _require_known(self, task: TaskId) -> None:
        if self._store.state.task_config(task) is None:
            raise not_found(f"There is no task {task}.")

    def _require_owner(self, task: TaskId) -> None:
        self._routing.require_owner(f"task:{task}", is_here=task in self._reconciler.owned().tasks)
