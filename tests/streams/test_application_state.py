"""State on disk of running applications: which state a restart uses, and which it discards."""

from __future__ import annotations

import itertools
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from examples.streams.word_count import build as word_count
from ottla.streams import (
    Application,
    Consumed,
    Grouped,
    Materialized,
    Produced,
    Serdes,
    StateRestoreListener,
    StreamsBuilder,
    StreamsError,
)
from ottla.streams.disk import task_state
from ottla.streams.machine import StreamTask
from ottla.streams.runtime import local_states, restore
from tests.streams.live import Live, eventually
from tests.streams.test_application import assert_exact, expected, lines, total

TEXT = Serdes.string()
_numbers = itertools.count()


@pytest.fixture
def name(monkeypatch: pytest.MonkeyPatch) -> str:
    # Every commit also commits the local state.
    monkeypatch.setattr(local_states, "_INTERVAL_S", 0.0)
    return f"state{next(_numbers)}"


def start(live: Live, topology: Any, name: str, directory: Path, **properties: Any) -> Application:
    settings = {
        "application.id": name,
        "bootstrap.servers": live.bootstrap,
        "processing.guarantee": "exactly_once_v2",
        "commit.interval.ms": 20,
        "state.dir": str(directory),
        **properties,
    }
    application = Application(topology, settings, runs_on="threads")
    application.start()
    application.wait_running(60)
    return application


def restored(application: Application) -> int:
    return sum(report["restored"] for report in application.statistics().values())


def test_a_restart_reads_the_changelog_from_its_position_only(live: Live, name: str, tmp_path: Path) -> None:
    """Two machines take turns: each brings its own older state up to date. A lost directory costs a full restore."""
    live.create(f"{name}-in", f"{name}-out", partitions=1)
    written = []
    restored_counts = []
    machines = [tmp_path / "one", tmp_path / "two", tmp_path / "one", tmp_path / "one"]
    for turn, machine in enumerate(machines):
        if turn == 3:
            shutil.rmtree(machine)
        written.append([(None, f"turn{turn} all")])
        live.write(f"{name}-in", written[-1])
        application = start(live, word_count(f"{name}-in", f"{name}-out"), name, machine)
        restored_counts.append(restored(application))
        eventually(lambda: total(live, f"{name}-out") >= sum(expected(*written).values()))
        assert application.close()
    assert restored_counts == [0, 2, 2, 6]
    assert_exact(live, f"{name}-out", expected(*written))


class _Stumbling:
    """A reducer that fails at a value, after the records before it have changed the store."""

    def __init__(self, stumbles: bool) -> None:
        self._stumbles = stumbles

    def __call__(self, before: str, after: str) -> str:
        if self._stumbles and after == "!":
            raise ValueError("this value is not for me")
        return before + after


@pytest.mark.parametrize("is_cut_short", [False, True])
def test_what_was_not_committed_is_not_in_the_state(live: Live, name: str, tmp_path: Path, is_cut_short: bool) -> None:
    def build(*, stumbles: bool) -> Any:
        builder = StreamsBuilder()
        stream = builder.stream(f"{name}-in", Consumed.with_(TEXT, TEXT)).group_by_key(Grouped.with_(TEXT, TEXT))
        table = stream.reduce(_Stumbling(stumbles), Materialized.as_("texts").with_value_serde(TEXT))
        table.to_stream().to(f"{name}-out", Produced.with_(TEXT, TEXT))
        return builder.build()

    live.create(f"{name}-in", f"{name}-out", partitions=1)
    application = start(live, build(stumbles=True), name, tmp_path)
    live.write(f"{name}-in", [("k", "a"), ("k", "b")])
    eventually(lambda: total(live, f"{name}-out") == 2)
    live.write(f"{name}-in", [("k", "c"), ("other", "x"), ("k", "!"), ("k", "d")])
    with pytest.raises((ValueError, StreamsError)):
        application.wait(60)
    if is_cut_short:
        # As after a crash of the machine.
        for status in tmp_path.rglob("status.json"):
            status.write_text(status.read_text().replace('"is_clean": true', '"is_clean": false, "boot_id": "?"'))
    application = start(live, build(stumbles=False), name, tmp_path)
    eventually(lambda: total(live, f"{name}-out") >= 6)
    assert application.close()
    assert [value for key, value in live.read(f"{name}-out") if key == "k"] == ["a", "ab", "abc", "abc!", "abc!d"]


def test_state_of_a_topic_that_was_created_again_is_discarded(live: Live, name: str, tmp_path: Path) -> None:
    live.create(f"{name}-in", f"{name}-out", partitions=1)
    live.write(f"{name}-in", [(None, "a b c")])
    topology = word_count(f"{name}-in", f"{name}-out")
    application = start(live, topology, name, tmp_path)
    eventually(lambda: total(live, f"{name}-out") == 3)
    assert application.close()
    changelog = f"{name}-CountStore-changelog"
    live.admin.call(lambda admin: admin.topics.delete([changelog]))
    eventually(lambda: changelog not in live.topics())
    live.write(f"{name}-in", [(None, "a b c")])
    application = start(live, topology, name, tmp_path)
    eventually(lambda: total(live, f"{name}-out") == 6)
    assert application.close()
    # An empty changelog is an empty store.
    assert [value for _, value in live.read(f"{name}-out")] == ["1"] * 6


