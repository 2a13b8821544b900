"""A connector that was deleted, whose tombstone was compacted away, must not leave tasks to a namesake."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

from ottla.connect.control.stores.config import TopicConfigStore


class Log:
    """One topic for several readers; `compacted` is what a later reader finds."""

    def __init__(self, on_record, topic) -> None:
        self._on_record, self._topic, self._next = on_record, topic, 0

    async def start(self):
        await self.read_to_end()

    async def stop(self): ...
    async def send(self, records):
        self._topic.extend((len(self._topic), k, v) for k, v in records)

    async def read_to_end(self, *_a, **_k):
        for offset, key, value in self._topic[self._next :]:
            if key is not None:
                self._on_record(SimpleNamespace(key=key, value=value, offset=offset))
        self._next = len(self._topic)


def test_a_restarted_worker_sees_what_a_living_one_sees() -> None:
    async def work() -> None:
        topic: list = []
        living = TopicConfigStore(lambda on: Log(on, topic))
        await living.start()
        await living.put_connector("c", {"connector.class": "X", "table": "old"})
        await living.put_tasks("c", [{"table": "old"}])
        await living.remove_connector("c")
        # Compaction: only the last record of a key stays, and tombstones go after delete.retention.ms.
        last = {key: offset for offset, key, _ in topic}
        for offset, key, value in list(topic):
            if last[key] != offset or value is None:
                topic[offset] = (offset, None, None)
        restarted = TopicConfigStore(lambda on: Log(on, topic))
        await restarted.start()
        await living.put_connector("c", {"connector.class": "X", "table": "new"})
        await restarted.refresh()
        assert living.state.all_tasks() == []
        assert restarted.state.all_tasks() == living.state.all_tasks()

    asyncio.run(work())
