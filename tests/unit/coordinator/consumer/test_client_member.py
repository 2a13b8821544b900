"""The coordinator with a member of `ottla.client`: a partition is never read by two members."""

from __future__ import annotations

import asyncio
from random import Random
from typing import Any

from ottla.client.consumer.group_consumer import ConsumerMembership
from ottla.client.consumer.membership import Subscription
from ottla.client.consumer.settings import ConsumerSettings
from ottla.client.metadata import MetadataCache
from ottla.client.settings import ClientSettings
from ottla.model.errors import ErrorCode
from ottla.model.ids import TopicPartition
from tests.support.consumer_member import ConsumerMember
from tests.support.group_path import GroupPath


class Cluster:
    """One coordinator; `held` holds its answers up."""

    GROUP = 0

    def __init__(self, path: GroupPath) -> None:
        self._path = path
        self.settings = ClientSettings(bootstrap_servers=())
        self.random = Random(1)
        self.metadata = MetadataCache()
        self.metadata.names[path.image.topics.by_name["t"].topic_id] = "t"
        self.held = asyncio.Event()
        self.asked = 0

    async def ask_coordinator(self, _kind: int, _key: str, request: Any, *_: Any, **__: Any) -> Any:
        answer = self._path.ask(request(), 1)
        self.asked += 1
        while self.held.is_set():
            await asyncio.sleep(0)
        return answer


async def turns() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


def test_a_partition_that_is_taken_over_during_a_heartbeat_has_no_second_owner(path: GroupPath) -> None:
    topic_id = path.image.topics.by_name["t"].topic_id

    async def scenario() -> None:
        cluster = Cluster(path)
        anything: Any = cluster
        read: set[TopicPartition] = set()

        async def on_rebalance(_: list[TopicPartition], assigned: list[TopicPartition]) -> None:
            read.clear()
            read.update(assigned)

        member = ConsumerMembership(anything, ConsumerSettings(group_id="g"), Subscription(("t",)), on_rebalance)
        other = ConsumerMember(path, "g", "other")
        try:
            # The member receives all three partitions. Another member joins before the first one polls.
            await member.poll()
            await turns()
            assert not read
            assert other.join() is ErrorCode.NONE
            # Its next heartbeat has reached the coordinator when the member polls.
            cluster.held.set()
            asked = cluster.asked
            member._now.set()
            await turns()
            assert cluster.asked == asked + 1
            await member.poll()
            assert other.beat() is ErrorCode.NONE
            assert not {TopicPartition("t", index) for index in other.partitions(topic_id)} & read
            # The member receives its new assignment and revokes partitions.
            cluster.held.clear()
            while other.count == 0:
                await turns()
                await member.poll()
                member._now.set()
                await turns()
                assert other.beat() is ErrorCode.NONE
                assert not {TopicPartition("t", index) for index in other.partitions(topic_id)} & read
            assert len(read) + other.count == 3
        finally:
            await member._stop_heartbeats()

    asyncio.run(scenario())
