"""The statuses of a connector that was deleted and created again, on a worker that starts later."""

from __future__ import annotations

import asyncio
import json
from types import SimpleNamespace
from typing import Any

from ottla.connect.control.states import ConnectorState, State, TaskId, TopicUse
from ottla.connect.control.stores.status import MemoryStatusStore, TopicStatusStore

TASK = TaskId("lines", 0)


class Log:
    """A status topic with two partitions, as the hash of keys divides them: connectors and tasks."""

    def __init__(self) -> None:
        self.connectors: list[Any] = []
        self.tasks: list[Any] = []

    async def send(self, records: list[tuple[bytes, bytes | None]]) -> None:
        for key, value in records:
            partition = self.tasks if key.startswith(b"status-task-") else self.connectors
            partition.append(SimpleNamespace(key=key, value=value, offset=len(partition)))


def test_partitions_are_read_in_any_order() -> None:
    log: Any = Log()

    async def write() -> None:
        store = TopicStatusStore(lambda _on_record: log)
        running = ConnectorState(state=State.RUNNING, worker_id="w", generation=1)
        await store.put("lines", running)
        await store.put(TASK, running)
        await store.remove("lines")
        await store.put("lines", running)
        await store.put(TASK, running)

    asyncio.run(write())
    assert json.loads(log.tasks[-1].value)["state"] == "RUNNING"
    for first, second in ((log.connectors, log.tasks), (log.tasks, log.connectors)):
        late = TopicStatusStore(lambda _on_record: log)
        for record in (*first, *second):
            late._on_record(record)
        assert late.connector("lines") is not None
        assert list(late.tasks("lines")) == [0]


def test_nothing_is_kept_of_deleted_connectors() -> None:
    async def scenario() -> None:
        store = MemoryStatusStore()
        running = ConnectorState(state=State.RUNNING, worker_id="w", generation=1)
        await store.put("lines", running)
        await store.put(TASK, running)
        await store.put_topic(TopicUse("t", "lines", 0, 1))
        await store.reset_topics("lines")
        await store.remove("lines")
        assert (store._connectors, store._tasks, store._topics) == ({}, {}, {})

    asyncio.run(scenario())
