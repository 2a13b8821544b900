"""A scan ends at its deadline, also between the records of one fetch: each may wait for a registry that is down."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

from ottla.console.record_scan import Scan, ScanRange
from ottla.model.ids import TopicPartition

PARTITION = TopicPartition("t", 0)
RECORDS = 500


class Consumer:
    """Gives all records with one poll."""

    def __init__(self) -> None:
        self.polls = 0

    async def assign(self, _partitions: list[TopicPartition]) -> None: ...

    def seek(self, _partition: TopicPartition, _offset: int) -> None: ...

    def pause(self, _partition: TopicPartition) -> None: ...

    def position(self, _partition: TopicPartition) -> int:
        return RECORDS

    async def poll(self, _timeout_ms: int) -> list[Any]:
        self.polls += 1
        return [SimpleNamespace(topic="t", partition=0, offset=offset, key=None) for offset in range(RECORDS)]


class Clock:
    """The time of the loop, which passes only while a record is read."""

    def __init__(self) -> None:
        self.seconds = 0.0

    async def message(self, record: Any) -> dict[str, Any]:
        self.seconds += 30.0
        return {"offset": record.offset}


def test_the_records_of_a_fetch_are_not_read_beyond_the_deadline() -> None:
    async def scenario() -> None:
        clock, consumer = Clock(), Consumer()
        loop = asyncio.get_running_loop()
        loop.time = lambda: clock.seconds  # type: ignore[method-assign]
        request: Any = SimpleNamespace(key=None, filter=None, limit=10_000, start="earliest", reader=clock)
        scan = Scan(request, ScanRange({PARTITION: 0}, {PARTITION: RECORDS}))
        messages = [message async for message in scan.run(consumer, deadline=70.0) if message is not None]  # type: ignore[arg-type]
        assert [message["offset"] for message in messages] == [0, 1, 2]
        # The next page continues behind the last record that was read.
        assert (scan.is_complete, scan.next) == (False, {PARTITION: 3})

    asyncio.run(scenario())
