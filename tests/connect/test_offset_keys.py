"""An offset that was set over REST, with the fields of its partition in another order, does not come back."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

from ottla.connect.control.stores.offsets import TopicOffsetStore
from ottla.connect.work.jobs import SourcePiece
from ottla.connect.work.source_task import SourceTask


class Log:
    """The offset topic: every key has its own place, as in different partitions."""

    topic = "connect-offsets"

    def __init__(self, on_record, records) -> None:
        self._on_record, self._records = on_record, records

    async def start(self):
        await self.read_to_end()

    async def send(self, records):
        self._records.update(records)

    async def read_to_end(self, *_a, **_k):
        for key, value in self._records.items():
            self._on_record(SimpleNamespace(key=key, value=value))


def test_the_key_of_an_offset_is_used_again() -> None:
    async def work() -> None:
        compacted: dict[bytes, bytes | None] = {}
        store = TopicOffsetStore(lambda on: Log(on, compacted))
        await store.put("c", [({"table": "t", "server": "s"}, {"lsn": 1})])  # PATCH /connectors/c/offsets
        task = object.__new__(SourceTask)
        task.spec = SimpleNamespace(task=SimpleNamespace(connector="c"))
        task._offsets = store

        class Transactions:
            async def send(self, topic, records):
                compacted.update(records)

            async def commit(self): ...

        task.transactions = Transactions()
        await task._commit([SourcePiece({"server": "s", "table": "t"}, {"lsn": 1}, {"lsn": 2})], wrote=True)
        # A reader of several partitions sees their records in any order.
        later = TopicOffsetStore(lambda on: Log(on, dict(reversed(compacted.items()))))
        await later.start()
        assert later.get("c", {"server": "s", "table": "t"}) == {"lsn": 2}
        assert len(compacted) == 1

    asyncio.run(work())
