"""Commits of `ottla.client`.

A commit is tried again while the coordinator is away, and fails at once where that cannot help. Automatic commits cover
partitions of `assign`, too.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Coroutine
from typing import Any

import pytest

import ottla.testing
from ottla.client.admin import AdminClient
from ottla.client.admin.topics import NewTopic
from ottla.client.blocking import BlockingConsumer
from ottla.client.consumer import Consumer, ConsumerSettings
from ottla.client.errors import WokenUp
from ottla.client.producer import Producer
from ottla.client.settings import ClientSettings, parse_bootstrap
from ottla.model.errors import ErrorCode, KafkaError
from ottla.model.ids import TopicPartition

PLACE = TopicPartition("t", 0)


def test_a_commit_outlives_its_coordinator() -> None:
    async def scenario(cluster: ottla.testing.Cluster) -> None:
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
        asyncio.run(scenario(cluster))


def test_a_client_outside_a_group_with_members_cannot_commit_for_it() -> None:
    async def scenario(cluster: ottla.testing.Cluster) -> None:
        settings = ClientSettings(bootstrap_servers=parse_bootstrap(cluster.bootstrap), api_timeout_ms=60_000)
        consumer_settings = ConsumerSettings(group_id="g", auto_commit=False)
        async with Consumer(settings, consumer_settings) as member, Consumer(settings, consumer_settings) as stranger:
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
        asyncio.run(scenario(cluster))


async def committed_offsets(cluster_config: dict[str, Any], group: str, partitions: list[TopicPartition]) -> list[int]:
    async with Consumer({**cluster_config, "group.id": group}) as looker:
        committed = await looker.committed(partitions)
        return [committed[partition].offset if partition in committed else -1 for partition in partitions]


class TestAutomaticCommitsOfAssignedPartitions:
    """`assign` and the automatic commits of assigned partitions need no membership."""

    @pytest.fixture
    def config(self, client_bootstrap: str) -> dict[str, Any]:
        return {
            "bootstrap.servers": client_bootstrap,
            "group.id": f"g-{uuid.uuid4().hex[:8]}",
            "auto.offset.reset": "earliest",
            # The commit interval does not end during a test, unless the test sets it.
            "auto.commit.interval.ms": 3_600_000,
        }

    @pytest.fixture
    def places(self, client_bootstrap: str) -> list[TopicPartition]:
        topic = f"t-{uuid.uuid4().hex[:8]}"
        places = [TopicPartition(topic, number) for number in range(2)]

        async def scenario() -> None:
            cluster_config = {"bootstrap.servers": client_bootstrap}
            async with AdminClient(cluster_config) as admin, Producer(cluster_config) as producer:
                await admin.topics.create([NewTopic(name=topic, partitions=2, replication_factor=1)])
                for place in places:
                    for number in range(5):
                        await producer.send(topic, b"%d" % number, partition=place.partition)

        run(scenario())
        return places

    @staticmethod
    def look(config: dict[str, Any], places: list[TopicPartition]) -> list[int]:
        cluster_config = {"bootstrap.servers": config["bootstrap.servers"]}
        return run(committed_offsets(cluster_config, config["group.id"], places))  # type: ignore[no-any-return]

    def test_a_poll_commits_at_the_interval(self, config: dict[str, Any], places: list[TopicPartition]) -> None:
        async def scenario() -> None:
            async with Consumer({**config, "auto.commit.interval.ms": 50}) as consumer:
                await consumer.assign(places)
                await read(consumer, 10)
                # A single long poll is enough: it does not wait for records longer than the interval.
                polling = asyncio.ensure_future(consumer.poll(600_000))
                cluster_config = {"bootstrap.servers": config["bootstrap.servers"]}
                while await committed_offsets(cluster_config, config["group.id"], places) != [5, 5]:
                    await asyncio.sleep(0.02)
                consumer.wakeup()
                with pytest.raises(WokenUp):
                    await polling

        run(scenario())

    def test_close_commits(self, config: dict[str, Any], places: list[TopicPartition]) -> None:
        async def scenario() -> None:
            async with Consumer(config) as consumer:
                await consumer.assign(places)
                await read(consumer, 10)

        run(scenario())
        assert self.look(config, places) == [5, 5]

    def test_close_commits_the_columns_that_were_handed_out(
        self, config: dict[str, Any], places: list[TopicPartition]
    ) -> None:
        async def scenario() -> None:
            async with Consumer(config) as consumer:
                await consumer.assign(places)
                count = 0
                while count < 10:
                    count += sum(len(batch) for batch in await consumer.batches(100))

        run(scenario())
        assert self.look(config, places) == [5, 5]

    def test_another_assignment_commits_what_it_gives_up(
        self, config: dict[str, Any], places: list[TopicPartition]
    ) -> None:
        async def scenario() -> None:
            async with Consumer(config) as consumer:
                await consumer.assign(places[:1])
                await read(consumer, 5)
                await consumer.assign(places)
                assert await consumer.committed(places) == {}
                await consumer.assign(places[1:])
                assert [commit.offset for commit in (await consumer.committed(places)).values()] == [5]
                await read(consumer, 5)
                await consumer.unsubscribe()
                assert [commit.offset for commit in (await consumer.committed(places)).values()] == [5, 5]

        run(scenario())

    def test_a_blocking_consumer_commits_what_its_loop_has_taken(
        self, config: dict[str, Any], places: list[TopicPartition]
    ) -> None:
        with BlockingConsumer(config) as consumer:
            consumer.assign(places[:1])
            for record in consumer:
                if record.offset == 2:
                    break
        assert self.look(config, places) == [3, -1]

    def test_nothing_is_committed_without_automatic_commits(
        self, config: dict[str, Any], places: list[TopicPartition]
    ) -> None:
        async def scenario() -> None:
            async with Consumer({**config, "enable.auto.commit": False, "auto.commit.interval.ms": 1}) as consumer:
                await consumer.assign(places)
                await read(consumer, 10)
                await consumer.poll(50)

        run(scenario())
        assert self.look(config, places) == [-1, -1]


async def read(consumer: Consumer, count: int) -> None:
    while count > 0:
        count -= len(await consumer.poll(100))


def run(work: Coroutine[Any, Any, Any]) -> Any:
    async def limited() -> Any:
        async with asyncio.timeout(60):
            return await work

    return asyncio.run(limited())
