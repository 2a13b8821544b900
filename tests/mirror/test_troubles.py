"""What a mirror does when its transactions time out, another mirror runs, or it may not write to the source."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from ottla.client.admin import AdminClient
from ottla.client.errors import LogTruncated
from ottla.client.producer import Producer
from ottla.mirror import groups
from ottla.mirror.copying.reading import PairReader
from ottla.mirror.copying.translated import TranslatedCopier
from ottla.mirror.copying.workers import copy_forever
from ottla.mirror.flow import FlowDriver
from ottla.mirror.settings import FlowSettings, MirrorError, read_settings
from ottla.model.errors import ErrorCode, KafkaError
from ottla.model.ids import TopicPartition
from ottla.testing.clusters import Cluster, cluster
from tests.mirror.flows import create, mirroring, produce, properties_of, read_all, until

TWO = {"clusters": "a, b", "a.bootstrap.servers": "h1:1", "b.bootstrap.servers": "h2:2", "a->b.enabled": "true"}


@pytest.fixture(scope="module")
def pair() -> Iterator[tuple[Cluster, Cluster]]:
    with cluster() as source, cluster() as target:
        yield source, target


def flow_of(**changes: str) -> FlowSettings:
    (flow,) = read_settings({**TWO, **changes}).flows
    return flow


@pytest.mark.parametrize("seconds", [1, 61])
def test_a_transaction_that_timed_out_is_no_other_mirror(monkeypatch: pytest.MonkeyPatch, seconds: int) -> None:
    begun: list[TranslatedCopier] = []

    async def fenced(copier: TranslatedCopier) -> None:
        begun.append(copier)
        copier._is_open = True
        copier._begun_at = asyncio.get_running_loop().time() - seconds
        raise KafkaError(ErrorCode.INVALID_PRODUCER_EPOCH)

    async def do_nothing(_: object) -> None:
        return

    monkeypatch.setattr(Producer, "init_transactions", do_nothing)
    monkeypatch.setattr(TranslatedCopier, "_step", fenced)

    async def work() -> None:
        await copy_forever(flow_of(), 0, lambda: bool(begun))

    if seconds < 60:
        with pytest.raises(MirrorError, match="another mirror"):
            asyncio.run(work())
    else:
        asyncio.run(work())


def test_a_source_that_has_lost_copied_records_ends_the_mirror(monkeypatch: pytest.MonkeyPatch) -> None:
    async def truncated(_reader: PairReader, _wait_ms: int) -> None:
        raise LogTruncated(TopicPartition("t", 3), position=17, leader_epoch=2, end=(1, 12))

    monkeypatch.setattr(PairReader, "batches", truncated)

    async def read() -> None:
        await TranslatedCopier(flow_of(), 0)._read(1)

    with pytest.raises(MirrorError, match="t-3 is copied up to offset 17, but a has lost records"):
        asyncio.run(read())


def test_a_source_that_refuses_heartbeats_is_copied(
    pair: tuple[Cluster, Cluster], monkeypatch: pytest.MonkeyPatch
) -> None:
    source, target = pair
    create_topics = FlowDriver._create

    async def refused(driver: FlowDriver, where: object, names: list[str]) -> None:
        if "heartbeats" in names:
            raise KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        await create_topics(driver, where, names)  # type: ignore[arg-type]

    monkeypatch.setattr(FlowDriver, "_create", refused)
    (flow,) = read_settings(properties_of(source, target, {"emit.heartbeats.enabled": "true"})).flows

    async def work() -> None:
        driver = FlowDriver(flow)
        try:
            await driver.start()
        finally:
            await driver.close()

    asyncio.run(work())


def test_latest_is_remembered_from_the_start(pair: tuple[Cluster, Cluster]) -> None:
    source, target = pair

    async def work() -> None:
        await create(source, "late", partitions=1)
        await produce(source.bootstrap, "late", range(10))
        keys = {"consumer_auto_offset_reset": "latest", "topics": "late"}
        async with (
            mirroring(source, target, **keys) as mirror,
            AdminClient({"bootstrap.servers": target.bootstrap}) as admin,
        ):
            group_id = mirror.settings.flows[0].group_id

            async def is_committed() -> bool:
                return TopicPartition("a.late", 0) in await admin.groups.offsets(group_id)

            await until(is_committed)
        # While no mirror runs.
        await produce(source.bootstrap, "late", range(10, 20))
        async with mirroring(source, target, **keys):
            ours = await read_all(target.bootstrap, "a.late", 10)
        assert [record[3] for record in ours] == [b"v%d" % number for number in range(10, 20)]

    asyncio.run(asyncio.wait_for(work(), 90))


def test_a_limit_of_bytes_does_not_keep_transactions_open(pair: tuple[Cluster, Cluster]) -> None:
    source, target = pair

    async def work() -> None:
        await create(source, "slow", partitions=1)
        # Too large to be joined.
        values = [b"%d" % number * 4_000 for number in range(4)]
        async with Producer({"bootstrap.servers": source.bootstrap}) as producer:
            for value in values:
                await producer.send_and_wait("slow", value)
        # Each batch has to wait for longer than the interval of commits.
        async with mirroring(source, target, topics="slow", ottla_bytes_per_second="10000"):
            ours = await read_all(target.bootstrap, "a.slow", 4)
        offsets = [int(str(record[1])) for record in ours]
        assert [record[3] for record in ours] == values
        assert offsets[-1] > 3, "markers are between the batches"

    asyncio.run(asyncio.wait_for(work(), 90))


def test_the_map_does_not_grow_for_ever(pair: tuple[Cluster, Cluster]) -> None:
    source, target = pair
    place = TopicPartition("old", 0)

    async def work() -> None:
        await create(source, "old", partitions=1)
        async with mirroring(source, target, topics="old", emit_checkpoints_enabled="false") as mirror:
            for number in range(4):
                # Every record is in a transaction of its own.
                await produce(source.bootstrap, "old", range(number, number + 1))
                await read_all(target.bootstrap, "a.old", number + 1)
        async with AdminClient({"bootstrap.servers": source.bootstrap}) as admin:
            await admin.offsets.delete_records({place: 2})
        for forgotten in (2, 0):
            # The second driver reads the deletions of the first driver.
            driver = FlowDriver(mirror.settings.flows[0])
            await driver.groups.translator.refresh()
            assert await driver.groups.trim_map() == forgotten
            ours = await read_all(target.bootstrap, "a.old", 4)
            assert [driver.groups.translator.translate(place, offset) for offset in (2, 3)] == [
                record[1] for record in ours[2:]
            ]
            await driver.close()

    asyncio.run(asyncio.wait_for(work(), 90))


def test_the_map_of_a_source_that_deletes_nothing_is_thinned(
    pair: tuple[Cluster, Cluster], monkeypatch: pytest.MonkeyPatch
) -> None:
    source, target = pair
    place = TopicPartition("kept", 0)
    monkeypatch.setattr(groups, "_RUNS_OF_PARTITION_MIN", 4)

    async def work() -> None:
        await create(source, "kept", partitions=1)
        async with mirroring(source, target, topics="kept", emit_checkpoints_enabled="false") as mirror:
            for number in range(8):
                # Every record is in a transaction of its own.
                await produce(source.bootstrap, "kept", range(number, number + 1))
                await read_all(target.bootstrap, "a.kept", number + 1)
        offsets = [record[1] for record in await read_all(target.bootstrap, "a.kept", 8)]
        for removed in (5, 0):
            # The second driver reads the runs that the first driver has kept.
            driver = FlowDriver(mirror.settings.flows[0])
            await driver.groups.translator.refresh()
            assert await driver.groups.trim_map(runs_max=4) == removed
            translated = [driver.groups.translator.translate(place, offset) for offset in range(8)]
            # Before the gap, in it (early by the number of markers before the record), and behind it.
            assert translated == [offsets[0], *range(1, 6), *offsets[6:]]
            await driver.close()

    asyncio.run(asyncio.wait_for(work(), 90))


def test_a_copy_that_was_deleted_is_made_again_from_the_beginning(pair: tuple[Cluster, Cluster]) -> None:
    source, target = pair

    async def work() -> None:
        await create(source, "gone", partitions=1)
        await produce(source.bootstrap, "gone", range(20))
        async with mirroring(source, target, topics="gone", refresh_topics_interval_seconds="1"):
            await read_all(target.bootstrap, "a.gone", 20)
            async with AdminClient({"bootstrap.servers": target.bootstrap}) as admin:
                await admin.topics.delete(["a.gone"])

                async def is_there_again() -> bool:
                    return "a.gone" in await admin.topics.all()

                await until(is_there_again)
            ours = await read_all(target.bootstrap, "a.gone", 20)
        assert [record[3] for record in ours] == [b"v%d" % number for number in range(20)]

    asyncio.run(asyncio.wait_for(work(), 90))
