"""Flows between two clusters, as a user sees them."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator
from typing import Any

import pytest

from ottla.client.admin import AdminClient
from ottla.client.admin.configs import ConfigChange, ConfigResource, ResourceType
from ottla.client.consumer import Consumer
from ottla.client.producer import Producer
from ottla.mirror import settings
from ottla.mirror.mirror import Mirror
from ottla.mirror.settings import read_settings
from ottla.model.errors import ErrorCode, KafkaError
from ottla.model.ids import TopicPartition
from ottla.testing.clusters import Cluster, cluster
from tests.mirror.flows import (
    begins_at,
    create,
    has_no_lag,
    mirroring,
    numbers_of,
    produce,
    produce_transactions,
    properties_of,
    read_all,
    until,
    without_offsets,
)


@pytest.fixture
def source() -> Iterator[Cluster]:
    with cluster() as running:
        yield running


@pytest.fixture
def target() -> Iterator[Cluster]:
    with cluster() as running:
        yield running


def run(work: Coroutine[Any, Any, None], *, limit_s: float = 90) -> None:
    async def limited() -> None:
        async with asyncio.timeout(limit_s):
            await work

    asyncio.run(limited())


@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_records_keep_all_but_their_offsets(source: Cluster, target: Cluster, codec: str) -> None:
    run(records_keep_all_but_their_offsets(source, target, codec))


async def records_keep_all_but_their_offsets(source: Cluster, target: Cluster, codec: str) -> None:
    await create(source, "t", partitions=3, configs={"retention.ms": "123456789"})
    await produce(source.bootstrap, "t", range(500), **{"compression.type": codec})
    async with mirroring(source, target):
        await produce(source.bootstrap, "t", range(500, 600))
        ours = await read_all(target.bootstrap, "a.t", 600)
    theirs = await read_all(source.bootstrap, "t", 600)
    assert without_offsets(ours) == without_offsets(theirs)
    async with AdminClient({"bootstrap.servers": target.bootstrap}) as admin:
        assert len((await admin.topics.all())["a.t"].partitions) == 3


def test_an_exact_copy_has_the_same_offsets_and_transactions(source: Cluster, target: Cluster) -> None:
    run(an_exact_copy_has_the_same_offsets_and_transactions(source, target))


async def an_exact_copy_has_the_same_offsets_and_transactions(source: Cluster, target: Cluster) -> None:
    await create(source, "t", partitions=2)
    await produce(source.bootstrap, "t", range(100))
    await produce_transactions(source.bootstrap, "t", range(100, 160))
    async with AdminClient({"bootstrap.servers": source.bootstrap}) as admin:
        await admin.offsets.delete_records({TopicPartition("t", 0): 7})
    async with mirroring(source, target, ottla_offsets="exact"):
        await produce(source.bootstrap, "t", range(160, 200))
        theirs = await read_all(source.bootstrap, "t", 163)
        await until(lambda: begins_at(target, TopicPartition("a.t", 0), 7))
        ours = await read_all(target.bootstrap, "a.t", 163)
        assert ours == theirs
        all_records = await read_all(source.bootstrap, "t", 193, committed=False)
        assert await read_all(target.bootstrap, "a.t", 193, committed=False) == all_records
        # Other producers cannot write to the copy.
        async with Producer({"bootstrap.servers": target.bootstrap}) as producer:
            delivery = await producer.send("a.t", b"mine", partition=0)
            with pytest.raises(KafkaError) as raised:
                await delivery
            assert raised.value.code is ErrorCode.POLICY_VIOLATION


def test_offsets_of_groups_are_translated_exactly(source: Cluster, target: Cluster) -> None:
    run(offsets_of_groups_are_translated_exactly(source, target))


async def offsets_of_groups_are_translated_exactly(source: Cluster, target: Cluster) -> None:
    await create(source, "t", partitions=1)
    await produce(source.bootstrap, "t", range(50))
    await produce_transactions(source.bootstrap, "t", range(50, 100))
    theirs = await read_all(source.bootstrap, "t", 75)
    place, copy = TopicPartition("t", 0), TopicPartition("a.t", 0)
    async with AdminClient({"bootstrap.servers": source.bootstrap}) as admin:
        for index, record in enumerate(theirs):
            await admin.groups.alter_offsets(f"g-{index}", {place: int(str(record[1]))})
    async with (
        mirroring(source, target, refresh_groups_interval_seconds="1"),
        AdminClient({"bootstrap.servers": target.bootstrap}) as admin,
    ):
        ours = await read_all(target.bootstrap, "a.t", 75)

        async def is_there() -> bool:
            return copy in await admin.groups.offsets("g-74")

        await until(is_there)
        for index, (record, original) in enumerate(zip(ours, theirs, strict=True)):
            assert record[3] == original[3]
            committed = await admin.groups.offsets(f"g-{index}")
            if index:
                # An offset of 0 is where a group without an offset begins; it is committed all the same.
                assert committed[copy].offset == record[1], index


def test_a_mirror_that_dies_loses_and_doubles_nothing(source: Cluster, target: Cluster) -> None:
    run(a_mirror_that_dies_loses_and_doubles_nothing(source, target))


async def a_mirror_that_dies_loses_and_doubles_nothing(source: Cluster, target: Cluster) -> None:
    await create(source, "t", partitions=2)
    await produce(source.bootstrap, "t", range(300))
    settings = read_settings(properties_of(source, target, {"ottla.commit.interval.ms": "20"}))
    for start in range(300, 900, 100):
        mirror = Mirror(settings, runs_on="threads")
        running = asyncio.ensure_future(mirror.run())
        await produce(source.bootstrap, "t", range(start, start + 100))
        # Cancelled in the middle of a transaction, as a process that dies.
        await asyncio.sleep(0.3)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
    async with mirroring(source, target):
        ours = await read_all(target.bootstrap, "a.t", 900)
        await until(lambda: has_no_lag(settings))
    ours = await read_all(target.bootstrap, "a.t", 900)
    assert without_offsets(ours) == without_offsets(await read_all(source.bootstrap, "t", 900))


def test_two_clusters_copy_from_each_other_under_the_same_names(source: Cluster, target: Cluster) -> None:
    run(two_clusters_copy_from_each_other_under_the_same_names(source, target))


async def two_clusters_copy_from_each_other_under_the_same_names(source: Cluster, target: Cluster) -> None:
    await create(source, "t", partitions=1)
    await produce(source.bootstrap, "t", range(20))
    keys = {"b__a_enabled": "true", "replication_policy_class": "IdentityReplicationPolicy"}
    async with mirroring(source, target, **keys) as mirror:
        await read_all(target.bootstrap, "t", 20)
        await produce(target.bootstrap, "t", range(20, 40))
        theirs = await read_all(source.bootstrap, "t", 40)
        await until(lambda: has_no_lag(mirror.settings))
        ours = await read_all(target.bootstrap, "t", 40)
    for records in (ours, theirs):
        assert sorted(str(record[3]) for record in records) == sorted(str(b"v%d" % number) for number in range(40))


def test_a_flow_that_has_caught_up_does_not_wait_for_the_interval(
    source: Cluster, target: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    # An interval longer than any limit of a test.
    monkeypatch.setattr(settings, "_COMMIT_INTERVAL_MS_MAX", 3_600_000)
    run(a_flow_that_has_caught_up_does_not_wait_for_the_interval(source, target), limit_s=500)


async def a_flow_that_has_caught_up_does_not_wait_for_the_interval(source: Cluster, target: Cluster) -> None:
    await create(source, "t", partitions=2)
    async with mirroring(source, target, ottla_commit_interval_ms="3600000"):
        for number in range(3):
            # Each record is a batch, and is readable before the next one is written.
            async with asyncio.timeout(120):
                await produce(source.bootstrap, "t", range(number, number + 1))
                ours = await read_all(target.bootstrap, "a.t", number + 1)
            assert numbers_of(ours) == list(range(number + 1))


def test_small_batches_are_joined(source: Cluster, target: Cluster) -> None:
    run(small_batches_are_joined(source, target))


async def small_batches_are_joined(source: Cluster, target: Cluster) -> None:
    await create(source, "t", partitions=1)
    async with Producer({"bootstrap.servers": source.bootstrap, "linger.ms": 0}) as producer:
        for number in range(40):
            await producer.send_and_wait("t", b"v%d" % number, headers=[("h", b"%d" % number)])
    async with mirroring(source, target):
        theirs, ours = [await read_all(c.bootstrap, t, 40) for c, t in ((source, "t"), (target, "a.t"))]
    assert without_offsets(ours) == without_offsets(theirs)
    async with Consumer({"bootstrap.servers": target.bootstrap}) as consumer:
        await consumer.assign([TopicPartition("a.t", 0)])
        await consumer.seek_to_beginning()
        assert (await consumer.raw_batches(10_000))[0].header.record_count == 40


def test_new_partitions_and_topics_are_followed(source: Cluster, target: Cluster) -> None:
    run(new_partitions_and_topics_are_followed(source, target))


async def new_partitions_and_topics_are_followed(source: Cluster, target: Cluster) -> None:
    await create(source, "t", partitions=1, configs={"retention.ms": "111"})
    keys = {"refresh_topics_interval_seconds": "1", "sync_topic_configs_interval_seconds": "1"}
    async with mirroring(source, target, **keys), AdminClient({"bootstrap.servers": target.bootstrap}) as copies:
        async with AdminClient({"bootstrap.servers": source.bootstrap}) as admin:
            await admin.topics.grow({"t": 3})
            resource = ConfigResource(ResourceType.TOPIC, "t")
            await admin.configs.alter({resource: [ConfigChange("retention.ms", "222")]})
        await create(source, "u", partitions=2)

        async def is_followed() -> bool:
            topics = await copies.topics.all()
            if "a.u" not in topics or len(topics["a.t"].partitions) != 3:
                return False
            copy = ConfigResource(ResourceType.TOPIC, "a.t")
            entries = (await copies.configs.describe([copy]))[copy]
            assert not isinstance(entries, KafkaError)
            return {entry.name: entry.value for entry in entries}["retention.ms"] == "222"

        await until(is_followed)
