"""Where an application begins to read, and how it goes on after failures: nothing is skipped or waits for ever."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from examples.streams.word_count import build as word_count
from ottla.client.admin.offsets import EARLIEST
from ottla.client.cluster import Cluster
from ottla.client.consumer import Consumer, ConsumerSettings
from ottla.client.settings import ClientSettings, parse_bootstrap
from ottla.model.errors import ErrorCode, KafkaError
from ottla.model.ids import TopicPartition
from ottla.streams import Consumed, Joined, Materialized, Produced, Serdes, StreamsBuilder
from ottla.streams.disk import task_state
from ottla.streams.runtime import local_states, restore
from ottla.streams.runtime.config import ApplicationConfig
from ottla.streams.runtime.prepare import remove_surplus_members
from ottla.streams.runtime.worker import Worker
from tests.streams.live import Live, eventually
from tests.streams.test_application import total
from tests.streams.test_application_state import name, start

__all__ = ["name"]

TEXT = Serdes.string()


def copying(name: str, consumed: Consumed | None = None) -> Any:
    builder = StreamsBuilder()
    source = builder.stream(f"{name}-in", consumed or Consumed.with_(TEXT, TEXT))
    source.to(f"{name}-out", Produced.with_(TEXT, TEXT))
    return builder.build()


def joining(name: str, consumed: Consumed) -> Any:
    builder = StreamsBuilder()
    table = builder.table(f"{name}-table", consumed)
    joined = builder.stream(f"{name}-in", consumed).left_join(
        table, lambda value, row: f"{value} {row}", Joined.with_(TEXT, TEXT, TEXT)
    )
    joined.to(f"{name}-out", Produced.with_(TEXT, TEXT))
    return builder.build()


@pytest.fixture
def failures(monkeypatch: pytest.MonkeyPatch) -> list[Worker | None]:
    """The next steps of workers fail: one step for each entry of this list."""
    failures_left: list[Worker | None] = []
    step = Worker._step

    async def step_or_fail(worker: Worker, report: Any) -> None:
        if failures_left:
            failures_left.pop()
            raise KafkaError(ErrorCode.NETWORK_EXCEPTION, "a broker restarts")
        await step(worker, report)

    monkeypatch.setattr(Worker, "_step", step_or_fail)
    return failures_left


# The first offset.


def test_a_reset_by_duration(live: Live, name: str, tmp_path: Path) -> None:
    live.create(f"{name}-in", f"{name}-out", partitions=1)
    live.write(f"{name}-in", [("k", "x")])
    application = start(live, copying(name), name, tmp_path, **{"auto.offset.reset": "by_duration:PT1H"})
    eventually(lambda: len(live.read(f"{name}-out")) == 1)
    assert application.close()


def test_a_source_has_its_own_policy_also_after_retention(live: Live, name: str, tmp_path: Path) -> None:
    consumed = Consumed.with_(TEXT, TEXT).with_offset_reset_policy("earliest")
    place = TopicPartition(f"{name}-in", 0)
    live.create(f"{name}-in", f"{name}-out", partitions=1)
    live.write(f"{name}-in", [(f"a{number}", "x") for number in range(10)])
    application = start(live, copying(name, consumed), name, tmp_path, **{"auto.offset.reset": "latest"})
    eventually(lambda: len(live.read(f"{name}-out")) == 10)
    assert application.close()
    # Retention removes records that the application has not read yet.
    live.write(f"{name}-in", [(f"b{number}", "x") for number in range(10)])
    live.admin.call(lambda admin: admin.offsets.delete_records({place: 15}))
    application = start(live, copying(name, consumed), name, tmp_path, **{"auto.offset.reset": "latest"})
    eventually(lambda: len(live.read(f"{name}-out")) == 15)
    assert application.close()


def test_a_committed_offset_behind_the_end_of_the_log(live: Live, name: str, tmp_path: Path) -> None:
    """Records were lost, or the topic was deleted and created again."""
    live.create(f"{name}-in", f"{name}-out", partitions=1)
    live.write(f"{name}-in", [(f"k{number}", "x") for number in range(10)])
    live.admin.call(lambda admin: admin.groups.alter_offsets(name, {TopicPartition(f"{name}-in", 0): 100}))
    application = start(live, copying(name), name, tmp_path)
    eventually(lambda: len(live.read(f"{name}-out")) == 10)
    assert application.close()


# Several inputs.


def event_time(record: Any, _: int) -> int:
    return int(record.value.split(":")[0])


def test_a_table_that_was_written_later_but_is_older(live: Live, name: str, tmp_path: Path) -> None:
    """Of several inputs, the record with the smallest extracted timestamp comes first."""
    consumed = Consumed.with_(TEXT, TEXT).with_timestamp_extractor(event_time)
    live.create(f"{name}-in", f"{name}-table", f"{name}-out", partitions=1)
    for _ in range(10):
        live.write(f"{name}-in", [("k", "100:stream")] * 20, timestamp_ms=1_000)
    live.write(f"{name}-table", [("k", "10:table")], timestamp_ms=5_000)
    topology = joining(name, consumed)
    application = start(live, topology, name, tmp_path, **{"consumer.max.partition.fetch.bytes": 200})
    eventually(lambda: len(live.read(f"{name}-out")) == 200)
    assert {value for _, value in live.read(f"{name}-out")} == {"100:stream 10:table"}
    assert application.close()


def test_a_join_does_not_wait_for_an_empty_partition_after_a_failure(
    live: Live, name: str, tmp_path: Path, failures: list[Worker | None]
) -> None:
    live.create(f"{name}-in", f"{name}-table", f"{name}-out", partitions=1)
    application = start(live, joining(name, Consumed.with_(TEXT, TEXT)), name, tmp_path)
    failures.append(None)
    eventually(lambda: not failures)
    live.write(f"{name}-in", [("k", "x")] * 20, timestamp_ms=1_000)
    eventually(lambda: len(live.read(f"{name}-out")) == 20)
    assert application.close()


def test_the_end_of_an_empty_partition_is_known_after_a_seek(live: Live, name: str) -> None:
    """Only the response to the fetch before the seek contains the end."""
    live.create(f"{name}-in", partitions=1)
    place = TopicPartition(f"{name}-in", 0)

    async def scenario() -> None:
        cluster = Cluster(ClientSettings(bootstrap_servers=parse_bootstrap(live.bootstrap)))
        async with Consumer(cluster, ConsumerSettings(auto_offset_reset="earliest", read_committed=True)) as consumer:
            await consumer.assign([place])
            consumer.seek(place, 0)
            await consumer.raw_batches(100)
            consumer.seek(place, 0)
            async with asyncio.timeout(60):
                while consumer.lag(place) is None:
                    await consumer.raw_batches(100)
            assert consumer.lag(place) == 0
        await cluster.close()

    asyncio.run(scenario())


# Failures.


def test_an_idle_application_forgets_a_failure_that_is_over(
    live: Live, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failures: list[Worker | None]
) -> None:
    """Two failures far apart are not a single failure that lasts longer than task.timeout.ms."""
    seen: list[Worker] = []
    step = Worker._step

    async def noted(worker: Worker, report: Any) -> None:
        seen.append(worker)
        await step(worker, report)

    monkeypatch.setattr(Worker, "_step", noted)
    live.create(f"{name}-in", f"{name}-out", partitions=1)
    application = start(live, copying(name), name, tmp_path)
    failures.append(None)
    eventually(lambda: seen[-1]._trouble_since is not None)
    eventually(lambda: seen[-1]._trouble_since is None)
    assert application.close()


def test_repartition_records_are_deleted_only_up_to_committed_offsets(
    live: Live, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refusals = 0

    async def refuse(*_: Any) -> None:
        nonlocal refusals
        refusals += 1
        raise KafkaError(ErrorCode.REBALANCE_IN_PROGRESS, "the group forms its next generation")

    live.create(f"{name}-in", f"{name}-out", partitions=1)
    properties = {
        "processing.guarantee": "at_least_once",
        "repartition.purge.interval.ms": 0,
        "task.timeout.ms": 60_000,
    }
    application = start(live, word_count(f"{name}-in", f"{name}-out"), name, tmp_path, **properties)
    with monkeypatch.context() as rebalance:
        rebalance.setattr(Consumer, "commit", refuse)
        live.write(f"{name}-in", [(None, "a b c")])
        eventually(lambda: total(live, f"{name}-out") == 3)
        refused_before = refusals
        live.write(f"{name}-in", [(None, "a b c")])
        eventually(lambda: total(live, f"{name}-out") == 6 and refusals > refused_before + 1)
        (topic,) = [
            topic_name
            for topic_name in live.topics()
            if topic_name.startswith(f"{name}-") and topic_name.endswith("repartition")
        ]
        place = TopicPartition(topic, 0)
        first = live.admin.call(lambda admin: admin.offsets.numbers([place], EARLIEST))[place]
        committed = live.admin.call(lambda admin: admin.groups.offsets(name))
        assert first <= (committed[place].offset if place in committed else 0)
    application.close()


def test_members_of_an_instance_with_a_longer_name_stay(live: Live, name: str, tmp_path: Path) -> None:
    live.create(f"{name}-in", f"{name}-out", partitions=1)
    application = start(live, copying(name), name, tmp_path, **{"group.instance.id": "node-b"})
    # The instance `node` starts with these settings.
    config = ApplicationConfig.from_properties(
        {"application.id": name, "bootstrap.servers": live.bootstrap, "group.instance.id": "node"}
    )
    asyncio.run(remove_surplus_members(config, "unused"))
    group: Any = live.admin.call(lambda admin: admin.groups.describe([name]))[name]
    assert [member.instance_id for member in group.members] == ["node-b-0"]
    assert application.close()


@pytest.mark.parametrize("is_killed", [False, True])
def test_a_restore_in_parts_with_a_key_that_is_too_long_for_the_table(
    live: Live, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_killed: bool
) -> None:
    monkeypatch.setattr(restore, "_LOAD_RECORDS", 100)
    monkeypatch.setattr(restore, "_LOAD_BYTES", 2_000)
    monkeypatch.setattr(restore, "_FETCH_BYTES", 1_000)
    monkeypatch.setattr(task_state, "_LOAD_ROWS", 50)
    builder = StreamsBuilder()
    builder.stream(f"{name}-in", Consumed.with_(TEXT, TEXT)).to_table(
        Materialized.as_("rows").with_key_serde(TEXT).with_value_serde(TEXT)
    )
    topology = builder.build()
    live.create(f"{name}-in", partitions=1)
    expected: dict[str, str] = {}
    for turn in range(4):
        rows = [(f"k{number}", f"{turn}-{number}") for number in range(100)]
        if turn == 1:
            rows.append(("long" * 200, "x"))
        expected |= dict(rows)
        live.write(f"{name}-in", rows)
        application = start(live, topology, name, tmp_path / "one")
        eventually(lambda: live.lag(name) == 0)
        assert application.close()
    if is_killed:
        # The process dies right after the restore: nothing is committed to the local state.
        with monkeypatch.context() as killed:
            killed.setattr(local_states.LocalStates, "_begin", lambda *_: None)
            assert start(live, topology, name, tmp_path / "two").close()
    application = start(live, topology, name, tmp_path / "two")
    assert {key: row.value for key, row in application.store("rows").all()} == expected
    assert application.close()
