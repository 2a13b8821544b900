"""Runs this worker's share: starts, stops and replaces connectors and tasks until they match the wanted state.

`reconcile` compares the config topic and the assignment with the running connectors and tasks, and applies the
difference. It runs after every change and is idempotent, so a missed event does no harm. This worker plans the
connectors that are assigned to it. If a plan differs from the stored task configurations, the plan is stored, and every
worker that runs one of those tasks sees the difference in its next `reconcile`.

A failed task stays FAILED, with its trace, until a request or its policy (`tasks.restart.max.attempts`) restarts it. A
connector whose planning failed because a database or the brokers were unavailable stays FAILED until it is planned.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
import traceback
from collections.abc import Callable, Mapping
from typing import Any

from ottla.client.errors import ClientError
from ottla.connect.api import ConnectError, SourceConnector, Task
from ottla.connect.configuration.worker_config import WorkerConfig
from ottla.connect.control.distributed.assignor import Ownership
from ottla.connect.control.local_work import LocalConnector, LocalTask, is_temporary
from ottla.connect.control.states import ConnectorState, RestartRequest, State, TargetState, TaskId, TopicUse
from ottla.connect.control.stores.config import ConfigStore
from ottla.connect.control.stores.status import StatusStore
from ottla.connect.plugins import Plugins
from ottla.connect.work.engine import Engine, TaskSpec
from ottla.model.errors import KafkaError

__all__ = ["Resolver", "Reconciler"]

logger = logging.getLogger(__name__)

_RESTART_PAUSE_MS_MAX = 300_000
# A task that ran for this long gets all of its restart attempts back.
_HEALTHY_SECONDS = 600.0
_PLAN_SECONDS = 5.0
# The interval between attempts to fence the tasks of the previous plan.
_FENCE_SECONDS = 2.0

Resolver = Callable[[Mapping[str, str]], dict[str, str]]


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
        self._worker_id = worker_id
        self._store = store
        self._status = status
        self._plugins = plugins
        self._engine = engine
        self._resolve = resolve
        self._hide = hide
        self._connectors: dict[str, LocalConnector] = {}
        self._tasks: dict[TaskId, LocalTask] = {}
        self._assigned = Ownership()
        self._everything = False
        self._lock = asyncio.Lock()
        self._background: set[asyncio.Task[None]] = set()
        self._closing = False
        self.generation = 0
        self.is_leader = False

    # Assignment.

    def assign_everything(self) -> None:
        """A standalone worker runs all connectors and tasks."""
        self._everything = True
        self.is_leader = True

    async def assign(self, assignment: Ownership, generation: int, *, is_leader: bool) -> bool:
        """Applies an assignment. Returns True if the worker gave up connectors or tasks."""
        self.generation, self.is_leader = generation, is_leader
        given_up = bool(self.owned().connectors - assignment.connectors or self.owned().tasks - assignment.tasks)
        self._assigned = assignment
        await self.reconcile()
        return given_up

    async def lose_everything(self) -> None:
        """Stops everything without a status report: other workers own the work."""
        self._assigned = Ownership()
        self.is_leader = False
        async with self._lock:
            self._connectors.clear()
            tasks, self._tasks = list(self._tasks.values()), {}
            await asyncio.gather(*(self._end(task) for task in tasks))

    async def close(self) -> None:
        """Stops everything and reports UNASSIGNED."""
        self._closing = True
        async with self._lock:
            tasks, self._tasks = list(self._tasks.values()), {}
            await asyncio.gather(*(self._end(task) for task in tasks))
            for task in tasks:
                await self._report(task.id, State.UNASSIGNED, safe=True)
            for name in self._connectors:
                await self._report(name, State.UNASSIGNED, safe=True)
            self._connectors.clear()
        for each in list(self._background):
            each.cancel()
        await asyncio.gather(*self._background, return_exceptions=True)

    def owned(self) -> Ownership:
        return Ownership(frozenset(self._connectors), frozenset(self._tasks))

    def progress(self, task: TaskId) -> dict[str, Any] | None:
        """The progress of a task of this worker."""
        local = self._tasks.get(task)
        return None if local is None or local.running is None else local.running.progress.body()

    def local_tasks(self) -> dict[TaskId, tuple[State, dict[str, Any]]]:
        """The tasks of this worker with their progress, for metrics."""
        found = {}
        for task, local in self._tasks.items():
            state = State.FAILED if local.failed else State.PAUSED if local.paused else State.RUNNING
            found[task] = (state, {} if local.running is None else local.running.progress.body())
        return found

    # Restarts.

    async def restart_connector(self, name: str) -> None:
        async with self._lock:
            self._connectors.pop(name, None)
        await self.reconcile()

    async def restart_task(self, task: TaskId) -> None:
        async with self._lock:
            local = self._tasks.pop(task, None)
            if local is not None:
                await self._report(task, State.RESTARTING)
                await self._end(local)
        await self.reconcile()

    async def restart_parts(self, request: RestartRequest) -> None:
        """Restarts this worker's parts of a connector, as a record of the config topic asks."""
        state = self._status.connector(request.connector)
        if request.connector in self._connectors and _wanted(state, request):
            await self._report(request.connector, State.RESTARTING)
            async with self._lock:
                self._connectors.pop(request.connector, None)
        if request.include_tasks:
            for task in [task for task in self._tasks if task.connector == request.connector]:
                if _wanted(self._status.task(task), request):
                    await self.restart_task(task)
        await self.reconcile()

    # Connectors.

    async def reconcile(self) -> None:
        async with self._lock:
            if self._closing:
                return
            assigned = self._assigned
            if self._everything:
                assigned = Ownership(frozenset(self._store.state.connectors), frozenset(self._store.state.all_tasks()))
            await self._reconcile_connectors(assigned)
            await self._reconcile_tasks(assigned)
            if self.is_leader:
                await self._remove_stale_statuses()

    async def _reconcile_connectors(self, assigned: Ownership) -> None:
        state = self._store.state
        for name in [
            connector
            for connector in self._connectors
            if connector not in assigned.connectors or not state.contains(connector)
        ]:
            del self._connectors[name]
            if state.contains(name):
                await self._report(name, State.UNASSIGNED, safe=True)
        for name in sorted(assigned.connectors):
            if state.contains(name):
                await self._reconcile_connector(name)

    async def _reconcile_connector(self, name: str) -> None:
        config, target = self._store.state.config(name), self._store.state.target(name)
        known = self._connectors.get(name)
        if known is not None and known.config == config and known.target is target:
            due = time.monotonic() - known.planned_at >= _PLAN_SECONDS
            if known.instance is not None and due and not known.planning:
                known.planning = True
                self._later(self._plan(name, known, again=True))
            return
        running = LocalConnector(config, target, planning=True)
        self._connectors[name] = running
        # Planning may query databases, so nothing waits for it.
        self._later(self._plan(name, running, again=False))

    async def _plan(self, name: str, running: LocalConnector, *, again: bool) -> None:
        version = None
        try:
            kind = self._plugins.connector(running.config.get("connector.class", ""))
            version = kind.version
            if running.target is TargetState.STARTED:
                running.instance = running.instance or kind()
                if not again:
                    await self._report(name, State.RUNNING, version=version)
                await self._plan_tasks(name, running, again=again and not running.waiting)
                if running.waiting and self._connectors.get(name) is running:
                    running.waiting = False
                    await self._report(name, State.RUNNING, version=version)
            elif not again:
                state = State.PAUSED if running.target is TargetState.PAUSED else State.STOPPED
                await self._report(name, state, version=version)
        except Exception as error:  # noqa: BLE001 - a plug-in may fail in any way
            if self._connectors.get(name) is not running:
                return
            if is_temporary(error) and running.instance is not None:
                if running.waiting:
                    return
                running.waiting = True
            else:
                running.instance = None
            logger.warning("Connector %s failed: %s", name, self._hide(str(error)))
            await self._report(name, State.FAILED, trace=_trace(error), version=version)
        finally:
            running.planning = False
            running.planned_at = time.monotonic()

    async def _plan_tasks(self, name: str, running: LocalConnector, *, again: bool) -> None:
        assert running.instance is not None
        resolved = self._resolve(running.config)
        if again and not await asyncio.to_thread(running.instance.changed, resolved):
            return
        most = int(resolved.get("tasks.max", "1"))
        plans = await asyncio.to_thread(running.instance.plan, resolved, most)
        if len(plans) > most:
            if resolved.get("tasks.max.enforce", "true").lower() == "true":
                raise ConnectError(f"{name} planned {len(plans)} tasks, but tasks.max is {most}.")
            logger.warning("Connector %s planned %d tasks, but tasks.max is %d", name, len(plans), most)
        configs = [self._stored_form(name, plan, running.config, resolved) for plan in plans]
        stored = self._store.state.tasks.get(name)
        if self._connectors.get(name) is not running or configs == stored:
            return
        if isinstance(running.instance, SourceConnector):
            count = max(len(stored or ()), self._store.state.fencing.get(name, 0))
            if count:
                await self._fence_previous_tasks(name, running, count)
                if self._connectors.get(name) is not running:
                    return
            if count != len(configs):
                await self._store.put_fencing(name, len(configs))
        await self._store.put_tasks(name, configs)

    async def _fence_previous_tasks(self, name: str, running: LocalConnector, count: int) -> None:
        """Fences the tasks of the previous plan, which may still run on other workers, before the new tasks start.

        The plan waits while the cluster is unavailable: tasks of two plans would write records twice.
        """
        ids = [self._transactional_id(TaskId(name, each)) for each in range(count)]
        while self._connectors.get(name) is running:
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

    # Tasks.

    async def _reconcile_tasks(self, assigned: Ownership) -> None:
        state = self._store.state
        wanted = self._wanted_tasks(assigned)
        gone = [local for task, local in self._tasks.items() if wanted.get(task) != local.spec_key]
        for local in gone:
            del self._tasks[local.id]
        await asyncio.gather(*(self._end(local) for local in gone))
        for local in gone:
            if local.id not in wanted and state.task_config(local.id) is not None:
                await self._report(local.id, State.UNASSIGNED, safe=True)
        # The config topic may have changed during the stops. The next reconcile, which is due already, handles it.
        now = self._wanted_tasks(assigned)
        for task in sorted(each for each in wanted if now.get(each) == wanted[each]):
            paused = state.target(task.connector) is TargetState.PAUSED
            known = self._tasks.get(task)
            if known is None:
                self._start(task, wanted[task], paused=paused)
            elif known.paused != paused and known.running is not None and not known.failed:
                known.paused = paused
                (known.running.pause if paused else known.running.resume)()

    def _wanted_tasks(self, assigned: Ownership) -> dict[TaskId, tuple[Any, ...]]:
        """The tasks that should run here, with a key of everything that requires a restart when it changes."""
        state = self._store.state
        wanted: dict[TaskId, tuple[Any, ...]] = {}
        for task in assigned.tasks:
            config = state.task_config(task)
            if config is None or not state.contains(task.connector):
                continue
            if state.target(task.connector) is TargetState.STOPPED:
                continue
            wanted[task] = (
                tuple(sorted(config.items())),
                tuple(sorted(state.config(task.connector).items())),
                len(state.tasks.get(task.connector, ())),
            )
        return wanted

    def _start(self, task: TaskId, key: tuple[Any, ...], *, paused: bool, attempts: int = 0) -> None:
        local = LocalTask(task, key, None, paused, None, attempts=attempts)
        self._tasks[task] = local
        try:
            spec = self._spec(task)
            local.version = spec.connector.version
            local.running = self._engine.run(spec, _Events(self, local), paused=paused)
        except Exception as error:  # noqa: BLE001 - a plug-in may fail in any way
            self._failed(local, _trace(error))

    def _spec(self, task: TaskId) -> TaskSpec:
        state = self._store.state
        given = state.config(task.connector)
        config = self._resolve({**self._config.converter_defaults(given), **given})
        own = state.task_config(task)
        assert own is not None
        settings = self._resolve(own)
        return TaskSpec(
            task=Task(
                connector=task.connector,
                number=task.task,
                config=settings,
                count=len(state.tasks[task.connector]),
            ),
            connector=self._plugins.connector(config["connector.class"]),
            config=config,
            transactional_id=self._transactional_id(task),
            group_id=config.get("consumer.override.group.id", f"connect-{task.connector}"),
        )

    def _transactional_id(self, task: TaskId) -> str:
        return f"{self._config.group_id}-{task.connector}-{task.task}"

    async def _end(self, local: LocalTask) -> None:
        if local.restart is not None:
            local.restart.cancel()
        if local.running is not None and not local.failed:
            await local.running.stop(self._config.settings.integer("task.shutdown.graceful.timeout.ms"))

    async def _remove_stale_statuses(self) -> None:
        """As leader, removes the statuses of deleted connectors and tasks."""
        state = self._store.state
        for name in self._status.connectors():
            if not state.contains(name):
                self._fence_later(name)
                await self._status.reset_topics(name)
                await self._status.remove(name)
                continue
            count = len(state.tasks.get(name, ()))
            extra = [TaskId(name, number) for number in self._status.tasks(name) if number >= count]
            await self._status.remove_tasks(extra)

    def _fence_later(self, name: str) -> None:
        """Aborts open transactions of a deleted connector whose worker is dead, after a grace period.

        Otherwise readers of committed data would wait for the transaction time-out. Living workers stop their tasks
        within the grace period.
        """
        count = max([self._store.state.fencing.get(name, 0), *(number + 1 for number in self._status.tasks(name))])
        ids = [self._transactional_id(TaskId(name, number)) for number in range(count)]
        grace = self._config.settings.integer("task.shutdown.graceful.timeout.ms") / 1000
        if ids:
            asyncio.get_running_loop().call_later(grace, lambda: self._later(self._fence_deleted(name, ids)))

    async def _fence_deleted(self, name: str, transactional_ids: list[str]) -> None:
        # A connector of the same name that was created meanwhile has fenced the old tasks and must not be fenced.
        if not self._closing and not self._store.state.contains(name):
            # If it fails, the transaction time-out aborts them.
            with contextlib.suppress(KafkaError, ClientError):
                await self._engine.fence(transactional_ids)

    # Reports of tasks.

    def _is_current(self, local: LocalTask) -> bool:
        return self._tasks.get(local.id) is local

    def _running(self, local: LocalTask, state: State) -> None:
        if self._is_current(local):
            self._later(self._report(local.id, state, version=local.version))

    def _failed(self, local: LocalTask, trace: str) -> None:
        if not self._is_current(local):
            return
        local.failed = True
        last = trace.strip().splitlines()[-1] if trace.strip() else ""
        logger.warning("Task %s failed: %s", local.id, self._hide(last))
        self._later(self._report(local.id, State.FAILED, trace=trace, version=local.version))
        config = self._store.state.connectors.get(local.id.connector) or {}
        allowed = int(config.get("tasks.restart.max.attempts") or 3)
        first = int(config.get("tasks.restart.backoff.ms") or 10_000)
        if time.monotonic() - local.started_at > _HEALTHY_SECONDS:
            local.attempts = 0
        if allowed < 0 or local.attempts < allowed:
            pause = min(first * 2**local.attempts, _RESTART_PAUSE_MS_MAX) / 1000
            loop = asyncio.get_running_loop()
            local.restart = loop.call_later(pause, lambda: self._later(self._again(local)))

    async def _again(self, local: LocalTask) -> None:
        async with self._lock:
            if self._closing or not self._is_current(local):
                return
            await self._report(local.id, State.RESTARTING, version=local.version)
            if self._wanted_tasks(Ownership(frozenset(), frozenset([local.id]))).get(local.id) != local.spec_key:
                return
            self._start(local.id, local.spec_key, paused=local.paused, attempts=local.attempts + 1)

    def _topic(self, local: LocalTask, topic: str) -> None:
        if self._config.settings.flag("topic.tracking.enable"):
            use = TopicUse(topic, local.id.connector, local.id.task, int(time.time() * 1000))
            self._later(self._status.put_topic(use))

    async def _report(
        self,
        what: str | TaskId,
        state: State,
        *,
        trace: str | None = None,
        version: str | None = None,
        safe: bool = False,
    ) -> None:
        report = ConnectorState(
            state=state,
            worker_id=self._worker_id,
            generation=self.generation,
            trace=None if trace is None else self._hide(trace),
            version=version,
        )
        try:
            await self._status.put(what, report, safe=safe)
        except Exception:
            logger.exception("Reporting %s of %s failed", state.value, what)

    def _later(self, work: Any) -> None:
        task = asyncio.ensure_future(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)


class _Events:
    """The receiver of a task's reports, on the event loop."""

    def __init__(self, reconciler: Reconciler, local: LocalTask) -> None:
        self._reconciler = reconciler
        self._local = local

    def on_running(self) -> None:
        self._reconciler._running(self._local, State.RUNNING)

    def on_paused(self) -> None:
        self._reconciler._running(self._local, State.PAUSED)

    def on_failed(self, trace: str) -> None:
        self._reconciler._failed(self._local, trace)

    def on_topic(self, topic: str) -> None:
        self._reconciler._topic(self._local, topic)


def _wanted(state: ConnectorState | None, request: RestartRequest) -> bool:
    return not request.only_failed or (state is not None and state.state is State.FAILED)


def _trace(error: BaseException) -> str:
    return "".join(traceback.format_exception(error))
