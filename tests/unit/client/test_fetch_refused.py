"""An error that no retry can mend, such as a refused login, reaches the poll although other connections live on."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from ottla.client.consumer import Consumer
from ottla.client.consumer.group_classic import ClassicMembership
from ottla.client.errors import AuthenticationFailed, ClientError, RequestUnsupported
from ottla.client.share import ShareConsumer
from ottla.model.ids import TopicPartition
from tests.unit.client.consuming import OneNode, consume
from tests.unit.client.scripted_coordinator import Cluster as Coordinator
from tests.unit.client.scripted_coordinator import Rebalances, run
from tests.unit.client.test_consumer import Broker, values
from tests.unit.client.test_share_polls import Broker as ShareBroker
from tests.unit.client.test_share_polls import share

ONE = TopicPartition("t", 0)


@pytest.mark.parametrize("error", [AuthenticationFailed("wrong password"), RequestUnsupported("no fetch")])
def test_a_fetch_that_cannot_succeed_fails_the_poll(error: ClientError) -> None:
    cluster = OneNode(Broker(), partitions=1)
    anything: Any = cluster
    connected = cluster.node_connection

    async def refused(*_: Any) -> Any:
        raise error

    async def work(consumer: Consumer, broker: Broker) -> None:
        broker.append(ONE, 2)
        await consumer.assign([ONE])
        anything.node_connection = refused
        for _ in range(2):
            with pytest.raises(type(error)):
                await consumer.poll(500)
        # The operator has corrected the password.
        anything.node_connection = connected
        async with asyncio.timeout(20):
            while True:
                try:
                    assert await values(consumer, 2) == [(0, 0), (0, 1)]
                    break
                except type(error):
                    # Of a fetch that was in flight.
                    continue

    async def scenario() -> None:
        await consume(cluster, work, auto_offset_reset="earliest")

    asyncio.run(scenario())


def test_a_share_fetch_that_cannot_succeed_fails_the_poll() -> None:
    async def work(consumer: ShareConsumer, _broker: ShareBroker) -> None:
        anything: Any = consumer._cluster
        connected = anything.node_connection

        async def refused(*_: Any) -> Any:
            raise AuthenticationFailed("wrong password")

        anything.node_connection = refused
        with pytest.raises(AuthenticationFailed):
            await consumer.poll(500)
        anything.node_connection = connected

    share(work)


def test_a_heartbeat_that_cannot_succeed_fails_the_poll() -> None:
    async def work(member: ClassicMembership, cluster: Coordinator, _rebalances: Rebalances) -> None:
        await member.poll()

        async def refused(*_: Any, **__: Any) -> Any:
            await asyncio.sleep(0)
            raise AuthenticationFailed("wrong password")

        cluster.ask_coordinator = refused  # type: ignore[method-assign]
        async with asyncio.timeout(5):
            await member.wait()
        with pytest.raises(AuthenticationFailed):
            await member.poll()

    run(work, ClassicMembership)
