"""Records that failed are in the dead letter queue before their batch can be done."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from ottla.connect.api import Batch, OffsetRange, RetriableError, Task
from ottla.connect.work import sink_task
from ottla.connect.work.sink_task import SinkTask


class Writer:
    columns = None

    def __init__(self, steps: list[str]) -> None:
        self.steps = steps
        self.failures = 0

    def write(self, good: str, _batch: Batch) -> None:
        self.steps.append(good)
        if self.failures:
            self.failures -= 1
            raise RetriableError("the database is away")


def batch(number: int) -> Batch:
    task = Task(connector="c", number=0, config={}, count=1)
    return Batch(id=number, epoch="e", ranges=(OffsetRange("t", 0, number, number + 1),), task=task)


@pytest.fixture
def steps() -> list[str]:
    return []


@pytest.fixture
def task(steps: list[str], monkeypatch: pytest.MonkeyPatch) -> Any:
    def write(frame: str) -> SimpleNamespace:
        steps.append(frame)
        return SimpleNamespace(records=1)

    monkeypatch.setattr(sink_task, "read_topics", lambda *_: "rows")
    monkeypatch.setattr(sink_task, "writing", lambda frame, _target: frame)
    monkeypatch.setattr(sink_task, "write", write)
    new_task: Any = SinkTask.__new__(SinkTask)
    new_task.spark = new_task._client_options = new_task._topic_ids = new_task._dead_letters = None
    new_task.progress = SimpleNamespace(failed_records=0)
    new_task.chain = SimpleNamespace(
        needs=lambda columns: columns,
        sink=lambda _frame: SimpleNamespace(good="good", failed="failed", report=None),
        release=lambda: None,
    )
    new_task._set_aside = None
    new_task._writer = Writer(steps)
    return new_task


def test_failed_records_are_set_aside_before_the_rest_is_written(task: Any, steps: list[str]) -> None:
    task._write(batch(1))
    task._write(batch(2))
    assert steps == ["failed", "good"] * 2
    assert task.progress.failed_records == 2


def test_they_are_set_aside_once_however_often_the_writer_tries(task: Any, steps: list[str]) -> None:
    task._writer.failures = 2
    for _ in range(2):
        with pytest.raises(RetriableError):
            task._write(batch(1))
    task._write(batch(1))
    assert steps == ["failed", "good", "good", "good"]
