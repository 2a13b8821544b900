"""Rows with a time to live: by stream time, in the changelog too, and after a restore."""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from ottla.streams import (
    Application,
    Consumed,
    Grouped,
    Materialized,
    Produced,
    Record,
    Serdes,
    Stores,
    StreamsBuilder,
    TimeWindows,
    Topology,
    TopologyError,
    TopologyTestDriver,
)
from ottla.streams.columnar import column_task
from ottla.streams.record import ValueAndTimestamp
from ottla.testing import cluster
from tests.streams.live import Live, eventually

TEXT = Serdes.string()
TTL_MS = 1_000


def counting(ttl: int | timedelta = TTL_MS) -> Topology:
    builder = StreamsBuilder()
    grouped = builder.stream("in", Consumed.with_(TEXT, TEXT)).group_by_key(Grouped.with_(TEXT, TEXT))
    counts = grouped.count(Materialized.as_("counts").with_time_to_live(ttl))
    counts.to_stream().map_values(str).to("out", Produced.with_(TEXT, TEXT))
    return builder.build()


def test_a_row_is_gone_after_its_time() -> None:
    driver = TopologyTestDriver(counting(timedelta(seconds=1)))
    topic = driver.create_input_topic("in", TEXT, TEXT)
    for key, time in [("a", 0), ("a", 999), ("b", 1_998), ("a", 500), ("c", 3_000), ("a", 3_000), ("b", 3_001)]:
        topic.pipe_input(key, "", time)
    # The late record of a is counted, but does not make its row younger.
    counts = driver.create_output_topic("out", TEXT, TEXT).read_key_values()
    assert counts == [("a", "1"), ("a", "2"), ("b", "1"), ("a", "3"), ("c", "1"), ("a", "1"), ("b", "1")]
    store = driver.get_state_store("counts")
    assert {key: row.value for key, row in store.all()} == {"a": 1, "b": 1, "c": 1}
    topic.pipe_input("d", "", 4_001)
    assert [key for key, _ in store.all()] == ["d"]
    assert [key for key, _ in store.reverse_range("a", "c")] == []
    assert list(store.prefix_scan(b"a")) == []
    assert store.get("a") is None


def test_the_changelog_forgets_the_row_too() -> None:
    driver = TopologyTestDriver(counting())
    topic = driver.create_input_topic("in", TEXT, TEXT)
    for number in range(20):
        topic.pipe_input(f"k{number}", "", number)
    topic.pipe_input("late", "", 5_000)
    last = {change.key: change.value for change in driver.changelogs["counts"]}
    assert [key for key, value in last.items() if value is not None] == [b"late"]


def test_random_updates_leave_what_a_plain_dictionary_leaves() -> None:
    generator = random.Random(7)
    driver = TopologyTestDriver(counting())
    topic, latest, wanted = driver.create_input_topic("in", TEXT, TEXT), 0, []
    rows: dict[str, tuple[int, int]] = {}
    for _ in range(2_000):
        key, time = f"k{generator.randrange(40)}", max(0, latest + generator.randint(-1_500, 120))
        latest = max(latest, time)
        count, before = rows.get(key, (0, -TTL_MS))
        if before + TTL_MS <= latest:
            count, before = 0, -1
        rows[key] = (count + 1, max(before, time))
        wanted.append((key, str(count + 1)))
        topic.pipe_input(key, "", time)
    assert driver.create_output_topic("out", TEXT, TEXT).read_key_values() == wanted


def test_a_processor_has_stores_with_a_time_to_live() -> None:
    builder = StreamsBuilder()
    builder.add_state_store(Stores.timestamped_key_value("rows", TEXT, TEXT).with_time_to_live(10))
    seen: list[Any] = []

    class Remember:
        def init(self, context: Any) -> None:
            self._store = context.get_state_store("rows")

        def process(self, record: Record) -> None:
            seen.append(self._store.get(record.key))
            self._store.put(record.key, ValueAndTimestamp(record.value, record.timestamp))

        def close(self) -> None:
            pass

    builder.stream("in", Consumed.with_(TEXT, TEXT)).process(Remember, "rows")
    driver = TopologyTestDriver(builder.build())
    topic = driver.create_input_topic("in", TEXT, TEXT)
    for time in (0, 9, 30):
        topic.pipe_input("k", str(time), time)
    topic.pipe_input("other", "", 40)
    topic.pipe_input("k", "", 40)
    assert [None if row is None else row.value for row in seen] == [None, "0", None, None, None]


def test_stores_without_it_are_refused() -> None:
    grouped = StreamsBuilder().stream("in").group_by_key()
    windowed = grouped.windowed_by(TimeWindows.of_size_with_no_grace(10))
    with pytest.raises(TopologyError, match="set its retention"):
        windowed.count(Materialized.as_("w").with_time_to_live(5))
    with pytest.raises(TopologyError, match="only timestamped"):
        Stores.key_value("plain").with_time_to_live(5)
    with pytest.raises(TopologyError, match="at least one millisecond"):
        Materialized.as_("rows").with_time_to_live(0)


def test_it_has_no_column_form() -> None:
    driver = TopologyTestDriver(counting())
    assert column_task(counting(), tuple(counting().nodes), driver._task) is None


@pytest.fixture
def live() -> Iterator[Live]:
    with cluster() as running:
        live_cluster = Live(running.bootstrap)
        yield live_cluster
        live_cluster.close()


@pytest.mark.parametrize("is_lost", [True, False])
def test_a_restored_store_knows_the_time(live: Live, tmp_path: Path, is_lost: bool) -> None:
    """From the changelog alone, and from the state on disk."""
    live.create("in", "out", partitions=1)
    for number, rows in enumerate(([("a", 0), ("b", 900)], [("c", 1_500), ("a", 1_600), ("b", 1_700)])):
        for key, time in rows:
            live.write("in", [(key, "")], timestamp_ms=time)
        settings = {
            "application.id": "living",
            "bootstrap.servers": live.bootstrap,
            "processing.guarantee": "exactly_once_v2",
            "commit.interval.ms": 20,
            "state.dir": str(tmp_path / (str(number) if is_lost else "state")),
        }
        with Application(counting(), settings, runs_on="threads"):
            eventually(lambda: live.lag("living") == 0)
    assert live.read("out") == [("a", "1"), ("b", "1"), ("c", "1"), ("a", "1"), ("b", "2")]
