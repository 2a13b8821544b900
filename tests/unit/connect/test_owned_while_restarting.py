"""The work that a worker owns: also while it restarts it, when another worker must not get it, but no deleted work."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from ottla.connect.control.distributed.assignor import Ownership
from ottla.connect.control.states import TaskId
from tests.unit.connect.test_standalone_answers import Story

TASK = TaskId("lines", 0)


@pytest.mark.parametrize("is_requested", [True, False])
def test_a_task_that_stops_to_be_started_again(tmp_path: Path, *, is_requested: bool) -> None:
    async def scenario() -> None:
        story = Story(tmp_path, graceful_ms=60_000)
        store = story.connectors._store
        async with asyncio.timeout(60):
            share = await story.assigned("lines")
            story.engine.may_stop.clear()
            if is_requested:
                restart = asyncio.ensure_future(story.reconciler.restart_task(TASK))
            else:
                await store.put_connector("lines", {**store.state.connectors["lines"], "file": "other"})
                restart = asyncio.ensure_future(story.reconciler.reconcile())
            while TASK in story.reconciler.local.tasks:
                await asyncio.sleep(0)
            # JoinGroup tells the leader this. Work that nobody owns goes to any worker.
            assert story.reconciler.owned() == share
            story.engine.may_stop.set()
            await restart
            assert story.reconciler.owned() == share
        await story.reconciler.close()

    asyncio.run(scenario())


def test_deleted_work_needs_no_other_owner(tmp_path: Path) -> None:
    """The workers would rebalance once more after every deletion to assign the work that was given up."""

    async def scenario() -> None:
        story = Story(tmp_path, graceful_ms=60_000)
        store = story.connectors._store
        async with asyncio.timeout(60):
            await story.assigned("lines")
            await store.remove_connector("lines")
            await story.reconciler.reconcile()
            assert not await story.reconciler.assign(Ownership(), 3, is_leader=False)
        await story.reconciler.close()

    asyncio.run(scenario())
