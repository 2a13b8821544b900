"""The open batch of a partition leaves after its linger time, also if the batch before it is in flight."""

from __future__ import annotations

import asyncio

from ottla.model.errors import ErrorCode
from tests.unit.client.test_sender import Sending, run, until


def test_an_open_batch_does_not_wait_for_the_answer_to_the_batch_before_it() -> None:
    async def work(sending: Sending) -> None:
        connection = sending.cluster.connection
        # The first batch of a producer is sent alone.
        await sending.send(b"first")
        connection.answering.clear()
        # Fills a batch and begins the next one.
        deliveries = [sending.send(b"x" * 60) for _ in range(4)]
        assert sending.batches.queues[deliveries[0].batch.partition].open is not None
        async with asyncio.timeout(5):
            await until(lambda: len(connection.requests) >= 1 + len({delivery.batch for delivery in deliveries}))
        connection.answering.set()

    run(lambda *_: ErrorCode.NONE, work, batch_size=250, linger_ms=1)
