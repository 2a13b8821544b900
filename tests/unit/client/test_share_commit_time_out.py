"""The time-out of a share consumer's commit ends the wait of the application, not the share session."""

from __future__ import annotations

import asyncio

import pytest

from ottla.client.errors import TimedOut
from ottla.client.share import ShareConsumer
from ottla.model.errors import KafkaError
from ottla.model.ids import TopicPartition
from ottla.wire.messages.share_acknowledge import ShareAcknowledgeRequest, ShareAcknowledgeResponse
from tests.unit.client.test_share_polls import ONE, Broker, share


def test_records_can_be_acknowledged_after_a_commit_that_timed_out() -> None:
    outcomes: list[tuple[list[int], KafkaError | None]] = []

    def on_acknowledged(_partition: TopicPartition, offsets: list[int], error: KafkaError | None) -> None:
        outcomes.append((offsets, error))

    async def work(consumer: ShareConsumer, broker: Broker) -> None:
        answering = asyncio.Event()
        answer = broker._acknowledged

        async def late(request: ShareAcknowledgeRequest) -> ShareAcknowledgeResponse:
            await answering.wait()
            return await answer(request)

        broker._acknowledged = late  # type: ignore[method-assign]
        consumer.set_acknowledgement_callback(on_acknowledged)
        records = await consumer.poll(20_000)
        consumer.acknowledge(records[0])
        with pytest.raises(TimedOut):
            await consumer.commit(timeout_ms=1)
        answering.set()
        consumer.acknowledge(records[1])
        assert await consumer.commit() == {ONE: None}
        assert outcomes == [([0], None), ([1], None)]

    share(work, explicit=True)
