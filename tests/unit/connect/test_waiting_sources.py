"""A waiting source logs the reason once and shows it in its status."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from ottla.connect.api import Task
from ottla.connect.work.engine import TaskProgress
from ottla.connect.work.source_task import SourceTask


def test_what_a_source_waits_for_is_logged_when_it_changes(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    task: Any = SimpleNamespace(
        progress=TaskProgress(), spec=SimpleNamespace(task=Task(connector="lines", number=0, config={}))
    )
    for waits_for in (None, "the file a does not exist", "the file a does not exist", None, None):
        SourceTask._look_for_obstacle(task, waits_for)
        assert task.progress.body()["waits_for"] == waits_for
    assert [record.getMessage() for record in caplog.records] == [
        "Task lines-0 waits: the file a does not exist",
        "Task lines-0 no longer waits",
    ]
