"""A consumer over a broker of a few lines: a cluster of one node that knows its topic, and the consumer's end."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar

from ottla.client.consumer import Consumer, ConsumerSettings
from ottla.client.measures import RequestMeasures
from ottla.client.metadata import BrokerNode, MetadataCache, PartitionInfo, TopicInfo
from ottla.client.settings import ClientSettings
from ottla.model.ids import Uuid

__all__ = ["OneNode", "consume", "until"]

B = TypeVar("B")


class OneNode:
    """A `Cluster` whose only broker leads all partitions of the topic `t`."""

    def __init__(self, broker: Any, *, partitions: int) -> None:
        self.broker = broker
        self.settings = ClientSettings(bootstrap_servers=(), retry_backoff_ms=0)
        self.metadata = MetadataCache()
        self.measures = RequestMeasures()
        self.metadata.brokers[1] = BrokerNode(1, "", 0, None)
        self.tell(dict.fromkeys(range(partitions), 0))

    def tell(self, epochs: Mapping[int, int]) -> None:
        """Sets the leader epochs that clients learn from metadata."""
        partitions = {number: PartitionInfo(number, 1, epoch, (), (), ()) for number, epoch in epochs.items()}
        self.metadata.topics["t"] = TopicInfo("t", Uuid.ZERO, False, partitions, None)

    def deadline(self, timeout_ms: int) -> float:
        return asyncio.get_running_loop().time() + timeout_ms / 1000

    async def node_connection(self, _node_id: int, _purpose: str) -> Any:
        return self.broker

    async def refresh(self, *_: Any, **__: Any) -> MetadataCache:
        return self.metadata


async def consume(cluster: Any, work: Callable[[Consumer, B], Awaitable[object]], **settings: Any) -> None:
    """Runs `work` with a consumer whose requests all go to the cluster's broker."""
    broker = cluster.broker
    consumer = Consumer(cluster, ConsumerSettings(**settings))
    consumer._starts.groups = consumer._starts.offsets = broker
    try:
        async with asyncio.timeout(60):
            await work(consumer, broker)
    finally:
        await consumer._fetcher.close()


async def until(holds: Callable[[], bool]) -> None:
    while not holds():
        await asyncio.sleep(0)
