"""An assignment that fails changes nothing: the consumer reads on where it was (the monitor depends on it)."""

from __future__ import annotations

import asyncio

import pytest

from ottla.client.consumer import Consumer
from ottla.client.errors import ClusterUnreachable
from ottla.client.metadata import MetadataCache
from ottla.model.ids import TopicPartition
from tests.unit.client.consuming import OneNode, consume
from tests.unit.client.test_consumer import Broker, values

ONE, OTHER = TopicPartition("t", 0), TopicPartition("t", 1)


@pytest.mark.parametrize("wanted", [[ONE, OTHER], [OTHER]], ids=["one more", "another"])
def test_the_partitions_and_their_positions_stay(wanted: list[TopicPartition]) -> None:
    async def work(consumer: Consumer, broker: Broker) -> None:
        await consumer.assign([ONE])
        broker.append(ONE, 8)
        consumer.seek(ONE, 3)
        assert await values(consumer, 5) == [(0, offset) for offset in range(3, 8)]

        async def refresh(*_: object, **__: object) -> MetadataCache:
            raise ClusterUnreachable("The brokers do not answer.")

        refreshed, cluster.refresh = cluster.refresh, refresh  # type: ignore[method-assign]
        with pytest.raises(ClusterUnreachable):
            await consumer.assign(wanted)
        assert consumer.assignment == [ONE]
        assert consumer.position(ONE) == 8
        cluster.refresh = refreshed  # type: ignore[method-assign]
        await consumer.assign([ONE, OTHER])
        assert consumer.position(ONE) == 8

    cluster = OneNode(Broker(), partitions=2)
    asyncio.run(consume(cluster, work))
