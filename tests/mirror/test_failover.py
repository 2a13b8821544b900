"""Failover and failback with groups that continue: nothing is lost, and nothing is read twice.

The records of a topic are numbered. A group reads some of them, is switched with the commands, and reads on; in the end
it has read every number once.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from typing import Any

import pytest

from ottla.cli.commands import migrate_clusters
from ottla.cli.commands.migrate_clusters import _switch_producers
from ottla.cli.failures import Failure
from ottla.cli.output import Output
from ottla.client.admin import AdminClient
from ottla.client.consumer import Consumer
from ottla.client.producer import Producer
from ottla.mirror.mirror import Mirror
from ottla.mirror.settings import FlowSettings, MirrorError, MirrorSettings, read_settings
from ottla.mirror.state import FlowEnded
from ottla.mirror.switching import failback, failover
from ottla.mirror.switching.failback import Failback
from ottla.mirror.switching.failover import Failover
from ottla.mirror.switching.report import SwitchReport
from ottla.model.errors import KafkaError
from ottla.testing.clusters import Cluster, cluster
from tests.mirror.flows import (
    create,
    has_no_lag,
    mirroring,
    numbers_of,
    produce,
    produce_transactions,
    properties_of,
    read_all,
    until,
)


@pytest.fixture(scope="module")
def pair() -> Iterator[tuple[Cluster, Cluster]]:
    with cluster() as source, cluster() as target:
        yield source, target


@pytest.fixture
def other_pair() -> Iterator[tuple[Cluster, Cluster]]:
    """For flows that stay failed over."""
    with cluster() as source, cluster() as target:
        yield source, target


class Killed(Exception):
    """The command dies before a step."""


def run(work: Coroutine[Any, Any, None]) -> None:
    async def limited() -> None:
        async with asyncio.timeout(150):
            await work

    asyncio.run(limited())


def settings_of(pair: tuple[Cluster, Cluster], topic: str, **keys: str) -> MirrorSettings:
    changes = {key.replace("_", "."): value for key, value in keys.items()}
    return read_settings(properties_of(*pair, {"topics": topic, "groups": f"{topic}-.*", **changes}))


async def switch(
    kind: type[Failover] | type[Failback],
    flow: FlowSettings,
    *,
    killed: bool,
    before_stop: Callable[[], Awaitable[None]] | None = None,
    brings_new_topics: bool = False,
) -> SwitchReport:
    """Runs the command; if `killed`, it dies before each step once, and is repeated."""
    died: set[str] = set()

    def on_step(name: str) -> None:
        if killed and name not in died:
            died.add(name)
            raise Killed

    while True:
        command = kind(flow, on_step)
        if isinstance(command, Failback):
            waiting = {} if before_stop is None else {"before_stop": before_stop}
            command = Failback(flow, on_step, **waiting, brings_new_topics=brings_new_topics)
        try:
            return await command.run()
        except Killed:
            pass
        finally:
            await command.close()


async def read_group(bootstrap: str, topic: str, group: str, count: int) -> list[int]:
    """The next numbers that a group reads; all of them are committed."""
    config = {
        "bootstrap.servers": bootstrap,
        "group.id": group,
        "auto.offset.reset": "earliest",
        "isolation.level": "read_committed",
        "enable.auto.commit": "false",
    }
    numbers: list[int] = []
    async with Consumer(config) as consumer:
        await consumer.subscribe([topic])
        async with asyncio.timeout(60):
            while len(numbers) < count:
                numbers += [
                    int(record.value[1:]) for record in await consumer.poll(500, max_records=count - len(numbers))
                ]
                await consumer.commit()
    return numbers


@pytest.mark.parametrize("naming", ["DefaultReplicationPolicy", "IdentityReplicationPolicy"])
def test_a_group_goes_there_and_back_by_commands_that_are_killed(pair: tuple[Cluster, Cluster], naming: str) -> None:
    run(a_group_goes_there_and_back(pair, naming))


async def a_group_goes_there_and_back(pair: tuple[Cluster, Cluster], naming: str) -> None:
    source, target = pair
    topic = f"t-{naming[:3]}"
    copy = topic if naming.startswith("Id") else f"a.{topic}"
    group = f"{topic}-g"
    keys = {"replication_policy_class": naming, "topics": topic}
    settings = settings_of(pair, topic, replication_policy_class=naming)
    (flow,) = settings.flows
    await create(source, topic, partitions=2)
    await produce(source.bootstrap, topic, range(40))
    await produce_transactions(source.bootstrap, topic, range(40, 60))
    written = [*range(45), *range(50, 55)]
    read = await read_group(source.bootstrap, topic, group, 30)
    async with mirroring(source, target, **keys):
        await until(lambda: has_no_lag(settings))
    # Not copied when the source is lost, and there when it is back.
    await produce(source.bootstrap, topic, range(60, 70))
    report = await switch(Failover, flow, killed=True)
    assert sum(offset_range.offsets for offset_range in report.not_copied) == 10
    assert report.groups == {group: 2}
    with pytest.raises(FlowEnded, match="failed over"):
        await Mirror(settings, runs_on="threads").run()
    read += await read_group(target.bootstrap, copy, group, 20)
    assert sorted(read) == sorted(written)
    await produce(target.bootstrap, copy, range(100, 130))
    read += await read_group(target.bootstrap, copy, group, 12)

    async def read_left_behind() -> None:
        if len(read) < 90:
            read.extend(await read_group(target.bootstrap, copy, group, 90 - len(read)))
            await produce(target.bootstrap, copy, range(130, 140))

    report = await switch(Failback, flow, killed=True, before_stop=read_left_behind)
    assert sum(offset_range.offsets for offset_range in report.not_copied) == 10
    all_numbers = [*written, *range(60, 70), *range(100, 140)]
    assert numbers_of(await read_all(source.bootstrap, topic, 100)) == all_numbers
    assert not report.repeating_groups
    read += await read_group(source.bootstrap, topic, group, 10)
    assert sorted(read) == all_numbers
    # The mirror runs as before: what came back is not copied again.
    async with mirroring(source, target, **keys):
        await produce(source.bootstrap, topic, range(200, 210))
        await read_all(target.bootstrap, copy, 110)
        await until(lambda: has_no_lag(settings))
    assert numbers_of(await read_all(target.bootstrap, copy, 110)) == [*all_numbers, *range(200, 210)]


def test_a_group_that_has_read_all_misses_and_repeats_nothing(pair: tuple[Cluster, Cluster]) -> None:
    source, target = pair

    async def work() -> None:
        settings = settings_of(pair, "all")
        (flow,) = settings.flows
        await create(source, "all", partitions=1)
        await produce(source.bootstrap, "all", range(20))
        async with mirroring(source, target, topics="all"):
            await until(lambda: has_no_lag(settings))
        assert await read_group(source.bootstrap, "all", "all-g", 20) == list(range(20))
        await switch(Failover, flow, killed=False)
        await produce(target.bootstrap, "a.all", range(20, 30))
        assert await read_group(target.bootstrap, "a.all", "all-g", 10) == list(range(20, 30))
        await switch(Failback, flow, killed=False)
        await produce(source.bootstrap, "all", range(30, 40))
        assert await read_group(source.bootstrap, "all", "all-g", 10) == list(range(30, 40))
        # A second time, in the same way.
        async with mirroring(source, target, topics="all"):
            await until(lambda: has_no_lag(settings))
        await switch(Failover, flow, killed=False)
        await produce(target.bootstrap, "a.all", range(40, 50))
        assert await read_group(target.bootstrap, "a.all", "all-g", 10) == list(range(40, 50))
        await switch(Failback, flow, killed=False)
        assert numbers_of(await read_all(source.bootstrap, "all", 50)) == list(range(50))
        assert numbers_of(await read_all(target.bootstrap, "a.all", 50)) == list(range(50))

    run(work())


def test_exact_offsets_go_there_and_back(pair: tuple[Cluster, Cluster]) -> None:
    source, target = pair
    topic, killed = "exact", True

    async def work() -> None:
        settings = settings_of(pair, topic, ottla_offsets="exact")
        (flow,) = settings.flows
        await create(source, topic, partitions=2)
        await produce_transactions(source.bootstrap, topic, range(40))
        read = await read_group(source.bootstrap, topic, f"{topic}-g", 7)
        async with mirroring(source, target, topics=topic, ottla_offsets="exact"):
            await until(lambda: has_no_lag(settings))
        report = await switch(Failover, flow, killed=killed)
        assert not report.not_copied
        assert await offsets_of(target, f"{topic}-g", "a.") == await offsets_of(source, f"{topic}-g")
        read += await read_group(target.bootstrap, f"a.{topic}", f"{topic}-g", 13)
        await produce_transactions(target.bootstrap, f"a.{topic}", range(100, 120))
        await switch(Failback, flow, killed=killed)
        theirs = await read_all(source.bootstrap, topic, 30)
        assert theirs == await read_all(target.bootstrap, f"a.{topic}", 30), "the same offsets"
        read += await read_group(source.bootstrap, topic, f"{topic}-g", 10)
        assert sorted(read) == numbers_of(theirs)
        async with mirroring(source, target, topics=topic, ottla_offsets="exact"):
            await produce(source.bootstrap, topic, range(200, 210))
            ours = await read_all(target.bootstrap, f"a.{topic}", 40)
        assert ours == await read_all(source.bootstrap, topic, 40)

    run(work())


@pytest.mark.parametrize("killed", [False, True], ids=["", "killed"])
def test_an_exact_copy_whose_source_went_on_loses_nothing(pair: tuple[Cluster, Cluster], killed: bool) -> None:
    source, target = pair
    topic = f"went-{killed}"

    async def work() -> None:
        settings = settings_of(pair, topic, ottla_offsets="exact")
        (flow,) = settings.flows
        await create(source, topic, partitions=1)
        await produce(source.bootstrap, topic, range(10))
        config = {"bootstrap.servers": source.bootstrap, "transactional.id": f"late-{topic}"}
        async with Producer(config) as producer:
            await producer.init_transactions()
            producer.begin_transaction()
            for number in range(10, 15):
                await producer.send(topic, b"v%d" % number, partition=0)
            await producer.flush()
            async with mirroring(source, target, topics=topic, ottla_offsets="exact"):
                await until(lambda: has_no_lag(settings))
            await switch(Failover, flow, killed=killed)
            # Open at the failover: aborted at the target, committed at the source.
            await producer.commit_transaction()
        await produce(source.bootstrap, topic, range(15, 20))
        assert await read_group(target.bootstrap, f"a.{topic}", f"{topic}-g", 10) == list(range(10))
        await produce(target.bootstrap, f"a.{topic}", range(30, 40))
        report = await switch(Failback, flow, killed=killed)
        (offset_range,) = report.not_copied
        assert (offset_range.topic, offset_range.partition, offset_range.first_offset, offset_range.end_offset) == (
            topic,
            0,
            10,
            21,
        )
        for where, name in ((source, topic), (target, f"a.{topic}")):
            assert numbers_of(await read_all(where.bootstrap, name, 30)) == [*range(20), *range(30, 40)]
        # The group has read neither the records that were not copied nor the later ones.
        read = await read_group(source.bootstrap, topic, f"{topic}-g", 20)
        assert sorted(read) == [*range(10, 20), *range(30, 40)]

    run(work())


@pytest.mark.parametrize("offsets", ["translated", "exact"])
def test_topics_that_were_created_after_the_failover_come_back_if_wanted(
    pair: tuple[Cluster, Cluster], offsets: str
) -> None:
    source, target = pair

    async def work() -> None:
        topics = f"{offsets}-.*"
        (flow,) = settings_of(pair, topics, ottla_offsets=offsets).flows
        keys = {"topics": topics, "ottla_offsets": offsets}
        await create(source, f"{offsets}-old", partitions=1)
        await produce(source.bootstrap, f"{offsets}-old", range(5))
        async with mirroring(source, target, **keys):
            await read_all(target.bootstrap, f"a.{offsets}-old", 5)
        await switch(Failover, flow, killed=False)
        for name in ("new", "newer"):
            await create(target, f"a.{offsets}-{name}", partitions=2)
            await produce(target.bootstrap, f"a.{offsets}-{name}", range(10))
        command = Failback(flow)
        try:
            assert (await command.verify()).new_topics == [f"{offsets}-new", f"{offsets}-newer"]
        finally:
            await command.close()
        group = f"{offsets}-new-g"
        read = await read_group(target.bootstrap, f"a.{offsets}-new", group, 4)
        await switch(Failback, flow, killed=True, brings_new_topics=True)
        assert numbers_of(await read_all(source.bootstrap, f"{offsets}-newer", 10)) == list(range(10))
        read += await read_group(source.bootstrap, f"{offsets}-new", group, 6)
        assert sorted(read) == list(range(10))
        # They are ordinary topics of the flow, and what came back is not copied again.
        settings = settings_of(pair, topics, ottla_offsets=offsets)
        async with mirroring(source, target, **keys):
            await produce(source.bootstrap, f"{offsets}-new", range(10, 15))
            await read_all(target.bootstrap, f"a.{offsets}-new", 15)
            await until(lambda: has_no_lag(settings))
        assert numbers_of(await read_all(target.bootstrap, f"a.{offsets}-new", 15)) == list(range(15))

    run(work())


def test_a_source_that_is_lost_is_not_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(failover, "SOURCE_SECONDS", 1.0)

    async def work(target: Cluster) -> None:
        with cluster() as source:
            settings = settings_of((source, target), "lost")
            (flow,) = settings.flows
            await create(source, "lost", partitions=1)
            await produce(source.bootstrap, "lost", range(20))
            assert await read_group(source.bootstrap, "lost", "lost-g", 8) == list(range(8))
            keys = {"topics": "lost", "groups": "lost-.*", "refresh_groups_interval_seconds": "1"}
            async with (
                mirroring(source, target, **keys),
                AdminClient({"bootstrap.servers": target.bootstrap}) as admin,
            ):
                await until(lambda: has_no_lag(settings))

                async def is_synced() -> bool:
                    return bool(await admin.groups.offsets("lost-g"))

                await until(is_synced)
        report = await switch(Failover, flow, killed=False)
        assert not report.source_answers
        assert any("does not answer" in sentence for sentence in report.what_to_do)
        assert await read_group(target.bootstrap, "a.lost", "lost-g", 12) == list(range(8, 20))

    with cluster() as target:
        run(work(target))


def test_a_running_mirror_ends_with_the_failover(other_pair: tuple[Cluster, Cluster]) -> None:
    pair = source, target = other_pair

    async def work() -> None:
        settings = settings_of(pair, "live")
        (flow,) = settings.flows
        await create(source, "live", partitions=2)
        running = asyncio.ensure_future(Mirror(settings, runs_on="threads").run())
        await produce(source.bootstrap, "live", range(20))
        await until(lambda: has_no_lag(settings))
        await read_all(target.bootstrap, "a.live", 20)
        await switch(Failover, flow, killed=False)
        await produce(source.bootstrap, "live", range(20, 30))
        with pytest.raises(FlowEnded, match="failed over"):
            await running
        assert numbers_of(await read_all(target.bootstrap, "a.live", 20)) == list(range(20))

    run(work())


def test_a_switch_of_producers_is_refused_unless_everything_is_copied(
    pair: tuple[Cluster, Cluster], monkeypatch: pytest.MonkeyPatch
) -> None:
    source, target = pair
    monkeypatch.setattr(failover, "SOURCE_SECONDS", 1.0)
    settings = settings_of(pair, "need")
    (flow,) = settings.flows
    output = Output(as_json=True)

    def write_late(*_: object, **__: object) -> None:
        """A producer still writes while the operator is asked."""
        thread = threading.Thread(target=lambda: asyncio.run(produce(source.bootstrap, "need", range(10, 15))))
        thread.start()
        thread.join()

    async def refused(flow: FlowSettings, reason: str) -> None:
        with pytest.raises(MirrorError, match=reason):
            await _switch_producers(output, flow, dry_run=False, yes=True)
        command = Failover(flow)
        assert (await command.verify()).phase == "running"
        await command.close()

    async def work() -> None:
        await create(source, "need", partitions=1)
        await produce(source.bootstrap, "need", range(10))
        async with mirroring(source, target, topics="need"):
            await until(lambda: has_no_lag(settings))
        with monkeypatch.context() as patched:
            patched.setattr(migrate_clusters, "confirm", write_late)
            await refused(flow, "5 offsets of a are not copied yet")
        (lost,) = settings_of(pair, "need", a_bootstrap_servers="127.0.0.1:1").flows
        await refused(lost, "does not answer")
        async with Producer({"bootstrap.servers": source.bootstrap, "transactional.id": "need"}) as producer:
            await producer.init_transactions()
            producer.begin_transaction()
            await producer.send("need", b"v20", partition=0)
            await producer.flush()
            await produce(source.bootstrap, "need", range(30, 35))
            async with mirroring(source, target, topics="need"):
                await until(lambda: has_no_lag(settings))
            await refused(flow, "Transactions are open in need-0")
            await producer.abort_transaction()
        async with mirroring(source, target, topics="need"):
            await until(lambda: has_no_lag(settings))
        await _switch_producers(output, flow, dry_run=False, yes=True)
        # Repeated after a producer has written at the old cluster: the operator learns of it.
        await produce(source.bootstrap, "need", range(40, 43))
        with pytest.raises(Failure, match="3 offsets were written at a after the copying had ended"):
            await _switch_producers(output, flow, dry_run=False, yes=True)
        await switch(Failback, flow, killed=False)

    run(work())


def test_failback_waits_for_records_behind_an_open_transaction(
    pair: tuple[Cluster, Cluster], monkeypatch: pytest.MonkeyPatch
) -> None:
    source, target = pair
    monkeypatch.setattr(failback, "_TRANSACTION_SECONDS", 1.0)

    async def work() -> None:
        settings = settings_of(pair, "behind")
        (flow,) = settings.flows
        await create(source, "behind", partitions=1)
        await produce(source.bootstrap, "behind", range(10))
        async with mirroring(source, target, topics="behind"):
            await until(lambda: has_no_lag(settings))
        await switch(Failover, flow, killed=False)
        async with Producer({"bootstrap.servers": target.bootstrap, "transactional.id": "behind"}) as producer:
            await producer.init_transactions()
            producer.begin_transaction()
            await producer.send("a.behind", b"v10", partition=0)
            await producer.flush()
            await produce(target.bootstrap, "a.behind", range(11, 20))
            with pytest.raises(MirrorError, match=r"Transactions are open in a\.behind-0"):
                await switch(Failback, flow, killed=False)
            await producer.commit_transaction()
        await switch(Failback, flow, killed=False)
        assert numbers_of(await read_all(source.bootstrap, "behind", 20)) == list(range(20))

    run(work())


def test_failback_needs_a_failover(pair: tuple[Cluster, Cluster]) -> None:
    (flow,) = settings_of(pair, "never", clusters="a, b").flows

    async def work() -> None:
        command = Failback(flow)
        try:
            with pytest.raises((MirrorError, KafkaError), match="before a failover is done"):
                await command.run()
        finally:
            await command.close()

    run(work())


async def offsets_of(where: Cluster, group: str, prefix: str = "") -> dict[int, int]:
    async with AdminClient({"bootstrap.servers": where.bootstrap}) as admin:
        offsets = await admin.groups.offsets(group)
        return {
            place.partition: committed.offset for place, committed in offsets.items() if place.topic.startswith(prefix)
        }
