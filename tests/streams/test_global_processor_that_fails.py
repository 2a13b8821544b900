"""Global processors: an error at the start is the worker's error, and a worker that ends closes them."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ottla.streams import Serdes, Stores, Topology
from ottla.streams.machine.processor import Processor, ProcessorContext
from ottla.streams.runtime.config import ApplicationConfig
from ottla.streams.runtime.global_tables import GlobalTables
from ottla.streams.runtime.identity import WorkerIdentity
from ottla.streams.runtime.local_states import LocalStates
from ottla.streams.runtime.plan import TaskPlan
from ottla.streams.runtime.worker import Worker
from tests.support.streams_workers import config_of, plan_of

TEXT = Serdes.string()


async def do_nothing() -> None:
    pass


class Failing(Processor):
    def init(self, context: ProcessorContext) -> None:
        raise RuntimeError("the database of the processor is gone")


class Cluster:
    def __init__(self) -> None:
        self.is_closed = False

    async def close(self) -> None:
        self.is_closed = True


class Closing(Processor):
    closed = 0

    def close(self) -> None:
        Closing.closed += 1
        raise RuntimeError("the database of the processor is gone")


def planned(tmp_path: Path, processor: type[Processor]) -> tuple[Topology, TaskPlan, ApplicationConfig]:
    topology = Topology()
    topology.add_global_store(Stores.key_value("s", TEXT, TEXT), "source", "in", "p", processor)
    plan = replace(plan_of([]), global_topics=("in",), global_names=tuple(topology.nodes))
    return topology, plan, config_of(tmp_path)


def test_the_error_of_a_global_processor(tmp_path: Path) -> None:
    topology, plan, config = planned(tmp_path, Failing)
    identity = WorkerIdentity(application_id="app", process_id="process", number=0)
    cluster: Any = Cluster()
    worker: Any = Worker(topology, config, plan, identity, LocalStates(None, {}), connect=lambda _: cluster)
    worker._renew_producer = do_nothing
    control: Any = SimpleNamespace(report=lambda _: None, is_stopped=False, is_paused=False, leaves_group=False)
    with pytest.raises(RuntimeError, match="is gone"):
        asyncio.run(worker.run(control))
    assert cluster.is_closed


def test_global_processors_are_closed(tmp_path: Path) -> None:
    topology, plan, config = planned(tmp_path, Closing)
    cluster: Any = Cluster()
    Closing.closed = 0

    async def open_and_close() -> None:
        tables = GlobalTables(topology, config, replace(plan, global_topics=()), cluster)
        await tables.open()
        await tables.close()

    asyncio.run(open_and_close())
    assert Closing.closed == 1


def test_processors_before_one_that_fails_are_closed(tmp_path: Path) -> None:
    topology, plan, config = planned(tmp_path, Closing)
    topology.add_global_store(Stores.key_value("t", TEXT, TEXT), "source of t", "in of t", "q", Failing)
    plan = replace(plan, global_topics=(), global_names=tuple(topology.nodes))
    cluster: Any = Cluster()
    Closing.closed = 0

    async def open_and_close() -> None:
        tables = GlobalTables(topology, config, plan, cluster)
        with pytest.raises(RuntimeError, match="is gone"):
            await tables.open()
        await tables.close()

    asyncio.run(open_and_close())
    assert Closing.closed == 1
