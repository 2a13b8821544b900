"""A leader that needs longer for the start of a partition than a poll waits for it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from ottla.client.admin.offsets import FoundOffset
from ottla.client.consumer import Consumer
from ottla.model.errors import ErrorCode, KafkaError
from ottla.model.ids import TopicPartition
from tests.unit.client.consuming import consume
from tests.unit.client.test_consumer import ONE, OTHER, Broker, Cluster, values


class SlowBroker(Broker):
    """Lookups of `OTHER` succeed only without a time-out of the caller."""

    def __init__(self, *, has_young_records: bool) -> None:
        super().__init__()
        self.has_young_records = has_young_records
        self.may_answer = asyncio.Event()
        self.late_lookups = 0

    async def find(
        self, times: Mapping[TopicPartition, int], *, timeout_ms: int | None = None, **_: Any
    ) -> dict[TopicPartition, FoundOffset | KafkaError]:
        answers = await super().find(times)
        if OTHER in times and timeout_ms is not None:
            answers[OTHER] = KafkaError(ErrorCode.REQUEST_TIMED_OUT)
        elif OTHER in times:
            self.late_lookups += 1
            await self.may_answer.wait()
            if not self.has_young_records:
                answers[OTHER] = FoundOffset(-1, -1, -1)
        return answers

    async def numbers(self, partitions: list[TopicPartition], _time: int, **_: Any) -> dict[TopicPartition, int]:
        return dict.fromkeys(partitions, 1)


@pytest.mark.parametrize(("has_young_records", "first"), [(True, 0), (False, 1)])
def test_a_partition_of_a_slow_leader_is_read_later(*, has_young_records: bool, first: int) -> None:
    async def work(consumer: Consumer, broker: SlowBroker) -> None:
        broker.append(OTHER, 2)
        await consumer.assign([ONE, OTHER])
        consumer.seek(ONE, 0)
        consumer.pause(ONE)
        assert await consumer.poll(1) == []
        assert (consumer.position(OTHER), broker.late_lookups) == (-1, 1)
        broker.may_answer.set()
        # The answer ends the wait of a poll.
        assert [record.offset for record in await consumer.poll(60_000)] == list(range(first, 2))

    async def scenario() -> None:
        await consume(
            Cluster(SlowBroker(has_young_records=has_young_records), partitions=2), work, auto_offset_reset="earliest"
        )

    asyncio.run(scenario())


def test_a_close_does_not_wait_for_a_slow_leader() -> None:
    async def work(consumer: Consumer, broker: SlowBroker) -> None:
        broker.append(ONE, 2)
        await consumer.assign([ONE, OTHER])
        assert await values(consumer, 2) == [(0, 0), (0, 1)]
        await consumer.close()
        assert not consumer._starts._late

    async def scenario() -> None:
        await consume(Cluster(SlowBroker(has_young_records=True), partitions=2), work, auto_offset_reset="earliest")

    asyncio.run(scenario())
