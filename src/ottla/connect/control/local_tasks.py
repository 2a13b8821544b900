"""The tasks that run on this worker: starts, stops, pauses, and restarts of failed tasks.

A failed task stays FAILED, with its trace, until a request or its policy (`tasks.restart.max.attempts`) restarts it.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ottla.connect.api import Task
from ottla.connect.configuration.worker_config import WorkerConfig
from ottla.connect.control.distributed.assignor import Ownership
from ottla.connect.control.reporting import Background, StatusReports
from ottla.connect.control.states import State, TargetState, TaskId, TopicUse
from ottla.connect.control.stores.config import ConfigStore
from ottla.connect.control.stores.status import StatusStore
from ottla.connect.plugins import Plugins
from ottla.connect.work.causes import trace_of
from ottla.connect.work.engine import Engine, RunningTask, TaskSpec

__all__ = ["LocalTask", "LocalTasks", "Resolver", "transactional_id"]

logger = logging.getLogger(__name__)

_RESTART_PAUSE_MS_MAX = 300_000
# A task that ran for this long gets all of its restart attempts back.
_HEALTHY_SECONDS = 600.0

# Replaces references in a configuration by their values.
Resolver = Callable[[Mapping[str, str]], dict[str, str]]


@dataclass(slots=True)
class LocalTask:
    id: TaskId
    # Everything that requires a restart of the task when it changes.
    spec_key: tuple[Any, ...]
    running: RunningTask | None
    paused: bool
    version: str | None
    failed: bool = False
    # The task cannot work and keeps trying: its state is FAILED until it works again.
    retrying: bool = False
    attempts: int = 0
    started_at: float = field(default_factory=time.monotonic)
    restart: asyncio.TimerHandle | None = None


class LocalTasks:
    def __init__(
        self,
        config: WorkerConfig,
        *,
        store: ConfigStore,
        status: StatusStore,
        plugins: Plugins,
        engine: Engine,
        resolve: Resolver,
        hide: Callable[[str], str],
        reports: StatusReports,
        background: Background,
        lock: asyncio.Lock,
    ) -> None:
        self._config = config
        self._store = store
        self._status = status
        self._plugins = plugins
        self._engine = engine
        self._resolve = resolve
        self._hide = hide
        self._reports = reports
        self._background = background
        # Held by the reconciler during its changes, and here during an automatic restart.
        self._lock = lock
        self.is_closing = False
        self.tasks: dict[TaskId, LocalTask] = {}

    async def stop_all(self) -> list[LocalTask]:
        """Stops all tasks; returns them."""
        tasks, self.tasks = list(self.tasks.values()), {}
        await asyncio.gather(*(self.stop(task) for task in tasks))
        return tasks

    async def reconcile(self, assigned: Ownership) -> None:
        state = self._store.state
        wanted = self._wanted_tasks(assigned)
        gone = [local for task, local in self.tasks.items() if wanted.get(task) != local.spec_key]
        for local in gone:
            del self.tasks[local.id]
        await asyncio.gather(*(self.stop(local) for local in gone))
        for local in gone:
            if local.id not in wanted and state.task_config(local.id) is not None:
                await self._reports.write(local.id, State.UNASSIGNED, safe=True)
        # The config topic may have changed during the stops. The next reconcile, which is due already, handles it.
        still_wanted = self._wanted_tasks(assigned)
        for task in sorted(task for task in wanted if still_wanted.get(task) == wanted[task]):
            paused = state.target(task.connector) is TargetState.PAUSED
            known = self.tasks.get(task)
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
        self.tasks[task] = local
        try:
            spec = self._spec(task)
            local.version = spec.connector.version
            local.running = self._engine.run(spec, _Events(self, local), paused=paused)
        except Exception as error:  # noqa: BLE001 - a plug-in may fail in any way
            self._failed(local, trace_of(error))

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
            transactional_id=transactional_id(self._config, task),
            group_id=config.get("consumer.override.group.id", f"connect-{task.connector}"),
        )

    async def stop(self, local: LocalTask) -> None:
        if local.restart is not None:
            local.restart.cancel()
        if local.running is not None and not local.failed:
            await local.running.stop(self._config.settings.integer("task.shutdown.graceful.timeout.ms"))

    # Reports of tasks.

    def _is_current(self, local: LocalTask) -> bool:
        return self.tasks.get(local.id) is local

    def _running(self, local: LocalTask, state: State) -> None:
        if self._is_current(local):
            local.retrying = False
            self._background.start(self._reports.write(local.id, state, version=local.version))

    def _retrying(self, local: LocalTask, trace: str) -> None:
        if self._is_current(local) and not local.retrying:
            local.retrying = True
            self._background.start(self._reports.write(local.id, State.FAILED, trace=trace, version=local.version))

    def _failed(self, local: LocalTask, trace: str) -> None:
        if not self._is_current(local):
            return
        local.failed = True
        logger.warning("Task %s failed: %s", local.id, self._hide(trace.partition("\n")[0]))
        logger.debug("The trace of task %s: %s", local.id, self._hide(trace))
        self._background.start(self._reports.write(local.id, State.FAILED, trace=trace, version=local.version))
        config = self._store.state.connectors.get(local.id.connector) or {}
        allowed = int(config.get("tasks.restart.max.attempts") or 3)
        first = int(config.get("tasks.restart.backoff.ms") or 10_000)
        if time.monotonic() - local.started_at > _HEALTHY_SECONDS:
            local.attempts = 0
        if allowed < 0 or local.attempts < allowed:
            pause = min(first * 2**local.attempts, _RESTART_PAUSE_MS_MAX) / 1000
            loop = asyncio.get_running_loop()
            local.restart = loop.call_later(pause, lambda: self._background.start(self._restart(local)))

    async def _restart(self, local: LocalTask) -> None:
        """Restarts a failed task by its restart policy."""
        async with self._lock:
            if self.is_closing or not self._is_current(local):
                return
            await self._reports.write(local.id, State.RESTARTING, version=local.version)
            if self._wanted_tasks(Ownership(frozenset(), frozenset([local.id]))).get(local.id) != local.spec_key:
                return
            # A failed task does not follow pauses of its connector.
            paused = self._store.state.target(local.id.connector) is TargetState.PAUSED
            self._start(local.id, local.spec_key, paused=paused, attempts=local.attempts + 1)

    def _topic(self, local: LocalTask, topic: str) -> None:
        if self._config.settings.flag("topic.tracking.enable"):
            use = TopicUse(topic, local.id.connector, local.id.task, int(time.time() * 1000))
            self._background.start(self._status.put_topic(use))


class _Events:
    """The receiver of a task's reports, on the event loop."""

    def __init__(self, tasks: LocalTasks, local: LocalTask) -> None:
        self._tasks = tasks
        self._local = local

    def on_running(self) -> None:
        self._tasks._running(self._local, State.RUNNING)

    def on_paused(self) -> None:
        self._tasks._running(self._local, State.PAUSED)

    def on_retrying(self, trace: str) -> None:
        self._tasks._retrying(self._local, trace)

    def on_failed(self, trace: str) -> None:
        self._tasks._failed(self._local, trace)

    def on_topic(self, topic: str) -> None:
        self._tasks._topic(self._local, topic)


def transactional_id(config: WorkerConfig, task: TaskId) -> str:
    """A task's transactional id: the same on every worker, so that the latest start fences all earlier starts."""
    return f"{config.group_id}-{task.connector}-{task.task}"
