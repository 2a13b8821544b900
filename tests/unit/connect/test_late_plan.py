"""A plan that ends after its connector was stopped or deleted, before the worker has noticed."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from ottla.connect.control.distributed.assignor import Ownership
from tests.unit.connect.test_standalone_answers import Story


@pytest.mark.parametrize("is_deleted", [True, False])
def test_a_late_plan_is_not_stored(tmp_path: Path, *, is_deleted: bool) -> None:
    async def scenario() -> None:
        story = Story(tmp_path, graceful_ms=60_000)
        store = story.connectors._store
        async with asyncio.timeout(60):
            await story.create("lines")
            # Planning runs in the background from here on.
            await story.reconciler.assign(Ownership(frozenset(["lines"])), 1, is_leader=False)
            # The reconciler is busy with a task that takes long to stop.
            async with story.reconciler._lock:
                if is_deleted:
                    await story.connectors.delete("lines")
                else:
                    await story.connectors.stop("lines")
                while story.reconciler.background.tasks:
                    await asyncio.sleep(0)
            assert store.state.task_ids("lines") == []
        await story.reconciler.close()

    asyncio.run(scenario())