def test_memory_is_bounded_and_large_commits_come_early(live: Live, name: str, tmp_path: Path) -> None:
    builder = StreamsBuilder()
    stream = builder.stream(f"{name}-in", Consumed.with_(TEXT, TEXT)).group_by_key(Grouped.with_(TEXT, TEXT))
    stream.count().to_stream().map_values(str).to(f"{name}-out", Produced.with_(TEXT, TEXT))
    live.create(f"{name}-in", f"{name}-out", partitions=1)
    rows = [(f"w{number % 700}", "x") for number in range(2_000)]
    limits = {"state.memory.max.bytes": 100_000, "commit.interval.ms": 3_600_000}
    application = start(live, builder.build(), name, tmp_path, **limits)
    live.write(f"{name}-in", rows)
    # Without the bound nothing is committed for an hour.
    eventually(lambda: total(live, f"{name}-out") > 1_000)
    assert application.close()
    assert_exact(live, f"{name}-out", dict(Counter(key for key, _ in rows)))


def test_a_directory_in_use_is_named(live: Live, name: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    live.create(f"{name}-in", f"{name}-out", partitions=1)
    with pytest.raises(StreamsError, match=r"state\.dir"):
        start(live, word_count(f"{name}-in", f"{name}-out"), name, tmp_path / "file")


def test_many_words_survive_restarts(live: Live, name: str, tmp_path: Path) -> None:
    live.create(f"{name}-in", f"{name}-out", partitions=2)
    written = []
    for turn in range(3):
        written.append(lines(200, turn))
        live.write(f"{name}-in", written[-1])
        application = start(live, word_count(f"{name}-in", f"{name}-out"), name, tmp_path)
        assert restored(application) == 0
        eventually(lambda: total(live, f"{name}-out") >= sum(expected(*written).values()))
        assert application.close()
    assert_exact(live, f"{name}-out", expected(*written))


def test_the_record_cache_forwards_at_commits_and_a_listener_hears_restores(
    live: Live, name: str, tmp_path: Path
) -> None:
    builder = StreamsBuilder()
    stream = builder.stream(f"{name}-in", Consumed.with_(TEXT, TEXT)).group_by_key(Grouped.with_(TEXT, TEXT))
    stream.count(Materialized.as_("counts")).to_stream().map_values(str).to(f"{name}-out", Produced.with_(TEXT, TEXT))
    live.create(f"{name}-in", f"{name}-out", partitions=1)
    live.write(f"{name}-in", [(f"k{number % 3}", "x") for number in range(300)])
    cached = {"statestore.cache.max.bytes": 1 << 20, "commit.interval.ms": 500}
    application = start(live, builder.build(), name, tmp_path / "one", **cached)
    eventually(lambda: dict(live.read(f"{name}-out")) == {"k0": "100", "k1": "100", "k2": "100"})
    assert application.close()
    # A commit writes one update of each key, and there were few commits.
    assert total(live, f"{name}-out") < 100
    events: list[tuple[Any, ...]] = []

    class Listener(StateRestoreListener):
        def on_restore_start(self, *arguments: Any) -> None:
            events.append(("start", *arguments[1:]))

        def on_batch_restored(self, *arguments: Any) -> None:
            events.append(("batch", *arguments[1:]))

        def on_restore_end(self, *arguments: Any) -> None:
            events.append(("end", *arguments[1:]))

    settings = {"application.id": name, "bootstrap.servers": live.bootstrap, "state.dir": str(tmp_path / "two")}
    application = Application(builder.build(), settings, runs_on="threads")
    application.set_global_state_restore_listener(Listener())
    application.start()
    application.wait_running(60)
    application.close()
    assert [event for event, *_ in events if event != "batch"] == ["start", "end"]
    assert events[0][:3] == ("start", "counts", 0)
    assert events[-1] == ("end", "counts", sum(count for event, *_, count in events if event == "batch"))


def counting(name: str, store: str, *, also: str = "") -> Any:
    builder = StreamsBuilder()
    stream = builder.stream(f"{name}-in", Consumed.with_(TEXT, TEXT)).group_by_key(Grouped.with_(TEXT, TEXT))
    stream.count(Materialized.as_(store)).to_stream().map_values(str).to(f"{name}-out", Produced.with_(TEXT, TEXT))
    if also:
        stream.count(Materialized.as_(also))
    return builder.build()


def test_a_change_of_the_topology_that_loses_state_is_explained(live: Live, name: str, tmp_path: Path) -> None:
    live.create(f"{name}-in", f"{name}-out", partitions=1)
    live.write(f"{name}-in", [("k", "x")])
    application = start(live, counting(name, "one"), name, tmp_path)
    eventually(lambda: total(live, f"{name}-out") == 1)
    assert application.close()
    with pytest.raises(StreamsError, match=rf"stores would start empty: two.*{name}-one-changelog.*topology\.change"):
        start(live, counting(name, "two"), name, tmp_path)
    # An additional store loses no state, and `topology.change` accepts the loss.
    for topology, properties in (
        (counting(name, "one", also="more"), {}),
        (counting(name, "two"), {"topology.change": "accept"}),
    ):
        application = start(live, topology, name, tmp_path, **properties)
        assert application.close()


def test_a_new_version_processes_the_input_again_beside_the_old_one(live: Live, name: str, tmp_path: Path) -> None:
    """Both run with their own ids, state and offsets; the old one is not disturbed."""
    live.create(f"{name}-in", f"{name}-out", f"{name}-v2-out", partitions=1)
    live.write(f"{name}-in", [("k", "x")] * 3)
    old = start(live, counting(name, "counts"), name, tmp_path)
    eventually(lambda: total(live, f"{name}-out") == 3)
    builder = StreamsBuilder()
    stream = builder.stream(f"{name}-in", Consumed.with_(TEXT, TEXT)).group_by_key(Grouped.with_(TEXT, TEXT))
    texts = stream.reduce(lambda before, after: before + after, Materialized.as_("texts").with_value_serde(TEXT))
    texts.to_stream().to(f"{name}-v2-out", Produced.with_(TEXT, TEXT))
    new = start(live, builder.build(), f"{name}-v2", tmp_path)
    live.write(f"{name}-in", [("k", "x")])
    eventually(lambda: total(live, f"{name}-v2-out") == 4)
    eventually(lambda: total(live, f"{name}-out") == 4)
    assert new.close()
    assert old.close()
    # The topics of the new version begin with the id of the old version, which does not treat them as its own.
    again = start(live, counting(name, "counts"), name, tmp_path)
    assert again.close()
    assert [value for _, value in live.read(f"{name}-v2-out")] == ["x", "xx", "xxx", "xxxx"]
    assert_exact(live, f"{name}-out", {"k": 4})


def test_a_long_changelog_is_loaded_in_sorted_parts(
    live: Live, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same rows as record by record: the last value of each key, without those that were deleted."""
    monkeypatch.setattr(restore, "_LOAD_RECORDS", 100)
    monkeypatch.setattr(restore, "_LOAD_BYTES", 2_000)
    monkeypatch.setattr(task_state, "_LOAD_ROWS", 50)
    builder = StreamsBuilder()
    builder.stream(f"{name}-in", Consumed.with_(TEXT, TEXT)).to_table(
        Materialized.as_("rows").with_key_serde(TEXT).with_value_serde(TEXT)
    )
    live.create(f"{name}-in", partitions=1)
    expected_rows: dict[str, str | None] = {}
    for turn in range(4):
        rows = [(f"k{number * 7 % 300}", None if number % 5 == turn else f"{turn}-{number}") for number in range(300)]
        expected_rows |= dict(rows)
        live.write(f"{name}-in", rows)
        application = start(live, builder.build(), name, tmp_path / "one")
        eventually(lambda: live.lag(name) == 0)
        assert application.close()
    application = start(live, builder.build(), name, tmp_path / "two")
    assert restored(application) > 300
    wanted = sorted((key, value) for key, value in expected_rows.items() if value is not None)
    assert [(key, row.value) for key, row in application.store("rows").all()] == wanted
    assert application.close()


def test_global_tables_are_on_disk_and_read_what_has_come_since(
    live: Live, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    builder = StreamsBuilder()
    text = Consumed.with_(TEXT, TEXT)
    pages = builder.global_table(f"{name}-pages", text, Materialized.as_("pages"))
    builder.stream(f"{name}-in", text).join(pages, lambda _, page: page, lambda _, title: title).to(
        f"{name}-out", Produced.with_(TEXT, TEXT)
    )
    live.create(f"{name}-in", f"{name}-pages", f"{name}-out", partitions=2)
    read: list[bytes | None] = []
    enqueue = StreamTask.enqueue

    def counted(task: StreamTask, topic: str, partition: int, records: Any) -> None:
        batch = list(records)
        if task.task_id == "global":
            read.extend(record.key for record in batch)
        enqueue(task, topic, partition, batch)

    monkeypatch.setattr(StreamTask, "enqueue", counted)
    live.write(f"{name}-pages", [(f"p{number}", f"title {number}") for number in range(40)])
    application = start(live, builder.build(), name, tmp_path, **{"state.memory.max.bytes": 4_000})
    live.write(f"{name}-in", [("k", "p7")])
    eventually(lambda: total(live, f"{name}-out") == 1)
    assert application.close()
    assert len(read) == 40
    assert list(tmp_path.rglob("global_0/data.mdb"))
    read.clear()
    live.write(f"{name}-pages", [("p8", "another title"), ("p9", None)])
    application = start(live, builder.build(), name, tmp_path)
    live.write(f"{name}-in", [("k", page) for page in ("p7", "p8", "p9", "p10")])
    eventually(lambda: total(live, f"{name}-out") == 4)
    assert [value for _, value in live.read(f"{name}-out")] == ["title 7", "title 7", "another title", "title 10"]
    assert set(read) == {b"p8", b"p9"}
    assert application.close()
