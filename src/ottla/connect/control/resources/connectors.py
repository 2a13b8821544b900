"""`/connectors`: configuration, status, target state and restart of connectors.

Reads are answered from this worker's copy of the config and status topics. The leader alone creates, changes and
deletes connectors.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from ottla.connect.control.reconciler import Reconciler
from ottla.connect.control.request_errors import bad_request, conflict, not_found
from ottla.connect.control.resources.plugins import PluginCatalog
from ottla.connect.control.routing import Routing
from ottla.connect.control.states import ConnectorState, RestartRequest, State, TargetState, TaskId
from ottla.connect.control.stores import Stores

__all__ = ["Connectors", "state_body"]


class Connectors:
    def __init__(
        self,
        stores: Stores,
        *,
        catalog: PluginCatalog,
        routing: Routing,
        reconciler: Reconciler,
    ) -> None:
        self._store = stores.config
        self._status = stores.status
        self._catalog = catalog
        self._routing = routing
        self._reconciler = reconciler
        # Changes are made one at a time, because a change depends on the result of the previous change.
        self._changing = asyncio.Lock()

    def require_known(self, name: str) -> None:
        if not self._store.state.contains(name):
            raise not_found(f"There is no connector {name}.")

    # Reads.

    def names(self) -> list[str]:
        return sorted(self._store.state.connectors)

    def type(self, name: str) -> str:
        """`source`, `sink` or `unknown`."""
        config = self._store.state.connectors.get(name) or {}
        return self._catalog.connector_type(config.get("connector.class"))

    def info(self, name: str) -> dict[str, Any]:
        self.require_known(name)
        state = self._store.state
        return {
            "name": name,
            "config": dict(state.connectors[name]),
            "tasks": _task_bodies(state.task_ids(name)),
            "type": self.type(name),
        }

    def config(self, name: str) -> dict[str, str | None]:
        self.require_known(name)
        return dict(self._store.state.connectors[name])

    def status(self, name: str) -> dict[str, Any]:
        state = self._status.connector(name)
        if state is None:
            raise not_found(f"Connector {name} has no status.")
        tasks = sorted(self._status.tasks(name).items())
        return {
            "name": name,
            "connector": state_body(state),
            "tasks": [{"id": number, **state_body(task)} for number, task in tasks],
            "type": self.type(name),
        }

    # Changes.

    async def put(
        self, name: str, config: Mapping[str, str | None], *, target: TargetState | None, replace: bool
    ) -> tuple[bool, dict[str, Any]]:
        """Creates or reconfigures a connector. Answers with True if it is new, and with its info."""
        self._routing.require_leader()
        await self._catalog.require_valid(config)
        async with self._changing:
            created, info = await self._put(name, config, target=target, replace=replace)
        if created:
            await self._reconciler.settle(name)
        return created, info

    async def _put(
        self, name: str, config: Mapping[str, str | None], *, target: TargetState | None, replace: bool
    ) -> tuple[bool, dict[str, Any]]:
        # Leadership may have moved during the validation.
        self._routing.require_leader()
        exists = self._store.state.contains(name)
        if exists and not replace:
            raise conflict(f"There is a connector {name} already.")
        new_type = self._catalog.connector_type(config["connector.class"])
        if exists and self.type(name) not in ("unknown", new_type):
            raise bad_request(f"{name} is a {self.type(name)} and cannot become a {new_type}.")
        tasks = self._store.state.task_ids(name)
        await self._store.put_connector(name, config, target)
        return not exists, {**self.info(name), "config": dict(config), "tasks": _task_bodies(tasks)}

    async def patch(self, name: str, patch: Mapping[str, str | None]) -> dict[str, Any]:
        """Changes some settings (KIP-477 and KIP-883): null removes a setting."""
        self._routing.require_leader()
        while True:
            before = self.config(name)
            config = {key: text for key, text in {**before, **patch}.items() if patch.get(key, "") is not None}
            await self._catalog.require_valid(config)
            async with self._changing:
                # The patch is applied again if another request changed the configuration during the validation.
                if self._store.state.connectors.get(name) == before:
                    _, info = await self._put(name, config, target=None, replace=True)
                    return info

    async def delete(self, name: str) -> None:
        self._routing.require_leader()
        async with self._changing:
            self.require_known(name)
            await self._store.remove_connector(name)
        await self._reconciler.settle(name)

    async def pause(self, name: str) -> None:
        await self._put_target(name, TargetState.PAUSED)

    async def resume(self, name: str) -> None:
        await self._put_target(name, TargetState.STARTED)

    async def _put_target(self, name: str, target: TargetState) -> None:
        # Every worker may write a target state to the config topic.
        self.require_known(name)
        await self._store.put_target(name, target)

    async def stop(self, name: str) -> None:
        """Stops a connector and removes its tasks; resuming plans them again."""
        self._routing.require_leader()
        async with self._changing:
            self.require_known(name)
            await self._store.put_tasks(name, [])
            await self._store.put_target(name, TargetState.STOPPED)

    # Restarts.

    async def restart(self, name: str) -> None:
        self.require_known(name)
        self._routing.require_owner(name, is_here=name in self._reconciler.owned().connectors)
        await self._reconciler.restart_connector(name)

    async def restart_parts(self, request: RestartRequest) -> dict[str, Any]:
        """Asks every worker to restart its parts of a connector (KIP-745). Answers with the expected status."""
        self._routing.require_leader()
        self.require_known(request.connector)
        body = self.status(request.connector)
        parts = [body["connector"], *(body["tasks"] if request.include_tasks else ())]
        for part in parts:
            if not request.only_failed or part["state"] == State.FAILED.value:
                part["state"] = State.RESTARTING.value
        await self._store.put_restart(request)
        return body


def state_body(state: ConnectorState) -> dict[str, Any]:
    """The state of a connector or task as REST shows it."""
    body: dict[str, Any] = {"state": state.state.value, "worker_id": state.worker_id, "version": state.version}
    if state.trace is not None:
        body["trace"] = state.trace
    return body


def _task_bodies(tasks: list[TaskId]) -> list[dict[str, Any]]:
    return [{"connector": task.connector, "task": task.task} for task in tasks]
