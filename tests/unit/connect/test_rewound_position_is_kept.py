"""A sink's position in a log that was cut off, when the next batch fails before its start is stored."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from ottla.client.admin.groups import CommittedOffset
from ottla.connect.api import OffsetRange, ReadLimit
from ottla.connect.work import sink_task
from ottla.connect.work.positions import committed_note, started_note
from ottla.model.ids import TopicPartition
from ottla.spark.options import EARLIEST
from tests.unit.connect.test_topics_made_again import ONE, OTHER, Cluster, sink


class Progress(SimpleNamespace):
    def on_batch(self, **_: Any) -> None:
        pass


def test_a_task_that_takes_over_again_reads_the_new_records(monkeypatch: pytest.MonkeyPatch) -> None:
    end = 10

    class Offsets:
        def __init__(self, _cluster: object) -> None:
            pass

        async def numbers(self, partitions: list[TopicPartition], which: int, **_: Any) -> dict[TopicPartition, int]:
            return dict.fromkeys(partitions, 0 if which == EARLIEST else end)

    class Groups:
        def __init__(self, _cluster: object) -> None:
            pass

        async def offsets(self, _group: str, *, stable: bool) -> dict[TopicPartition, CommittedOffset]:
            assert stable
            ranges = [OffsetRange("one", 0, 0, 12), OffsetRange("other", 0, 0, 10)]
            return committed_note(ranges, batch_id=3, epoch="e", task=0)

    monkeypatch.setattr(sink_task, "Offsets", Offsets)
    monkeypatch.setattr(sink_task, "Groups", Groups)
    monkeypatch.setattr(sink_task, "_CUT_OFF_SECONDS", 0.0)
    monkeypatch.setattr(sink_task, "_TOPICS_SECONDS", -1.0)
    task = sink(Cluster())
    task._rewound = {}
    task.spec.group_id = "g"
    task._writer = SimpleNamespace(stored_offsets=dict)
    task.wait_for = asyncio.run
    task.find_place()
    assert task._positions == {ONE: 12, OTHER: 10}
    assert asyncio.run(task._plan(ReadLimit())) == ()
    assert task._positions == {ONE: 10, OTHER: 10}
    # The log grows. The batch of the new records fails, because its start cannot be stored, and the task takes over.
    end = 15
    task.find_place()
    assert OffsetRange("one", 0, 10, 15) in asyncio.run(task._plan(ReadLimit()))


def test_a_batch_whose_start_was_stored_without_an_answer_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The batch is repeated as an interrupted one. A later failure must not move the task back to its start."""
    batch = [OffsetRange("one", 0, 10, 15)]
    stored = started_note(batch, batch_id=4, epoch="e", task=0)

    class Groups:
        def __init__(self, _cluster: object) -> None:
            pass

        async def offsets(self, _group: str, *, stable: bool) -> dict[TopicPartition, CommittedOffset]:
            assert stable
            return stored

    monkeypatch.setattr(sink_task, "Groups", Groups)
    task = sink(Cluster())
    task.spec.group_id = "g"
    task.progress = Progress(lag=0, on_error=lambda _text: None)
    task._writer = SimpleNamespace(stored_offsets=dict, forget=lambda _partitions: None)
    task.wait_for = asyncio.run
    # The position went back to 10. The start of the next batch is stored, but the answer is lost.
    task._rewound = {ONE: 10}
    task.find_place()
    assert task._unfinished == tuple(batch)
    written: list[OffsetRange] = []

    async def note(offsets: dict[TopicPartition, CommittedOffset]) -> None:
        stored.update(offsets)

    task._note, task._write = note, lambda batch: written.extend(batch.ranges)
    task.used_topic, task._stopping, task.placed = lambda _topic: None, False, True
    assert task.batch(ReadLimit())
    assert written == batch
    task.find_place()
    assert task._positions[ONE] == 15
