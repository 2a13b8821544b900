"""A consumer whose listener fails while it leaves its group reads none of its former partitions any more."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from ottla.client.consumer import Consumer
from ottla.client.consumer.listeners import FunctionListener
from ottla.client.consumer.membership import Identity
from ottla.model.ids import TopicPartition
from tests.unit.client.consuming import OneNode, consume
from tests.unit.client.test_consumer import Broker, values

ONE = TopicPartition("t", 0)


class Member:
    """A member with a fixed assignment, until it leaves."""

    identity = Identity("m", 1, None)
    is_member = True
    has_left = False

    async def poll(self, _deadline: float) -> None:
        return

    async def wait(self) -> None:
        await asyncio.Event().wait()

    async def leave(self) -> None:
        self.has_left = True


@pytest.mark.parametrize("call", ["unsubscribe", "subscribe"])
def test_a_listener_that_fails_keeps_no_partition(call: str) -> None:
    def fail(_partitions: list[TopicPartition]) -> None:
        raise ValueError("a bad listener")

    async def work(consumer: Consumer, broker: Broker) -> None:
        member: Any = Member()
        consumer._membership, consumer._listener = member, FunctionListener(None, fail, None)
        consumer._assign([ONE])
        broker.append(ONE, 2)
        assert await values(consumer, 2) == [(0, 0), (0, 1)]
        with pytest.raises(ValueError, match="a bad listener"):
            await (consumer.unsubscribe() if call == "unsubscribe" else consumer.subscribe(["t"]))
        assert member.has_left
        assert consumer.assignment == []
        broker.append(ONE, 2)
        assert await consumer.poll(50) == []

    async def scenario() -> None:
        cluster = OneNode(Broker(), partitions=1)

        async def retry(attempt: Any, **_: Any) -> Any:
            return await attempt()

        cluster.retry = retry  # type: ignore[attr-defined]
        await consume(cluster, work, group_id="g", auto_commit=False, auto_offset_reset="earliest")

    asyncio.run(scenario())
