"""Java and Ottla take turns with windows, sessions, joins and foreign keys: results are those of one application."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

import pytest

from ottla.streams import (
    Application,
    Consumed,
    JoinWindows,
    Materialized,
    Produced,
    Serdes,
    SessionWindows,
    StreamJoined,
    StreamsBuilder,
    TimeWindows,
    Topology,
    TopologyTestDriver,
    Windowed,
)
from ottla.testing import cluster
from tests.streams.live import Live, eventually
from tests.support import jars
from tests.support.java import PROGRAMS, compiled, java_command, unavailable_reason

pytestmark = [pytest.mark.java, pytest.mark.slow]

TEXT = Serdes.string()
MINUTE = 60_000
# (topic, key, value, seconds after the start) for each turn; the applications change with every turn.
Turn = list[tuple[str, str, str, int]]
TURNS: dict[str, list[Turn]] = {
    "windows": [
        [("left", "a", "1", 0), ("left", "b", "2", 1), ("left", "a", "3", 12)],
        [("left", "a", "4", 2), ("left", "b", "5", 13), ("left", "c", "6", 3)],
        [("left", "a", "7", 4), ("left", "b", "8", 5), ("left", "a", "9", 14)],
    ],
    "sessions": [
        [("left", "a", "1", 0), ("left", "b", "2", 1), ("left", "a", "3", 20)],
        [("left", "a", "4", 4), ("left", "b", "5", 10), ("left", "a", "6", 23)],
        [("left", "b", "7", 5), ("left", "a", "8", 8), ("left", "a", "9", 40)],
    ],
    "joins": [
        [("left", "a", "1", 0), ("left", "b", "2", 5), ("left", "a", "3", 10)],
        [("right", "a", "4", 2), ("right", "c", "5", 8), ("right", "b", "6", 12)],
        [("left", "c", "7", 9), ("left", "a", "8", 11), ("left", "b", "9", 13)],
    ],
    "foreign-keys": [
        [("left", "a", "x1", 0), ("left", "b", "x2", 1), ("left", "c", "y3", 2)],
        [("right", "x", "r", 3), ("right", "y", "s", 4)],
        [("right", "x", "q", 5), ("right", "z", "t", 6)],
        [("left", "a", "z4", 7), ("left", "c", "y5", 8)],
    ],
}


def topology_of(kind: str) -> Topology:
    """The topologies of `HandoverStreams.java`."""
    builder = StreamsBuilder()
    texts, out = Consumed.with_(TEXT, TEXT), Produced.with_(TEXT, TEXT)
    store = Materialized.with_(TEXT, TEXT)
    if kind == "foreign-keys":
        rows, others = builder.table("left", texts), builder.table("right", texts)
        joined = rows.join(
            others,
            lambda value: value[0],
            lambda left_value, right_value: f"{left_value}+{right_value}",
            materialized=store,
        )
        joined.to_stream().to("out", out)
        return builder.build()
    left = builder.stream("left", texts)
    if kind == "joins":
        windows = JoinWindows.of_time_difference_and_grace(30_000, MINUTE)
        streams = StreamJoined.with_(TEXT, TEXT, TEXT)
        left.join(
            builder.stream("right", texts),
            lambda left_value, right_value: f"{left_value}+{right_value}",
            windows,
            streams,
        ).to("out", out)
        return builder.build()
    session = SessionWindows.of_inactivity_gap_and_grace(5_000, MINUTE)
    chosen = session if kind == "sessions" else TimeWindows.of_size_and_grace(10_000, MINUTE)
    left.group_by_key().windowed_by(chosen).reduce(lambda aggregate, value: aggregate + value, store).to_stream(
        named
    ).to("out", out)
    return builder.build()


def named(key: Windowed, _: object) -> str:
    return f"{key.key}@{key.window.start}/{key.window.end}"


def settings_of(kind: str) -> dict[str, object]:
    return {"application.id": kind, "default.key.serde": TEXT, "default.value.serde": TEXT}


def java(live: Live, kind: str, directory: Path) -> subprocess.Popen[bytes]:
    classes = compiled([PROGRAMS / "HandoverStreams.java"], jar_set=jars.COMPAT)
    words = [java_command(), "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
    words += ["-cp", f"{classes}:{jars.class_path(jars.COMPAT)}", "HandoverStreams", live.bootstrap, kind]
    return subprocess.Popen([*words, str(directory)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def by_key(records: list[tuple[str, str | None]]) -> dict[str, list[str | None]]:
    values: dict[str, list[str | None]] = {}
    for key, value in records:
        values.setdefault(key, []).append(value)
    return values


# `make test` runs one kind; the other kinds take as long and work alike.
KINDS = [pytest.param(kind, marks=() if kind == "foreign-keys" else pytest.mark.faults) for kind in TURNS]


@pytest.mark.parametrize("kind", KINDS)
def test_java_and_ottla_take_turns(kind: str, tmp_path: Path) -> None:
    if reason := unavailable_reason(jars.COMPAT):
        pytest.skip(reason)
    # Old records would be removed by the retention of changelogs.
    start = int(time.time()) // 10 * 10_000
    driver = TopologyTestDriver(topology_of(kind), settings_of(kind))
    expected = driver.create_output_topic("out", TEXT, TEXT)
    wanted: list[tuple[str, str | None]] = []
    with cluster() as running:
        live = Live(running.bootstrap)
        live.create("left", "right", "out", partitions=1)
        for number, turn in enumerate(TURNS[kind]):
            for topic, key, value, seconds in turn:
                live.write(topic, [(key, value)], timestamp_ms=start + seconds * 1000)
                driver.create_input_topic(topic, TEXT, TEXT).pipe_input(key, value, start + seconds * 1000)
            wanted += expected.read_key_values()
            # New directories: the state can only come from changelogs.
            run_turn(live, kind, tmp_path / str(number), len(wanted), is_java=number % 2 == 0)
            assert by_key(live.read("out")) == by_key(wanted), f"turn {number}"
        live.close()


def run_turn(live: Live, kind: str, directory: Path, wanted: int, *, is_java: bool) -> None:
    def is_done() -> bool:
        return live.lag(kind) == 0 and len(live.read("out")) >= wanted

    if is_java:
        process = java(live, kind, directory)
        try:
            eventually(is_done, 240)
        finally:
            process.terminate()
            process.wait(60)
        return
    settings = {"bootstrap.servers": live.bootstrap, "processing.guarantee": "exactly_once_v2"}
    settings |= {"state.dir": str(directory), **settings_of(kind)}  # type: ignore[dict-item]
    application = Application(topology_of(kind), settings, runs_on="threads")
    application.start()
    application.wait_running(60)
    assert sum(report["restored"] for report in application.statistics().values()) > 0
    eventually(is_done, 60)
    assert application.close()
