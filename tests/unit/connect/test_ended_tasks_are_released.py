"""An engine keeps no task that has ended and that no worker has any more."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import Mapping
from typing import Any

import pytest

from ottla.connect.api import ReadLimit, SourceConnector, Task
from ottla.connect.configuration.worker_config import WorkerConfig
from ottla.connect.work import spark_engine
from ottla.connect.work.engine import TaskSpec
from ottla.connect.work.spark_engine import SparkEngine
from ottla.connect.work.task_loop import TaskLoop
from tests.support.connect_workers import worker_properties


class Idle(TaskLoop):
    def open(self) -> None:
        pass

    def batch(self, limit: ReadLimit) -> bool:
        del limit
        return False

    def close(self) -> None:
        pass

    def cancel(self) -> None:
        pass


class Events:
    def on_running(self) -> None:
        pass

    on_paused = on_running


class Source(SourceConnector):
    def plan(self, config: Mapping[str, str], max_tasks: int) -> list[dict[str, str]]:
        return [dict(config)] * max_tasks

    def worker(self, task: Task, transactional_id: str) -> Any:
        del task, transactional_id


def test_tasks_of_deleted_connectors(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark_engine, "OwnTask", Idle)

    async def scenario() -> None:
        anything: Any = object()
        config = WorkerConfig(worker_properties("127.0.0.1:1", tmp_path), distributed=False)
        engine = SparkEngine(config, anything, anything, anything, spark=anything)
        tasks: list[weakref.ref[Any]] = []
        events: Any = Events()
        for number in range(3):
            name = f"connector-{number}"
            spec = TaskSpec(
                task=Task(connector=name, number=0, config={}, count=1),
                connector=Source,
                config={},
                transactional_id=name,
                group_id=name,
            )
            task: Any = engine.run(spec, events, paused=False)
            await task.stop(60_000)
            await asyncio.to_thread(task._thread.join)
            tasks.append(weakref.ref(task))
        del task
        await asyncio.sleep(0)
        gc.collect()
        assert [reference() for reference in tasks] == [None] * 3

    asyncio.run(scenario())
