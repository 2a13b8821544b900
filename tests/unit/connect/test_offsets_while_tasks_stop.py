"""Offsets that are changed while the tasks of the stopped connector still end."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ottla.connect.configuration.worker_config import WorkerConfig
from ottla.connect.control.reconciler import Reconciler
from ottla.connect.control.request_errors import RequestError
from ottla.connect.control.resources.connectors import Connectors
from ottla.connect.control.resources.offsets import ConnectorOffsets
from ottla.connect.control.resources.plugins import PluginCatalog
from ottla.connect.control.routing import Routing
from ottla.connect.control.states import TargetState
from ottla.connect.control.stores import Stores
from ottla.connect.control.stores.config import MemoryConfigStore
from ottla.connect.control.stores.status import MemoryStatusStore
from ottla.connect.work.source_offsets import OffsetStore, offset_record
from tests.support.connect_workers import plugins_for_tests, worker_properties

PARTITION = {"file": "f"}


class MemoryOffsetStore(OffsetStore):
    async def put(self, connector: str, offsets: Any) -> None:
        for partition, offset in offsets:
            self._replay(*offset_record(connector, partition, offset))


class Engine:
    """Has a task on another worker, which commits its last batch unless it is fenced."""

    def __init__(self, store: OffsetStore) -> None:
        self._store = store
        self.fenced: list[str] = []

    async def fence(self, transactional_ids: list[str]) -> None:
        self.fenced += transactional_ids

    async def end_last_batch(self) -> None:
        if "connect-lines-0" not in self.fenced:
            await self._store.put("lines", [(PARTITION, {"position": 900})])


class Story:
    """A connector with a task, which is stopped."""

    def __init__(self, directory: Path) -> None:
        properties = worker_properties("127.0.0.1:1", directory, group_id="connect")
        config, plugins, unused = WorkerConfig(properties, distributed=True), plugins_for_tests(), None
        self.config = config
        self.stores = Stores(MemoryConfigStore(), MemoryStatusStore(), MemoryOffsetStore())
        self.engine: Any = Engine(self.stores.source_offsets)
        routing = Routing("http://here/", is_distributed=False)
        anything: Any = unused
        self.connectors = Connectors(
            self.stores,
            catalog=PluginCatalog(plugins, config, resolve=dict, hide=str),
            routing=routing,
            reconciler=anything,
        )
        self.offsets = ConnectorOffsets(
            self.stores,
            connectors=self.connectors,
            plugins=plugins,
            routing=routing,
            cluster=anything,
            resolve=dict,
            engine=self.engine,
            config=config,
        )

    async def stop(self) -> None:
        config = self.stores.config
        await config.put_connector(
            "lines", {"name": "lines", "connector.class": "LineSource", "file": "f", "topic": "t"}
        )
        await config.put_fencing("lines", 1)
        await config.put_tasks("lines", [{"file": "f"}])
        await self.stores.source_offsets.put("lines", [(PARTITION, {"position": 500})])
        await self.connectors.stop("lines")
        assert config.state.target("lines") is TargetState.STOPPED

    async def change(self, *, is_reset: bool) -> None:
        if is_reset:
            await self.offsets.reset("lines")
        else:
            await self.offsets.alter("lines", [{"partition": PARTITION, "offset": {"position": 7}}])


def test_the_tasks_of_a_sink_before_tasks_max_was_lowered_are_fenced(tmp_path: Path) -> None:
    async def scenario() -> None:
        story = Story(tmp_path)
        planner: Any = Reconciler(
            story.config,
            worker_id="w",
            store=story.stores.config,
            status=story.stores.status,
            plugins=plugins_for_tests(),
            engine=story.engine,
            resolve=dict,
        )
        planner.local.reconcile = lambda _assigned: asyncio.sleep(0)
        planner.assign_everything()
        config = {"name": "sink", "connector.class": "LineSink", "file": "f", "topics": "t"}
        for tasks_max in ("3", "2"):
            await story.stores.config.put_connector("sink", {**config, "tasks.max": tasks_max})
            await planner.reconcile()
            await asyncio.gather(*planner.background.tasks)
            assert len(story.stores.config.state.tasks["sink"]) == int(tasks_max)
        await story.connectors.stop("sink")
        await story.stores.config.put_connector("sink", {**config, "tasks.max": "1"})
        groups: Any = SimpleNamespace(alter_offsets=lambda *_: asyncio.sleep(0, result={}))
        story.offsets._groups = groups
        offset = {"partition": {"kafka_topic": "t", "kafka_partition": 0}, "offset": {"kafka_offset": 7}}
        await story.offsets.alter("sink", [offset])
        assert story.engine.fenced == ["connect-sink-0", "connect-sink-1", "connect-sink-2"]

    asyncio.run(scenario())


@pytest.mark.parametrize("is_reset", [True, False])
def test_the_last_batch_does_not_undo_the_change(tmp_path: Path, *, is_reset: bool) -> None:
    async def scenario() -> None:
        story = Story(tmp_path)
        await story.stop()
        await story.change(is_reset=is_reset)
        await story.engine.end_last_batch()
        expected = None if is_reset else {"position": 7}
        assert story.stores.source_offsets.get("lines", PARTITION) == expected

    asyncio.run(scenario())


@pytest.mark.parametrize("is_reset", [True, False])
def test_a_connector_that_is_resumed_meanwhile_keeps_its_offsets(tmp_path: Path, *, is_reset: bool) -> None:
    async def scenario() -> None:
        story = Story(tmp_path)
        await story.stop()

        async def fence(_transactional_ids: list[str]) -> None:
            await story.connectors.resume("lines")

        story.engine.fence = fence
        with pytest.raises(RequestError, match="when it is stopped"):
            await story.change(is_reset=is_reset)
        assert story.stores.source_offsets.get("lines", PARTITION) == {"position": 500}

    asyncio.run(scenario())
