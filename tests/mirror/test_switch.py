"""A switch to the target, topic by topic: a copy becomes an ordinary topic, which the mirror no longer touches."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator
from typing import Any

import pytest

from ottla.client.admin import AdminClient
from ottla.client.admin.configs import ConfigChange, ConfigOperation, ConfigResource, ResourceType
from ottla.client.cluster import Cluster as ClientCluster
from ottla.mirror.groups import GroupSync
from ottla.mirror.settings import read_settings
from ottla.mirror.topics import TopicSync
from ottla.model.ids import TopicPartition
from ottla.testing.clusters import Cluster, cluster
from tests.mirror.flows import begins_at, create, has_no_lag, mirroring, produce, properties_of, read_all, until


@pytest.fixture
def source() -> Iterator[Cluster]:
    with cluster() as running:
        yield running


@pytest.fixture
def target() -> Iterator[Cluster]:
    with cluster() as running:
        yield running


def run(work: Coroutine[Any, Any, None]) -> None:
    async def limited() -> None:
        async with asyncio.timeout(90):
            await work

    asyncio.run(limited())


async def release(where: Cluster, topic: str) -> None:
    change = ConfigChange("ottla.mirror.name", None, ConfigOperation.DELETE)
    async with AdminClient({"bootstrap.servers": where.bootstrap}) as admin:
        await admin.configs.alter({ConfigResource(ResourceType.TOPIC, topic): [change]})


def test_a_released_copy_gets_no_more_records_and_the_others_go_on(source: Cluster, target: Cluster) -> None:
    run(a_released_copy_gets_no_more_records_and_the_others_go_on(source, target))


async def a_released_copy_gets_no_more_records_and_the_others_go_on(source: Cluster, target: Cluster) -> None:
    copy = TopicPartition("a.t", 0)
    for topic in ("t", "u"):
        await create(source, topic, partitions=1)
        await produce(source.bootstrap, topic, range(10))
    async with mirroring(source, target, ottla_offsets="exact") as mirror:
        await until(lambda: has_no_lag(mirror.settings))
        await release(target, "a.t")
        # One batch: a broker would take it for the batch of an ordinary producer.
        await produce(source.bootstrap, "t", range(10, 11))
        await produce(source.bootstrap, "u", range(10, 20))
        await read_all(target.bootstrap, "a.u", 20)
        await produce(target.bootstrap, "a.t", range(100, 103))
    async with mirroring(source, target, ottla_offsets="exact"):
        # A restarted mirror does not touch it either: the end of the topic is within a batch of the source now.
        await produce(source.bootstrap, "t", range(11, 30), **{"linger.ms": "100"})
        await produce(source.bootstrap, "u", range(20, 30))
        await read_all(target.bootstrap, "a.u", 30)
    values = [record[3] for record in await read_all(target.bootstrap, "a.t", 13)]
    assert values == [b"v%d" % number for number in (*range(10), *range(100, 103))]
    # Records that the source deletes are not deleted here any more, and its groups are not moved here.
    async with AdminClient({"bootstrap.servers": source.bootstrap}) as admin:
        await admin.offsets.delete_records({TopicPartition("t", 0): 5})
        await admin.groups.alter_offsets("g", {TopicPartition("t", 0): 12, TopicPartition("u", 0): 12})
    (flow,) = read_settings(properties_of(source, target, {"ottla.offsets": "exact"})).flows
    ours, theirs = ClientCluster(flow.source_client), ClientCluster(flow.target_client)
    groups = GroupSync(flow, ours, theirs)
    await TopicSync(flow, ours, theirs).sync_starts()
    assert await begins_at(target, copy, 0)
    await groups.refresh()
    assert await groups.commit(await groups.checkpoint()) == {"g": 1}
    await groups.close()
    await asyncio.gather(ours.close(), theirs.close())


def test_a_group_is_not_sent_behind_the_end_of_an_exact_copy(source: Cluster, target: Cluster) -> None:
    run(a_group_is_not_sent_behind_the_end_of_an_exact_copy(source, target))


async def a_group_is_not_sent_behind_the_end_of_an_exact_copy(source: Cluster, target: Cluster) -> None:
    await create(source, "t", partitions=1)
    await produce(source.bootstrap, "t", range(10))
    async with mirroring(source, target, ottla_offsets="exact") as mirror:
        await until(lambda: has_no_lag(mirror.settings))
    await produce(source.bootstrap, "t", range(10, 20))
    async with AdminClient({"bootstrap.servers": source.bootstrap}) as admin:
        await admin.groups.alter_offsets("g", {TopicPartition("t", 0): 20})
    (flow,) = mirror.settings.flows
    ours, theirs = ClientCluster(flow.source_client), ClientCluster(flow.target_client)
    groups = GroupSync(flow, ours, theirs)
    await groups.refresh()
    (checkpoint,) = await groups.checkpoint()
    assert (checkpoint.source_offset, checkpoint.target_offset) == (20, 10)
    await groups.close()
    await asyncio.gather(ours.close(), theirs.close())
