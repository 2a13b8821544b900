"""A processor whose `close` fails keeps no state directory locked and no member in the group."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ottla.model.ids import TopicPartition
from ottla.streams import Serdes, Stores, Topology
from ottla.streams.machine.processor import Processor
from ottla.streams.machine.task import StreamTask
from ottla.streams.runtime.config import ApplicationConfig
from ottla.streams.runtime.local_states import LocalStates
from ottla.streams.runtime.plan import PlannedTask
from ottla.streams.runtime.task_table import ActiveTask
from tests.support.streams_workers import config_of, worker_with_task

TEXT = Serdes.string()
PLACE = TopicPartition("in", 0)


class Failing(Processor):
    def close(self) -> None:
        raise RuntimeError("the connection of the processor is gone")


class Closing(Processor):
    closed = 0

    def close(self) -> None:
        Closing.closed += 1


async def do_nothing(*_: Any, **__: Any) -> None:
    pass


def planned_topology() -> tuple[Topology, PlannedTask]:
    topology = Topology().add_source("source", "in")
    topology.add_processor("failing", Failing, "source").add_processor("closing", Closing, "source")
    topology.add_state_store(Stores.persistent_key_value_store("s", TEXT, TEXT), "failing")
    names = tuple(topology.nodes)
    return topology, PlannedTask(group=0, partition=0, names=names, topics=("in",), changelogs={"s": "log"})


async def worker_with_state(tmp_path: Path) -> tuple[Any, LocalStates]:
    topology, planned = planned_topology()
    local = LocalStates(tmp_path, {"log": "id"})
    worker, task = worker_with_task(topology, planned, config_of(tmp_path), local=local)
    await local.open(planned, task.stores)
    worker._tasks.add(ActiveTask(planned=planned, task=task, form=None, starts={PLACE: 0}))
    return worker, local


def test_a_worker_that_ends_releases_everything(tmp_path: Path) -> None:
    async def run() -> list[str]:
        worker, local = await worker_with_state(tmp_path)
        closed: list[str] = []

        def part(name: str) -> Any:
            async def close(**_: Any) -> None:
                closed.append(name)

            return SimpleNamespace(close=close)

        worker._standbys, worker._consumer = part("standbys"), part("consumer")
        worker._globals, worker._producer, worker._cluster = part("globals"), part("producer"), part("cluster")
        await worker._close(leaves_group=False)
        assert "0_0" not in local
        return closed

    assert asyncio.run(run()) == ["standbys", "consumer", "globals", "producer", "cluster"]


def test_a_revoked_task_releases_its_state(tmp_path: Path) -> None:
    async def run() -> None:
        worker, local = await worker_with_state(tmp_path)
        await worker.on_revoked([PLACE])
        assert not len(worker._tasks)
        assert "0_0" not in local

    asyncio.run(run())


def test_all_processors_of_a_task_are_closed() -> None:
    topology, planned = planned_topology()
    config = ApplicationConfig.from_properties({"application.id": "app", "bootstrap.servers": "nowhere:1"})
    Closing.closed = 0
    with pytest.raises(RuntimeError, match="is gone"):
        StreamTask(topology, planned.names, config.tasks).close()
    assert Closing.closed == 1
