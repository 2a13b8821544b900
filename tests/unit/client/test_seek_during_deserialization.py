"""A seek of another task while a poll deserializes: the batches of the poll do not count for the new position."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from ottla.client.consumer import Consumer
from ottla.model.ids import TopicPartition
from ottla.serdes.protocol import Deserializer
from tests.unit.client.consuming import OneNode, consume, until
from tests.unit.client.test_consumer import Broker, values

ONE = TopicPartition("t", 0)


class Refusing(Deserializer[Any]):
    """Refuses the first record, when the test allows it to go on."""

    uses_network = True

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.entered = asyncio.Event()
        self.may_go_on = threading.Event()
        self.refused = {b"0"}

    def deserialize(self, topic: str, data: Any, headers: Any = None) -> Any:
        self.loop.call_soon_threadsafe(self.entered.set)
        assert self.may_go_on.wait(10)
        if data in self.refused:
            raise ValueError("record 0 cannot be read")
        return data


@pytest.mark.parametrize("call", ["poll", "batches"])
def test_a_seek_over_a_record_that_cannot_be_read(call: str) -> None:
    async def work(consumer: Consumer, broker: Broker) -> None:
        deserializer = consumer.settings.value_deserializer
        assert isinstance(deserializer, Refusing)
        await consumer.assign([ONE])
        await consumer.poll(0)
        broker.append(ONE, 8)
        await until(lambda: {ONE: 8} in broker.fetches)
        reading = asyncio.ensure_future(getattr(consumer, call)())
        await deserializer.entered.wait()
        consumer.seek(ONE, 6)
        deserializer.may_go_on.set()
        with pytest.raises(ValueError, match="record 0"):
            await reading
        assert await consumer.poll(0) == []
        assert consumer.position(ONE) == 6
        # Answers the fetch in flight.
        broker.append(ONE, 1)
        assert await values(consumer, 3) == [(0, 6), (0, 7), (0, 8)]
        assert consumer.position(ONE) == 9

    async def scenario() -> None:
        await consume(
            OneNode(Broker(), partitions=1), work, auto_offset_reset="earliest", value_deserializer=Refusing()
        )

    asyncio.run(scenario())


@pytest.mark.parametrize("call", ["poll", "batches"])
def test_no_record_is_skipped_if_the_leader_changes_meanwhile(call: str) -> None:
    cluster = OneNode(Broker(), partitions=1)

    async def work(consumer: Consumer, broker: Broker) -> None:
        deserializer = consumer.settings.value_deserializer
        assert isinstance(deserializer, Refusing)
        await consumer.assign([ONE])
        await consumer.poll(0)
        broker.append(ONE, 4)
        await until(lambda: {ONE: 4} in broker.fetches)
        reading = asyncio.ensure_future(getattr(consumer, call)())
        await deserializer.entered.wait()
        cluster.tell({0: 1})
        # Answers the fetch in flight; the next one begins with the new leader epoch.
        broker.append(ONE, 1)
        await until(lambda: len(broker.fetches) >= 4)
        deserializer.may_go_on.set()
        with pytest.raises(ValueError, match="record 0"):
            await reading
        assert consumer.position(ONE) == 0
        deserializer.refused.clear()
        broker.append(ONE, 1)
        assert await values(consumer, 6) == [(0, at) for at in range(6)]

    async def scenario() -> None:
        await consume(cluster, work, auto_offset_reset="earliest", value_deserializer=Refusing())

    asyncio.run(scenario())
