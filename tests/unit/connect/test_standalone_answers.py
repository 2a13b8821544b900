"""A standalone worker answers a creation when the connector has a status, a deletion when its tasks have stopped."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from multidict import MultiDict

from ottla.connect.configuration.worker_config import WorkerConfig
from ottla.connect.control.distributed.assignor import Ownership
from ottla.connect.control.herder import Herder
from ottla.connect.control.reconciler import Reconciler
from ottla.connect.control.request_errors import RequestError
from ottla.connect.control.resources.connectors import Connectors
from ottla.connect.control.resources.plugins import PluginCatalog
from ottla.connect.control.rest.server import RestServer
from ottla.connect.control.routing import Routing
from ottla.connect.control.states import TaskId
from ottla.connect.control.stores import Stores
from ottla.connect.control.stores.config import MemoryConfigStore
from ottla.connect.control.stores.status import MemoryStatusStore
from ottla.connect.work.engine import TaskEvents, TaskSpec
from tests.support.connect_workers import plugins_for_tests, worker_properties


class SlowEngine:
    """Its tasks need some turns of the event loop to stop, and wait until they may."""

    def __init__(self) -> None:
        self.may_stop = asyncio.Event()
        self.may_stop.set()
        # The connectors of the tasks.
        self.started: asyncio.Queue[str] = asyncio.Queue()
        self.stopped: list[str] = []

    def run(self, spec: TaskSpec, events: TaskEvents, *, paused: bool) -> Any:
        assert not paused
        events.on_running()
        self.started.put_nowait(spec.task.connector)

        async def stop(_timeout_ms: int) -> None:
            for _ in range(20):
                await asyncio.sleep(0)
            await self.may_stop.wait()
            self.stopped.append(spec.task.connector)

        return SimpleNamespace(stop=stop)

    async def fence(self, _transactional_ids: list[str]) -> None:
        pass


class Story:
    """The parts of a worker that create, run and delete connectors."""

    def __init__(self, directory: Path, *, graceful_ms: int) -> None:
        self.engine = SlowEngine()
        properties = worker_properties("127.0.0.1:1", directory, task_shutdown_graceful_timeout_ms=str(graceful_ms))
        config, plugins = WorkerConfig(properties, distributed=False), plugins_for_tests()
        unused: Any = None
        stores = Stores(MemoryConfigStore(), MemoryStatusStore(), unused)
        engine: Any = self.engine
        self.reconciler = Reconciler(
            config,
            worker_id="w",
            store=stores.config,
            status=stores.status,
            plugins=plugins,
            engine=engine,
            resolve=dict,
        )
        self.connectors = Connectors(
            stores,
            catalog=PluginCatalog(plugins, config, resolve=dict, hide=str),
            routing=Routing("http://here/", is_distributed=False),
            reconciler=self.reconciler,
        )
        self.herder: Any = Herder.__new__(Herder)
        self.herder.reconciler, self.herder.connectors = self.reconciler, self.connectors
        self.herder.routing, self.herder._group = Routing("http://here/", is_distributed=False), None
        self.herder._reconcile_now = asyncio.Event()
        stores.config.listener = self.herder

    async def create(self, name: str) -> None:
        config = {"name": name, "connector.class": "LineSource", "file": "f", "topic": "t"}
        is_new, _ = await self.connectors.put(name, config, target=None, replace=False)
        assert is_new

    async def assigned(self, name: str) -> Ownership:
        """Creates a connector with one task, and assigns both to this worker, as the leader of a group does."""
        await self.create(name)
        await self.reconciler.assign(Ownership(frozenset([name])), 1, is_leader=False)
        while not self.connectors._store.state.all_tasks():
            await asyncio.sleep(0)
        share = Ownership(frozenset([name]), frozenset([TaskId(name, 0)]))
        await self.reconciler.assign(share, 2, is_leader=False)
        return share

    async def create_and_start(self, name: str) -> None:
        await self.create(name)
        assert await self.engine.started.get() == name

    async def listed(self) -> dict[str, str]:
        """The names and states of `GET /connectors?expand=status`."""
        server: Any = RestServer([])
        server.serve(self.herder)
        answer = await server._list(SimpleNamespace(query=MultiDict(expand="status")))
        return {name: connector["status"]["connector"]["state"] for name, connector in json.loads(answer.body).items()}


@asynccontextmanager
async def standalone(directory: Path, *, graceful_ms: int) -> AsyncIterator[Story]:
    story = Story(directory, graceful_ms=graceful_ms)
    story.reconciler.assign_everything()
    loop = asyncio.ensure_future(story.herder._keep_reconciling())
    try:
        async with asyncio.timeout(60):
            yield story
    finally:
        story.engine.may_stop.set()
        loop.cancel()
        with suppress(asyncio.CancelledError):
            await loop
        await story.reconciler.close()


def test_a_connector_created_after_a_deletion_has_a_status(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with standalone(tmp_path, graceful_ms=60_000) as story:
            for number in range(5):
                first, second = f"first-{number}", f"second-{number}"
                await story.create_and_start(first)
                await story.connectors.delete(first)
                assert story.engine.stopped[-1] == first
                with pytest.raises(RequestError, match="has no status"):
                    story.connectors.status(first)
                await story.create(second)
                assert story.connectors.status(second)["connector"]["state"] == "RUNNING"
                assert await story.listed() == {second: "RUNNING"}
                assert await story.engine.started.get() == second
                await story.connectors.delete(second)

    asyncio.run(scenario())


def test_a_connector_created_during_a_deletion_has_a_status(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with standalone(tmp_path, graceful_ms=60_000) as story:
            await story.create_and_start("first")
            deletion = asyncio.ensure_future(story.connectors.delete("first"))
            while story.connectors.names():
                await asyncio.sleep(0)
            await story.create("second")
            assert await story.listed() == {"second": "RUNNING"}
            await deletion

    asyncio.run(scenario())


def test_no_answer_waits_longer_than_the_graceful_time_out(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with standalone(tmp_path, graceful_ms=50) as story:
            await story.create_and_start("first")
            story.engine.may_stop.clear()
            await story.connectors.delete("first")
            assert story.connectors.names() == []
            await story.create("second")
            assert await story.listed() == {"second": "UNASSIGNED"}
            assert story.engine.stopped == []
            story.engine.may_stop.set()
            assert await story.engine.started.get() == "second"
            assert story.engine.stopped == ["first"]
            assert await story.listed() == {"second": "RUNNING"}

    asyncio.run(scenario())


def test_a_connector_that_cannot_be_planned_is_answered_too(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with standalone(tmp_path, graceful_ms=60_000) as story:
            without_plugins: Any = SimpleNamespace()
            story.reconciler.planner._plugins = without_plugins
            await story.create("broken")
            assert await story.listed() == {"broken": "FAILED"}

    asyncio.run(scenario())


def test_a_worker_of_a_group_does_not_wait(tmp_path: Path) -> None:
    async def scenario() -> None:
        story = Story(tmp_path, graceful_ms=600_000)
        async with asyncio.timeout(60), story.reconciler._lock:
            await story.create("elsewhere")
            await story.connectors.delete("elsewhere")

    asyncio.run(scenario())
