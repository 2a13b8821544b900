"""The work of a poll does not grow with the batches of paused partitions."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any

from ottla.client.consumer import Consumer
from ottla.model.ids import TopicPartition
from tests.unit.client.consuming import OneNode, consume, until
from tests.unit.client.test_consumer import Broker

ONE, OTHER = TopicPartition("t", 0), TopicPartition("t", 1)
BATCHES = 100


class CountingDeque(deque[Any]):
    """Counts the batches that are taken from it."""

    taken = 0

    def popleft(self) -> Any:
        CountingDeque.taken += 1
        return super().popleft()


def test_every_paused_batch_is_passed_once() -> None:
    async def work(consumer: Consumer, broker: Broker) -> None:
        await consumer.assign([ONE, OTHER])
        await consumer.poll(0)
        fetcher = consumer._fetcher
        fetcher.ready = CountingDeque()
        # The broker puts two records into a batch, and a response has one batch of each partition.
        for number in range(1, BATCHES + 1):
            broker.append(ONE, 2)
            broker.append(OTHER, 2)
            await until(lambda number=number: {ONE: 2 * number, OTHER: 2 * number} in broker.fetches)  # type: ignore[misc]
        assert len(fetcher.ready) == 2 * BATCHES
        consumer.pause(ONE)
        CountingDeque.taken = 0
        records = await consumer.poll(0, max_records=2 * BATCHES)
        assert [(record.partition, record.offset) for record in records] == [(1, at) for at in range(2 * BATCHES)]
        assert CountingDeque.taken <= 4 * BATCHES
        consumer.resume(ONE)
        records = await consumer.poll(0, max_records=2 * BATCHES)
        assert [(record.partition, record.offset) for record in records] == [(0, at) for at in range(2 * BATCHES)]

    async def scenario() -> None:
        await consume(OneNode(Broker(), partitions=2), work, auto_offset_reset="earliest")

    asyncio.run(scenario())
