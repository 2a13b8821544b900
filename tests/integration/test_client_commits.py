"""A commit of `ottla.client` is tried again while the coordinator is away, and fails at once where that cannot help."""

from __future__ import annotations

import asyncio

import pytest

import ottla.testing
from ottla.client.admin import AdminClient
from ottla.client.admin.topics import NewTopic
from ottla.client.consumer import Consumer, ConsumerSettings
from ottla.client.settings import ClientSettings, parse_bootstrap
from ottla.model.errors import ErrorCode, KafkaError
from ottla.model.ids import TopicPartition

PLACE = TopicPartition("t", 0)


def test_a_commit_outlives_its_coordinator() -> None:
    async def whole(cluster: ottla.testing.Cluster) -> None:
        settings = ClientSettings(bootstrap_servers=parse_bootstrap(cluster.bootstrap), api_timeout_ms=60_000)
        async with AdminClient(settings) as admin, Consumer(settings, ConsumerSettings(group_id="g")) as consumer:
            await admin.topics.create([NewTopic(name="t", partitions=1, replication_factor=1)])
            await consumer.commit({PLACE: 1})
            await asyncio.to_thread(cluster.node(1).kill)
            commit = asyncio.ensure_future(consumer.commit({PLACE: 2}))
            await asyncio.to_thread(cluster.node(1).start)
            await commit
            assert (await consumer.committed([PLACE]))[PLACE].offset == 2

    with ottla.testing.cluster(settings={"auto.create.topics.enable": "false"}) as cluster:
        asyncio.run(whole(cluster))


def test_a_client_outside_a_group_with_members_cannot_commit_for_it() -> None:
    async def whole(cluster: ottla.testing.Cluster) -> None:
        settings = ClientSettings(bootstrap_servers=parse_bootstrap(cluster.bootstrap), api_timeout_ms=60_000)
        how = ConsumerSettings(group_id="g", auto_commit=False)
        async with Consumer(settings, how) as member, Consumer(settings, how) as stranger:
            await member.subscribe(["t"])
            while not member.assignment:
                await member.poll(100)
            with pytest.raises(KafkaError) as raised:
                await stranger.commit({PLACE: 1})
            assert raised.value.code == ErrorCode.UNKNOWN_MEMBER_ID
            assert stranger.measures.failed_commits == stranger.measures.commits == 1
            await member.commit({PLACE: 3})
            assert (await member.committed([PLACE]))[PLACE].offset == 3

    with ottla.testing.cluster() as cluster:
        asyncio.run(whole(cluster))
