"""Runs of a mirror that follow each other: workers of the earlier run end, and positions outlive committed offsets."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from ottla.client.admin import AdminClient
from ottla.client.consumer.decode import ConsumedBatch
from ottla.mirror.copying.batches import modern_batch
from ottla.mirror.copying.pairs import Pair, find_pairs
from ottla.mirror.copying.translated import TranslatedCopier
from ottla.mirror.copying.workers import copy_forever
from ottla.mirror.flow import FlowDriver
from ottla.mirror.offset_map import OffsetMap, Origin, Run
from ottla.mirror.settings import FlowSettings, MirrorError, read_settings
from ottla.mirror.state import FlowEnded
from ottla.model.ids import TopicPartition
from ottla.records.header import read_header
from ottla.records.legacy import build_message_set
from ottla.records.record import Record
from ottla.testing.clusters import Cluster, cluster
from tests.mirror.flows import create, has_no_lag, mirroring, numbers_of, produce, properties_of, read_all, until


@pytest.fixture(scope="module")
def pair() -> Iterator[tuple[Cluster, Cluster]]:
    with cluster() as source, cluster() as target:
        yield source, target


def flow_of(pair: tuple[Cluster, Cluster], **keys: str) -> FlowSettings:
    changes = {key.replace("_", "."): value for key, value in keys.items()}
    (flow,) = read_settings(properties_of(*pair, changes)).flows
    return flow


async def started(flow: FlowSettings) -> FlowDriver:
    driver = FlowDriver(flow)
    await driver.start()
    return driver


@pytest.mark.parametrize("offsets", ["translated", "exact"])
def test_workers_above_a_lowered_tasks_max_end(pair: tuple[Cluster, Cluster], offsets: str) -> None:
    source, target = pair
    topic = f"many-{offsets}"

    async def work() -> None:
        await create(source, topic, partitions=8)
        await produce(source.bootstrap, topic, range(100))
        keys = {"topics": topic, "ottla_offsets": offsets}
        first = await started(flow_of(pair, tasks_max="3", **keys))
        workers = [
            asyncio.ensure_future(copy_forever(first.flow, number, lambda: False, first.run_id)) for number in range(3)
        ]
        await read_all(target.bootstrap, f"a.{topic}", 100)
        # The second run has one worker: it copies partitions that those of the first run have copied.
        second = await started(flow_of(pair, **keys))
        is_over = asyncio.Event()
        worker = asyncio.ensure_future(copy_forever(second.flow, 0, is_over.is_set, second.run_id))
        await produce(source.bootstrap, topic, range(100, 300))
        ended = await asyncio.gather(*workers, return_exceptions=True)
        assert all(isinstance(error, FlowEnded) and "another mirror" in str(error) for error in ended), ended
        await read_all(target.bootstrap, f"a.{topic}", 300)
        is_over.set()
        await worker
        assert (await second.lag()).records == 0
        await asyncio.gather(first.close(), second.close())
        assert numbers_of(await read_all(target.bootstrap, f"a.{topic}", 300)) == list(range(300))

    asyncio.run(asyncio.wait_for(work(), 90))


def test_a_position_outlives_the_committed_offset(pair: tuple[Cluster, Cluster]) -> None:
    source, target = pair

    async def work() -> None:
        await create(source, "weeks", partitions=2)
        await produce(source.bootstrap, "weeks", range(50))
        async with mirroring(source, target, topics="weeks") as mirror:
            await read_all(target.bootstrap, "a.weeks", 50)
            await until(lambda: has_no_lag(mirror.settings))
        async with AdminClient({"bootstrap.servers": target.bootstrap}) as admin:
            # As the target does after offsets.retention.minutes.
            await admin.groups.delete([mirror.settings.flows[0].group_id])
        await produce(source.bootstrap, "weeks", range(50, 60))
        async with mirroring(source, target, topics="weeks") as mirror:
            await read_all(target.bootstrap, "a.weeks", 60)
            await until(lambda: has_no_lag(mirror.settings))
        ours = await read_all(target.bootstrap, "a.weeks", 60)
        assert numbers_of(ours) == list(range(60))

    asyncio.run(asyncio.wait_for(work(), 90))


def test_a_pair_that_comes_back_to_a_copier_continues(pair: tuple[Cluster, Cluster]) -> None:
    source, target = pair

    async def work() -> None:
        flow = flow_of(pair, topics="away")
        await create(source, "away", partitions=1)
        await produce(source.bootstrap, "away", range(50))
        async with mirroring(source, target, topics="away") as mirror:
            await read_all(target.bootstrap, "a.away", 50)
            await until(lambda: has_no_lag(mirror.settings))
        copier = TranslatedCopier(flow, 0)
        async with (
            AdminClient({"bootstrap.servers": source.bootstrap}) as theirs,
            AdminClient({"bootstrap.servers": target.bootstrap}) as ours,
        ):
            pairs = find_pairs(flow, await theirs.topics.all(), await ours.topics.all(), worker=0, workers=1)
            place = TopicPartition("away", 0)
            assert (await copier.find_positions(pairs))[place] == 50
            # Its position expires while the mirror has no right to see the topic.
            await ours.groups.delete([flow.group_id])
            assert (await copier.find_positions(pairs))[place] == 50
        await copier.run(lambda: True)

    asyncio.run(asyncio.wait_for(work(), 90))


def test_a_position_that_the_source_does_not_have(
    pair: tuple[Cluster, Cluster], caplog: pytest.LogCaptureFixture
) -> None:
    """Below the first record the copy continues at it, also with `latest`; above the end it does not continue."""
    source, target = pair

    async def work() -> None:
        place = TopicPartition("short", 0)
        keys = {"topics": "short", "consumer_auto_offset_reset": "latest"}
        flow = flow_of(pair, **keys)
        await create(source, "short", partitions=1)
        async with mirroring(source, target, **keys) as mirror:
            await until(lambda: exists(target, "a.short"))
            await until(lambda: has_position(target, flow.group_id, TopicPartition("a.short", 0)))
            await produce(source.bootstrap, "short", range(10))
            await read_all(target.bootstrap, "a.short", 10)
            await until(lambda: has_no_lag(mirror.settings))
        await produce(source.bootstrap, "short", range(10, 30))
        async with AdminClient({"bootstrap.servers": source.bootstrap}) as admin:
            await admin.offsets.delete_records({place: 15})
        async with mirroring(source, target, **keys):
            ours = await read_all(target.bootstrap, "a.short", 25)
        assert numbers_of(ours) == [*range(10), *range(15, 30)]
        assert "short-0 has deleted the records from 10 to 14" in caplog.text
        copier = TranslatedCopier(flow, 0)
        with pytest.raises(MirrorError, match="has lost records"):
            await copier._deleted_before({place: 31})
        await copier.run(lambda: True)

    asyncio.run(asyncio.wait_for(work(), 90))


def test_records_that_are_deleted_while_a_copier_runs(pair: tuple[Cluster, Cluster]) -> None:
    source, target = pair

    class LateCopier(TranslatedCopier):
        """The first records are deleted after it has found its positions."""

        async def find_positions(self, new: list[Pair]) -> dict[TopicPartition, int]:
            return dict.fromkeys(await super().find_positions(new), 0)

    async def work() -> None:
        await create(source, "late", partitions=1)
        await create(target, "a.late", partitions=1)
        await produce(source.bootstrap, "late", range(20))
        async with AdminClient({"bootstrap.servers": source.bootstrap}) as admin:
            await admin.offsets.delete_records({TopicPartition("late", 0): 5})
        driver = await started(flow_of(pair, topics="late"))
        is_over = asyncio.Event()
        copying = asyncio.ensure_future(LateCopier(driver.flow, 0, driver.run_id).run(is_over.is_set))
        assert numbers_of(await read_all(target.bootstrap, "a.late", 15)) == list(range(5, 20))
        is_over.set()
        await copying
        await driver.close()

    asyncio.run(asyncio.wait_for(work(), 90))


async def exists(where: Cluster, topic: str) -> bool:
    async with AdminClient({"bootstrap.servers": where.bootstrap}) as admin:
        return topic in await admin.topics.all()


async def has_position(where: Cluster, group: str, place: TopicPartition) -> bool:
    async with AdminClient({"bootstrap.servers": where.bootstrap}) as admin:
        return place in await admin.groups.offsets(group)


def test_a_topic_that_was_made_again_while_no_mirror_ran_is_no_continuation(
    pair: tuple[Cluster, Cluster], caplog: pytest.LogCaptureFixture
) -> None:
    source, target = pair

    async def work() -> None:
        keys = {"topics": "again", "ottla_offsets": "exact"}
        await create(source, "again", partitions=1)
        await produce(source.bootstrap, "again", range(10))
        async with mirroring(source, target, **keys):
            await read_all(target.bootstrap, "a.again", 10)
        async with AdminClient({"bootstrap.servers": source.bootstrap}) as admin:
            await admin.topics.delete(["again"])

            async def is_gone() -> bool:
                return "again" not in await admin.topics.all()

            await until(is_gone)
        await create(source, "again", partitions=1)
        await produce(source.bootstrap, "again", range(100, 130))
        async with mirroring(source, target, **keys):

            async def is_said() -> bool:
                return "again was deleted and made again at the source" in caplog.text

            await until(is_said)
        ours = await read_all(target.bootstrap, "a.again", 10)
        assert [record[3] for record in ours] == [b"v%d" % number for number in range(10)]

    asyncio.run(asyncio.wait_for(work(), 90))


def test_a_batch_of_the_old_format_keeps_its_offsets() -> None:
    records = [Record(offset=40 + index, timestamp=1_000 + index, key=b"k", value=b"v%d" % index) for index in range(3)]
    view = memoryview(build_message_set(records, magic=1))
    first = read_header(view, 0)
    header, content = modern_batch(ConsumedBatch(TopicPartition("t", 0), first, view[: first.size]))
    assert (header.magic, header.base_offset, header.next_offset) == (2, 40, 41)
    assert read_header(content, 0).record_count == 1


def test_an_origin_is_a_record_of_its_own_kind() -> None:
    place, origin = TopicPartition("t", 3), Origin(17, "x/y")
    assert Origin.decode(origin.key(place), origin.value()) == (place, origin)
    run = Run(1, 2, 3)
    assert Origin.decode(run.key(place), run.value()) is None


def test_a_map_says_where_it_ends_and_translates_both_ways() -> None:
    offset_map = OffsetMap()
    assert (offset_map.source_end, offset_map.target_end, offset_map.source_of_first_copied(0)) == (0, 0, None)
    offset_map.add(Run(10, 100, 5))
    offset_map.add(Run(20, 106, 5))
    assert (offset_map.source_end, offset_map.target_end) == (25, 111)
    assert [offset_map.target_of_first_copied(offset) for offset in (0, 12, 15, 24, 25)] == [100, 102, 106, 110, None]
    assert [offset_map.source_of_first_copied(offset) for offset in (0, 104, 105, 107, 110, 111)] == [
        *(10, 14, 20, 21, 24),
        None,
    ]
