"""What can be asked of a Connect cluster through one of its workers: every request of the REST interface is a method
here.

A `Herder` is a worker's head. Under it are the stores, which hold what the whole cluster knows, the `Reconciler`, which
makes this worker do its share, and, in distributed mode, the membership in the group. Changes are decided by the leader
alone: asked elsewhere, they raise `Elsewhere` with the leader's address and the REST interface passes them on. Reading
is answered by every worker from what it has read of the topics.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from ottla.client.cluster import Cluster
from ottla.connect.api import ConnectError, Connector, SinkConnector
from ottla.connect.configuration.connector_config import (
    connector_definitions,
    definition_body,
    validate_connector,
    validation_body,
)
from ottla.connect.configuration.worker_config import WorkerConfig
from ottla.connect.control.distributed.group import GroupSettings, Membership, WorkerGroup
from ottla.connect.control.loggers import Loggers
from ottla.connect.control.offsets_admin import alter_offsets, describe_offsets, reset_offsets
from ottla.connect.control.reconciler import Reconciler, Resolver
from ottla.connect.control.request_errors import Elsewhere, bad_request, conflict, not_found
from ottla.connect.control.states import ConfigState, ConnectorState, RestartRequest, State, TargetState, TaskId
from ottla.connect.control.stores.config import ConfigStore
from ottla.connect.control.stores.status import StatusStore
from ottla.connect.plugins import Plugins
from ottla.connect.work.engine import Engine
from ottla.connect.work.source_offsets import OffsetStore

__all__ = ["Herder"]

logger = logging.getLogger(__name__)

# How often everything is looked at again although nothing has happened.
_RECONCILE_SECONDS = 5.0


class Herder:
    def __init__(
        self,
        config: WorkerConfig,
        *,
        url: str,
        store: ConfigStore,
        status: StatusStore,
        offsets: OffsetStore,
        plugins: Plugins,
        engine: Engine,
        resolve: Resolver,
        hide: Callable[[str], str],
        cluster: Cluster,
    ) -> None:
        self.config = config
        self.url = url
        self.plugins = plugins
        self.loggers = Loggers()
        self.offsets = offsets
        self.cluster = cluster
        self._store = store
        self._status = status
        self._engine = engine
        self.resolve = resolve
        self.hide = hide
        self.worker_id = url.removeprefix("http://").rstrip("/")
        self.reconciler = Reconciler(
            config,
            worker_id=self.worker_id,
            store=store,
            status=status,
            plugins=plugins,
            engine=engine,
            resolve=resolve,
            hide=hide,
        )
        self._kick = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._restarts: set[asyncio.Task[None]] = set()
        self._group: WorkerGroup | None = None
        self._membership: Membership | None = None
        self.ready = asyncio.Event()
        # Changes of connectors are decided one after the other: each by what the one before it left.
        self._changing = asyncio.Lock()
        self.cluster_id = ""

    # Life.

    async def start(self) -> None:
        """Reads the stores and begins to work; returns when requests can be answered."""
        # Spark takes seconds to start, in which the topics are read.
        engine = asyncio.ensure_future(self._engine.start())
        try:
            metadata = await self.cluster.refresh([])
            self.cluster_id = metadata.cluster_id or ""
            await asyncio.gather(self._status.start(), self.offsets.start(), self._store.start())
            self._store.listener = self
        finally:
            await engine
        if self.config.distributed:
            settings = self.config.settings
            self._group = WorkerGroup(
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
            self._tasks.append(asyncio.ensure_future(self._group.run()))
        else:
            self.reconciler.assign_everything()
            self.ready.set()
        self._tasks.append(asyncio.ensure_future(self._keep_reconciling()))

    async def stop(self) -> None:
        """Stops all work here and tells the group, so that others take over at once."""
        for task in self._tasks:
            task.cancel()
        for task in self._tasks:
            with suppress(asyncio.CancelledError):
                await task
        for restart in list(self._restarts):
            restart.cancel()
        await self.reconciler.close()
        if self._group is not None:
            await self._group.leave()
        await self._engine.stop()
        for store in (self._store, self._status, self.offsets):
            await store.stop()
        await self.cluster.close()

    async def wait_until_ready(self, seconds: float) -> None:
        """Waits for the group to have divided its work, but not for ever."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self.ready.wait()

    async def _keep_reconciling(self) -> None:
        while True:
            self._kick.clear()
            try:
                await self.reconciler.reconcile()
            except Exception:
                logger.exception("what runs here could not be brought to what should run")
            with suppress(TimeoutError):
                async with asyncio.timeout(_RECONCILE_SECONDS):
                    await self._kick.wait()

    async def _refreshed(self) -> ConfigState:
        await self._store.refresh(self.config.settings.integer("rebalance.timeout.ms"))
        return self._store.state

    async def _on_assigned(self, membership: Membership) -> bool:
        self._membership = membership
        if self._store.state.offset < membership.config_offset:
            await self._refreshed()
            if self._membership is not membership:
                # The group has gone on without this worker meanwhile: what it was given is others' now.
                return False
        given_up = await self.reconciler.assign(
            membership.assignment, membership.generation, is_leader=membership.is_leader
        )
        logger.info(
            "generation %d: %d connectors and %d tasks here, the leader is %s",
            membership.generation,
            len(membership.assignment.connectors),
            len(membership.assignment.tasks),
            membership.leader_url,
        )
        self.ready.set()
        self._divide_again_if_needed()
        return given_up

    async def _on_lost(self) -> None:
        logger.warning("the group has gone on without this worker; everything here stops")
        self._membership = None
        self.ready.clear()
        await self.reconciler.lose_everything()

    # What the config topic says.

    def on_change(self, connector: str) -> None:
        del connector
        self._kick.set()
        self._divide_again_if_needed()

    def _divide_again_if_needed(self) -> None:
        """The leader calls everybody together when there is other work than what was divided last."""
        membership = self._membership
        if self._group is not None and membership is not None and membership.is_leader:
            state = self._store.state
            if self._group.divided_work != (frozenset(state.connectors), frozenset(state.all_tasks())):
                self._group.request_rejoin()

    def on_restart(self, request: RestartRequest) -> None:
        task = asyncio.ensure_future(self.reconciler.restart_parts(request))
        self._restarts.add(task)
        task.add_done_callback(self._restarts.discard)

    def on_logger(self, name: str, level: str) -> None:
        self.loggers.set(name, level)

    def _require_known(self, name: str) -> None:
        if not self._store.state.contains(name):
            raise not_found(f"There is no connector {name}.")

    def _require_leader(self) -> None:
        if self._group is None:
            return
        if self._membership is None:
            raise Elsewhere(None)
        if not self._membership.is_leader:
            raise Elsewhere(self._membership.leader_url)

    def _require_owner(self, key: str, *, is_here: bool) -> None:
        """Passes the request to whoever runs something: the leader knows who, the others ask the leader."""
        if is_here or self._group is None:
            return
        self._require_leader()
        assert self._membership is not None
        url = self._membership.owners.get(key)
        if url is None or url == self.url:
            raise conflict("Work is being divided among the workers at the moment; try again soon.")
        raise Elsewhere(url)

    # Reading.

    def connectors(self) -> list[str]:
        return sorted(self._store.state.connectors)

    def connector_type(self, name: str) -> str:
        config = self._store.state.connectors.get(name) or {}
        try:
            kind = self.plugins.connector(config.get("connector.class") or "")
        except ConnectError:
            return "unknown"
        return "sink" if issubclass(kind, SinkConnector) else "source"

    def connector_info(self, name: str) -> dict[str, Any]:
        self._require_known(name)
        state = self._store.state
        return {
            "name": name,
            "config": dict(state.connectors[name]),
            "tasks": [{"connector": task.connector, "task": task.task} for task in state.task_ids(name)],
            "type": self.connector_type(name),
        }

    def connector_config(self, name: str) -> dict[str, str | None]:
        self._require_known(name)
        return dict(self._store.state.connectors[name])

    def connector_status(self, name: str) -> dict[str, Any]:
        state = self._status.connector(name)
        if state is None:
            raise not_found(f"Nothing is known of a connector {name}.")
        return self._status_body(name, state, self._status.tasks(name))

    def task_status(self, task: TaskId) -> dict[str, Any]:
        state = self._status.task(task)
        if state is None:
            raise not_found(f"Nothing is known of a task {task}.")
        return {"id": task.task, **_state_body(state)}

    def task_configs(self, name: str) -> list[dict[str, Any]]:
        self._require_known(name)
        return [
            {"id": {"connector": task.connector, "task": task.task}, "config": self._store.state.task_config(task)}
            for task in self._store.state.task_ids(name)
        ]

    def task_progress(self, task: TaskId) -> dict[str, Any]:
        """Of a task that runs here; passed on otherwise."""
        if self._store.state.task_config(task) is None:
            raise not_found(f"There is no task {task}.")
        found = self.reconciler.progress(task)
        if found is None:
            self._require_owner(f"task:{task}", is_here=task in self.reconciler.owned().tasks)
            raise not_found(f"Task {task} is not running.")
        if found["last_error"] is not None:
            found["last_error"] = self.hide(found["last_error"])
        return {"id": task.task, "connector": task.connector, "worker_id": self.worker_id, **found}

    def active_topics(self, name: str) -> dict[str, Any]:
        return {name: {"topics": self._status.topics(name)}}

    def _status_body(self, name: str, state: ConnectorState, tasks: Mapping[int, ConnectorState]) -> dict[str, Any]:
        return {
            "name": name,
            "connector": _state_body(state),
            "tasks": [{"id": number, **_state_body(task)} for number, task in sorted(tasks.items())],
            "type": self.connector_type(name),
        }

    # Changing.

    async def validate(self, config: Mapping[str, str | None]) -> dict[str, Any]:
        """Every setting with what is wrong; raises ConnectError where there is no such connector."""
        resolved = self._resolved(config)
        found = await asyncio.to_thread(validate_connector, resolved, self.plugins, self.config.converter_defaults())
        body = validation_body(*found)
        _hide_resolved(body, config, self.hide)
        return body

    async def put_connector(
        self, name: str, config: Mapping[str, str | None], *, target: TargetState | None, replace: bool
    ) -> tuple[bool, dict[str, Any]]:
        """Creates or reconfigures a connector; whether it is new, and what it is now."""
        self._require_leader()
        await self._require_valid(config)
        async with self._changing:
            return await self._put_connector(name, config, target=target, replace=replace)

    async def _require_valid(self, config: Mapping[str, str | None]) -> None:
        try:
            body = await self.validate(config)
        except ConnectError as error:
            raise bad_request(str(error)) from None
        _refuse_invalid(body)

    async def _put_connector(
        self, name: str, config: Mapping[str, str | None], *, target: TargetState | None, replace: bool
    ) -> tuple[bool, dict[str, Any]]:
        # Others may have become the leader while it was checked.
        self._require_leader()
        exists = self._store.state.contains(name)
        if exists and not replace:
            raise conflict(f"There is a connector {name} already.")
        kind = self.plugins.connector(config["connector.class"] or "")
        if exists and self.connector_type(name) not in (
            "unknown",
            "sink" if issubclass(kind, SinkConnector) else "source",
        ):
            raise bad_request(f"{name} is a {self.connector_type(name)} and cannot become another kind of connector.")
        tasks = self._store.state.task_ids(name)
        await self._store.put_connector(name, config, target)
        info = self.connector_info(name)
        info["config"] = dict(config)
        info["tasks"] = [{"connector": task.connector, "task": task.task} for task in tasks]
        return not exists, info

    async def patch_connector(self, name: str, patch: Mapping[str, str | None]) -> dict[str, Any]:
        """Changes some settings (KIP-477 and KIP-883): null removes one."""
        self._require_leader()
        while True:
            self._require_known(name)
            before = dict(self._store.state.connectors[name])
            config = {key: text for key, text in {**before, **patch}.items() if patch.get(key, "") is not None}
            await self._require_valid(config)
            async with self._changing:
                # Nobody has changed it while this was checked, or it is looked at anew.
                if self._store.state.connectors.get(name) == before:
                    _, info = await self._put_connector(name, config, target=None, replace=True)
                    return info

    async def delete_connector(self, name: str) -> None:
        self._require_leader()
        async with self._changing:
            self._require_known(name)
            await self._store.remove_connector(name)

    async def set_target(self, name: str, target: TargetState) -> None:
        """Pauses or resumes; every worker may say so."""
        self._require_known(name)
        await self._store.put_target(name, target)

    async def stop_connector(self, name: str) -> None:
        """Stops it, and forgets its tasks until it is resumed."""
        self._require_leader()
        async with self._changing:
            self._require_known(name)
            await self._store.put_tasks(name, [])
            await self._store.put_target(name, TargetState.STOPPED)

    # Restarting.

    async def restart_connector(self, name: str) -> None:
        self._require_known(name)
        self._require_owner(name, is_here=name in self.reconciler.owned().connectors)
        await self.reconciler.restart_connector(name)

    async def restart_task(self, task: TaskId) -> None:
        self._require_known(task.connector)
        if self._store.state.task_config(task) is None:
            raise not_found(f"There is no task {task}.")
        self._require_owner(f"task:{task}", is_here=task in self.reconciler.owned().tasks)
        await self.reconciler.restart_task(task)

    async def restart_parts(self, request: RestartRequest) -> dict[str, Any]:
        """Asks every worker to restart its parts, and answers with what will be."""
        self._require_leader()
        self._require_known(request.connector)
        state = self._status.connector(request.connector)
        if state is None:
            raise not_found(f"Nothing is known of a connector {request.connector} yet.")
        body = self._status_body(request.connector, state, self._status.tasks(request.connector))
        if not request.only_failed or state.state is State.FAILED:
            body["connector"]["state"] = State.RESTARTING.value
        for task in body["tasks"] if request.include_tasks else ():
            if not request.only_failed or task["state"] == State.FAILED.value:
                task["state"] = State.RESTARTING.value
        await self._store.put_restart(request)
        return body

    # Offsets.

    async def describe_offsets(self, name: str) -> dict[str, Any]:
        self._require_known(name)
        return await describe_offsets(self, name, is_sink=self.connector_type(name) == "sink")

    async def alter_offsets(self, name: str, offsets: list[dict[str, Any]]) -> dict[str, Any]:
        self._require_stopped(name)
        return await alter_offsets(self, name, offsets, is_sink=self.connector_type(name) == "sink")

    async def reset_offsets(self, name: str) -> dict[str, Any]:
        self._require_stopped(name)
        return await reset_offsets(self, name, is_sink=self.connector_type(name) == "sink")

    def _require_stopped(self, name: str) -> None:
        self._require_leader()
        self._require_known(name)
        state = self._store.state
        if state.target(name) is not TargetState.STOPPED or state.tasks.get(name):
            raise bad_request(f"The offsets of {name} can be changed when it is stopped: PUT /connectors/{name}/stop.")

    def resolved_config(self, name: str) -> dict[str, str]:
        return self.resolve(self._store.state.config(name))

    # Topics, plug-ins, loggers.

    async def reset_topics(self, name: str) -> None:
        await self._status.reset_topics(name)

    def plugin_list(self, *, connectors_only: bool) -> list[dict[str, str]]:
        return [
            {"class": one.name, "type": one.kind, "version": one.version}
            for one in self.plugins.all()
            if not connectors_only or one.kind in ("sink", "source")
        ]

    def plugin_config(self, name: str) -> list[dict[str, Any]]:
        try:
            plugin = self.plugins.any(name)
        except ConnectError as error:
            raise not_found(str(error)) from None
        definitions = plugin.config_definitions()
        if issubclass(plugin, Connector):
            # Its own first, then those that every connector has.
            definitions = definitions.joined(connector_definitions(plugin, self.plugins))
        return [definition_body(each) for each in definitions if not each.internal]

    async def set_cluster_logger(self, name: str, level: str) -> None:
        await self._store.put_logger(name, level)

    def _resolved(self, config: Mapping[str, str | None]) -> dict[str, str | None]:
        given = {key: text for key, text in config.items() if text is not None}
        return {**config, **self.resolve(given)}


def _state_body(state: ConnectorState) -> dict[str, Any]:
    body: dict[str, Any] = {"state": state.state.value, "worker_id": state.worker_id, "version": state.version}
    if state.trace is not None:
        body["trace"] = state.trace
    return body


def _hide_resolved(body: dict[str, Any], config: Mapping[str, str | None], hide: Callable[[str], str]) -> None:
    """A value that came from a provider is shown as its reference, and is in no complaint about it."""
    for each in body["configs"]:
        value = each["value"]
        value["errors"] = [hide(error) for error in value["errors"]]
        given = config.get(value["name"])
        if given is not None and "${" in given:
            value["value"] = given


def _refuse_invalid(body: dict[str, Any]) -> None:
    errors = [error for each in body["configs"] for error in each["value"]["errors"]]
    if errors:
        raise bad_request(
            f"The configuration has {len(errors)} error(s):\n"
            + "\n".join(errors)
            + "\nPUT /connector-plugins/<connector>/config/validate lists them setting by setting."
        )
