"""A failed task whose connector was paused before its automatic restart."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from ottla.connect.control.states import TargetState, TaskId
from ottla.connect.work.engine import TaskEvents, TaskSpec
from tests.unit.connect.test_standalone_answers import Story

TASK = TaskId("lines", 0)


def test_it_starts_paused(tmp_path: Path) -> None:
    starts: list[bool] = []

    def run(_spec: TaskSpec, _events: TaskEvents, *, paused: bool) -> Any:
        starts.append(paused)
        raise RuntimeError("it cannot start")

    async def scenario() -> None:
        story = Story(tmp_path, graceful_ms=60_000)
        engine: Any = story.engine
        engine.run = run
        store = story.connectors._store
        async with asyncio.timeout(60):
            await story.assigned("lines")
            await store.put_target("lines", TargetState.PAUSED)
            await story.reconciler.reconcile()
            local = story.reconciler.local
            await local._restart(local.tasks[TASK])
        await story.reconciler.close()

    asyncio.run(scenario())
    assert starts == [False, True]
