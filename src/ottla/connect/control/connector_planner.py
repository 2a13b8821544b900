"""Plans the connectors that are assigned to this worker: which tasks they have, and with which configurations.

If a plan differs from the stored task configurations, the plan is stored, and every worker that runs one of those tasks
sees the difference in its next reconcile. A connector whose planning failed because a database or the brokers were
unavailable stays FAILED until it is planned.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from ottla.client.errors import ClientError
from ottla.connect.api import ConnectError, Connector, RetriableError, SourceConnector
from ottla.connect.configuration.worker_config import WorkerConfig
from ottla.connect.control.distributed.assignor import Ownership
from ottla.connect.control.local_tasks import Resolver, transactional_id
from ottla.connect.control.reporting import Background, StatusReports
from ottla.connect.control.states import State, TargetState, TaskId
from ottla.connect.control.stores.config import ConfigStore
from ottla.connect.plugins import Plugins
from ottla.connect.work.causes import cause_of, trace_of
from ottla.connect.work.engine import Engine
from ottla.model.errors import KafkaError

__all__ = ["ConnectorPlanner"]

logger = logging.getLogger(__name__)

# The interval of asking a connector whether its tasks have changed.
_PLAN_SECONDS = 5.0
# The interval between attempts to fence the tasks of the previous plan.
_FENCE_SECONDS = 2.0


@dataclass(slots=True)
class LocalConnector:
    """A connector that this worker plans."""

    config: Mapping[str, str]
    target: TargetState
    instance: Connector | None = None
    planning: bool = False
    planned_at: float = 0.0
    # FAILED because of a temporary failure, such as a database that restarts: planning is retried until it succeeds.
    waiting: bool = False


class ConnectorPlanner:
    def __init__(
        self,
        config: WorkerConfig,
        *,
        store: ConfigStore,
        plugins: Plugins,
        engine: Engine,
        resolve: Resolver,
        hide: Callable[[str], str],
        reports: StatusReports,
        background: Background,
    ) -> None:
        self._config = config
        self._store = store
        self._plugins = plugins
        self._engine = engine
        self._resolve = resolve
        self._hide = hide
        self._reports = reports
        self._background = background
        self.connectors: dict[str, LocalConnector] = {}

    async def reconcile(self, assigned: Ownership) -> None:
        state = self._store.state
        for name in [
            connector
            for connector in self.connectors
            if connector not in assigned.connectors or not state.contains(connector)
        ]:
            del self.connectors[name]
            if state.contains(name):
                await self._reports.write(name, State.UNASSIGNED, safe=True)
        for name in sorted(assigned.connectors):
            if state.contains(name):
                await self._reconcile_connector(name)

    async def _reconcile_connector(self, name: str) -> None:
        config, target = self._store.state.config(name), self._store.state.target(name)
        known = self.connectors.get(name)
        if known is not None and known.config == config and known.target is target:
            due = time.monotonic() - known.planned_at >= _PLAN_SECONDS
            if known.instance is not None and due and not known.planning:
                known.planning = True
                self._background.start(self._plan(name, known, again=True))
            return
        running = LocalConnector(config, target, planning=True)
        self.connectors[name] = running
        # Planning may query databases, so nothing waits for it.
        self._background.start(self._plan(name, running, again=False))

    async def _plan(self, name: str, running: LocalConnector, *, again: bool) -> None:
        version = None
        try:
            kind = self._plugins.connector(running.config.get("connector.class", ""))
            version = kind.version
            if running.target is TargetState.STARTED:
                running.instance = running.instance or kind()
                if not again:
                    await self._reports.write(name, State.RUNNING, version=version)
                await self._plan_tasks(name, running, again=again and not running.waiting)
                if running.waiting and self.connectors.get(name) is running:
                    running.waiting = False
                    await self._reports.write(name, State.RUNNING, version=version)
            elif not again:
                state = State.PAUSED if running.target is TargetState.PAUSED else State.STOPPED
                await self._reports.write(name, state, version=version)
        except Exception as error:  # noqa: BLE001 - a plug-in may fail in any way
            if self.connectors.get(name) is not running:
                return
            if is_temporary(error) and running.instance is not None:
                if running.waiting:
                    return
                running.waiting = True
            else:
                running.instance = None
            logger.warning("Connector %s failed: %s", name, self._hide(cause_of(error)))
            await self._reports.write(name, State.FAILED, trace=trace_of(error), version=version)
        finally:
            running.planning = False
            running.planned_at = time.monotonic()

    async def _plan_tasks(self, name: str, running: LocalConnector, *, again: bool) -> None:
        assert running.instance is not None
        resolved = self._resolve(running.config)
        # A connector that was deleted and created again unchanged, or stopped and resumed, has no tasks any more. The
        # reconciler may have noticed neither.
        has_plan = bool(self._store.state.tasks.get(name))
        if again and has_plan and not await asyncio.to_thread(running.instance.changed, resolved):
            return
        most = int(resolved.get("tasks.max", "1"))
        plans = await asyncio.to_thread(running.instance.plan, resolved, most)
        if len(plans) > most:
            if resolved.get("tasks.max.enforce", "true").lower() == "true":
                raise ConnectError(f"{name} planned {len(plans)} tasks, but tasks.max is {most}.")
            logger.warning("Connector %s planned %d tasks, but tasks.max is %d", name, len(plans), most)
        configs = [self._stored_form(name, plan, running.config, resolved) for plan in plans]
        stored = self._store.state.tasks.get(name)
        if not self._is_current(name, running) or configs == stored:
            return
        fenced = self._store.state.fencing.get(name, 0)
        count = max(len(stored or ()), fenced)
        if isinstance(running.instance, SourceConnector):
            if count:
                await self._fence_previous_tasks(name, running, count)
                if not self._is_current(name, running):
                    return
            fenced, count = count, len(configs)
        else:
            # The tasks of earlier plans of a sink are fenced by a change of its offsets, so their number only grows.
            count = max(count, len(configs))
        if count != fenced:
            await self._store.put_fencing(name, count)
            if not self._is_current(name, running):
                return
        await self._store.put_tasks(name, configs)

    def _is_current(self, name: str, running: LocalConnector) -> bool:
        """False if the connector was stopped, reconfigured or deleted, even if the reconciler has not seen it yet."""
        state = self._store.state
        return (
            self.connectors.get(name) is running
            and state.contains(name)
            and state.target(name) is running.target
            and state.config(name) == running.config
        )

    async def _fence_previous_tasks(self, name: str, running: LocalConnector, count: int) -> None:
        """Fences the tasks of the previous plan, which may still run on other workers, before the new tasks start.

        The plan waits while the cluster is unavailable: tasks of two plans would write records twice.
        """
        ids = [transactional_id(self._config, TaskId(name, number)) for number in range(count)]
        while self._is_current(name, running):
            try:
                await self._engine.fence(ids)
            except (KafkaError, ClientError) as error:
                if isinstance(error, KafkaError) and not error.code.retriable:
                    raise
                logger.warning("Fencing the previous tasks of connector %s failed and is tried again: %s", name, error)
                await asyncio.sleep(_FENCE_SECONDS)
            else:
                return

    def _stored_form(
        self, name: str, plan: Mapping[str, str], config: Mapping[str, str], resolved: Mapping[str, str]
    ) -> dict[str, str]:
        """A task's configuration as it is stored: with references instead of secrets."""
        kind = self._plugins.connector(config["connector.class"])
        stored = {
            key: config[key] if key in config and resolved.get(key) == text else text for key, text in plan.items()
        }
        return {**stored, "name": name, "task.class": f"{kind.__module__}.{kind.__qualname__}"}


def is_temporary(error: Exception) -> bool:
    """True for temporary failures of planning: those that a plug-in declares, and unavailable brokers."""
    if isinstance(error, KafkaError):
        return error.code.retriable
    return isinstance(error, RetriableError | ClientError | TimeoutError)
