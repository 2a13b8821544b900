"""A log that was cut off and written again: a sink that stores offsets in its target must write the new records."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace

import pytest

import ottla.connect.work.sink_task as sink_task
from ottla.connect.api import OffsetRange, Task
from ottla.connect.plugins.connectors.databases.jdbc_sink import JdbcSinkConnector
from ottla.connect.work.engine import TaskProgress
from ottla.connect.work.sink_task import SinkTask
from ottla.model.ids import TopicPartition


def test_offsets_in_the_target_go_back_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = {"name": "s", "connection.url": f"jdbc:sqlite:{tmp_path}/db", "topics": "t"}
    writer = JdbcSinkConnector().writer(Task(connector="s", number=0, config=config, count=1))
    place = TopicPartition("t", 0)
    writer.stored_offsets()
    with writer._database.transaction(writes=True) as cursor:
        writer._offsets.advance(cursor, [OffsetRange("t", 0, 0, 100)])
    task = object.__new__(SinkTask)
    task.spec = SimpleNamespace(task=Task(connector="s", number=0, config=config, count=1), config=config)
    task.progress = TaskProgress()
    task._writer, task._positions, task._cut_off, task._recreated = writer, {place: 100}, {}, set()
    task._rewound = {}

    class Ends:
        async def numbers(self, places, where, **_):
            return dict.fromkeys(places, 80)

    monkeypatch.setattr(sink_task, "_CUT_OFF_SECONDS", 0.0)
    asyncio.run(task._rewind_truncated(Ends(), {place: 80}))
    assert task._positions[place] == 80
    # What `batch` does before it writes.
    task._forget_recreated_partitions()
    with writer._database.transaction(writes=True) as cursor:
        assert not writer._offsets.is_written(cursor, [OffsetRange("t", 0, 80, 90)])
