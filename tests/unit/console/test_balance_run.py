"""The console executes a plan only if no other process does."""

from __future__ import annotations

import asyncio
from pathlib import Path

from ottla.balance.journal import Journal
from ottla.client.settings import ClientSettings, parse_bootstrap
from ottla.console.balance_run import BalanceRun


def test_a_plan_that_another_process_executes_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    journal = Journal(path, "cluster", [], None)
    journal.write()
    nowhere = ClientSettings(bootstrap_servers=parse_bootstrap("127.0.0.1:1"))

    async def scenario() -> dict[str, object]:
        run = BalanceRun(path)
        # As `ottla balance run` has it while it executes the plan.
        with journal.locked():
            run._begin(nowhere, Journal.read(path), None, "alice")
            assert run._task is not None
            await run._task
        return run.progress()

    progress = asyncio.run(scenario())
    assert progress["state"] == "interrupted"
    assert progress["message"] == f"Another process executes the plan in {path}."
    assert path.exists()
