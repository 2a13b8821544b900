"""Processors are initialized when their stores are restored, and closed if their task never runs."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

import pytest

from ottla.client.admin.groups import CommittedOffset
from ottla.client.admin.offsets import EARLIEST
from ottla.model.ids import TopicPartition
from ottla.streams import Serdes, Stores, Topology
from ottla.streams.machine.processor import Processor, ProcessorContext
from ottla.streams.machine.task import StreamTask
from ottla.streams.runtime import opening
from ottla.streams.runtime.config import ApplicationConfig
from ottla.streams.runtime.local_states import LocalStates
from ottla.streams.runtime.opening import TaskOpener
from ottla.streams.runtime.openings import Openings
from ottla.streams.runtime.plan import PlannedTask
from ottla.streams.runtime.task_table import ActiveTask

TEXT = Serdes.string()
PLACE = TopicPartition("in", 0)


class Total(Processor):
    """Reads its store when it begins, as processors of Kafka Streams do."""

    def __init__(self, log: list[Any]) -> None:
        self._log = log

    def init(self, context: ProcessorContext) -> None:
        super().init(context)
        self._log.append(context.get_state_store("s").get("total"))

    def close(self) -> None:
        self._log.append("closed")


class Offsets:
    def __init__(self, _: Any) -> None:
        pass

    async def find(self, places: dict[TopicPartition, int]) -> dict[TopicPartition, Any]:
        return {place: SimpleNamespace(offset=0 if kind == EARLIEST else 9) for place, kind in places.items()}


class Groups:
    def __init__(self, _: Any) -> None:
        pass

    async def offsets(self, _: str, places: list[TopicPartition], *, stable: bool) -> Any:
        assert stable
        return {place: CommittedOffset(5) for place in places}


async def restore_stores(_: Any, tasks: Iterable[tuple[PlannedTask, StreamTask]], *__: Any) -> int:
    for _, task in tasks:
        task.stores["s"].restore_many([b"total"], [b"41"], [0])
    return 1


class Cluster:
    async def retry(self, call: Any) -> Any:
        return await call()


@pytest.fixture
def log() -> list[Any]:
    return []


@pytest.fixture
def opener(monkeypatch: pytest.MonkeyPatch, log: list[Any]) -> tuple[TaskOpener, PlannedTask, LocalStates]:
    for name, fake in (("Offsets", Offsets), ("Groups", Groups), ("restore_stores", restore_stores)):
        monkeypatch.setattr(opening, name, fake)
    topology = Topology().add_source("source", "in").add_processor("p", lambda: Total(log), "source")
    topology.add_state_store(Stores.key_value("s", TEXT, TEXT), "p")
    config = ApplicationConfig.from_properties({"application.id": "app", "bootstrap.servers": "nowhere:1"})
    planned = PlannedTask(group=0, partition=0, names=tuple(topology.nodes), topics=("in",), changelogs={"s": "log"})
    local = LocalStates(None, {})
    cluster: Any = Cluster()
    return (
        TaskOpener(topology, config, cluster, repartition_topics=(), global_stores={}, local=local),
        planned,
        local,
    )


def test_a_processor_reads_its_restored_store(opener: Any, log: list[Any]) -> None:
    task_opener, planned, _ = opener
    (active,) = asyncio.run(task_opener.open([planned]))
    assert log == ["41"]
    active.task.close()
    assert log == ["41", "closed"]


@pytest.mark.parametrize("is_complete", [False, True], ids=["under way", "complete"])
def test_an_opening_that_is_interrupted_closes_its_processors(
    opener: Any, log: list[Any], is_complete: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    task_opener, planned, local = opener
    reached, never = asyncio.Event(), asyncio.Event()

    async def open_tasks(tasks: list[PlannedTask]) -> list[ActiveTask]:
        opened: list[ActiveTask] = await task_opener.open(tasks)
        reached.set()
        return opened

    async def interrupted() -> None:
        openings = Openings(open_tasks, local, ())
        if not is_complete:

            async def restore(*_: Any) -> int:
                reached.set()
                await never.wait()
                return 0

            monkeypatch.setattr(opening, "restore_stores", restore)
        await openings.start({planned.task_id: planned})
        await reached.wait()
        await asyncio.sleep(0)
        await openings.stop()

    asyncio.run(interrupted())
    assert log == (["41", "closed"] if is_complete else [])
