"""A connector that is created again unchanged, or resumed, before its worker noticed the end, gets its tasks again."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from ottla.connect.control import connector_planner, herder
from ottla.connect.control.distributed.assignor import Ownership
from tests.unit.connect.test_standalone_answers import Story, standalone

CONFIG = {"name": "again", "connector.class": "LineSource", "file": "f", "topic": "t"}


@pytest.fixture(autouse=True)
def planned_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connector_planner, "_PLAN_SECONDS", 0.01)
    monkeypatch.setattr(herder, "_RECONCILE_SECONDS", 0.02)


def test_a_standalone_worker_that_was_busy(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with standalone(tmp_path, graceful_ms=50) as story:
            await story.create_and_start("slow")
            await story.create_and_start("again")
            # The tasks of the first connector need longer to stop than an answer waits: the reconciler is busy.
            story.engine.may_stop.clear()
            await story.connectors.delete("slow")
            await story.connectors.delete("again")
            await story.create("again")
            story.engine.may_stop.set()
            assert await story.engine.started.get() == "again"
            assert await story.listed() == {"again": "RUNNING"}

    asyncio.run(scenario())


def test_a_worker_of_a_group_that_reads_both_changes_at_once(tmp_path: Path) -> None:
    async def scenario() -> None:
        story = Story(tmp_path, graceful_ms=60_000)
        store = story.connectors._store

        async def assign_until_planned() -> None:
            while True:
                owned = Ownership(frozenset(store.state.connectors), frozenset(store.state.all_tasks()))
                await story.reconciler.assign(owned, 1, is_leader=False)
                if owned.tasks:
                    return
                await asyncio.sleep(0.01)

        async with asyncio.timeout(60):
            await store.put_connector("again", CONFIG)
            await assign_until_planned()
            assert await story.engine.started.get() == "again"
            await store.remove_connector("again")
            await store.put_connector("again", CONFIG)
            await assign_until_planned()
        await story.reconciler.close()

    asyncio.run(scenario())


def test_a_connector_that_is_stopped_and_resumed_at_once_has_its_tasks(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with standalone(tmp_path, graceful_ms=50) as story:
            await story.create_and_start("slow")
            await story.create_and_start("again")
            # The tasks of the first connector need longer to stop than an answer waits: the reconciler is busy.
            story.engine.may_stop.clear()
            await story.connectors.delete("slow")
            await story.connectors.stop("again")
            await story.connectors.resume("again")
            story.engine.may_stop.set()
            assert await story.engine.started.get() == "again"
            assert await story.listed() == {"again": "RUNNING"}

    asyncio.run(scenario())
