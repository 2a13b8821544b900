"""A Java application is stopped and ours goes on with its state, and the other way round: every record counts once."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from ottla.streams import Application, Consumed, Materialized, Produced, Serdes, StreamsBuilder, Topology
from ottla.streams.runtime.commit_metadata import decode_metadata
from ottla.testing import cluster
from tests.streams.live import Live, eventually
from tests.support import jars
from tests.support.java import PROGRAMS, compiled, java_command, unavailable_reason

pytestmark = [pytest.mark.java, pytest.mark.slow]

KEYS = 5
TEXT = Serdes.string()


def counting() -> Topology:
    """The topology of `CountingStreams.java`."""
    builder = StreamsBuilder()
    (
        builder.stream("events", Consumed.with_(TEXT, TEXT))
        .group_by(lambda key, _: f"counted-{key}")
        .count(Materialized.with_(TEXT, Serdes.long()))
        .to_stream()
        .map_values(str)
        .to("counts", Produced.with_(TEXT, TEXT))
    )
    return builder.build()


def java(live: Live, directory: Path) -> subprocess.Popen[bytes]:
    classes = compiled([PROGRAMS / "CountingStreams.java"], jar_set=jars.COMPAT)
    words = [java_command(), "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
    words += ["-cp", f"{classes}:{jars.class_path(jars.COMPAT)}", "CountingStreams"]
    words += [live.bootstrap, "events", "counts", str(directory), "1"]
    return subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def ours(live: Live) -> Application:
    settings = {
        "application.id": "counting",
        "bootstrap.servers": live.bootstrap,
        "processing.guarantee": "exactly_once_v2",
        "state.dir": live.state_directory,
        "default.key.serde": TEXT,
        "default.value.serde": TEXT,
    }
    application = Application(counting(), settings, runs_on="threads")
    application.start()
    application.wait_running(60)
    return application


def test_java_and_ottla_take_turns_with_one_state(tmp_path: Path) -> None:
    if reason := unavailable_reason(jars.COMPAT):
        pytest.skip(reason)
    with cluster() as running:
        live = Live(running.bootstrap)
        live.create("events", "counts")
        written = 0
        for turn in ("java", "ottla", "java", "ottla"):
            live.write("events", [(str(number % KEYS), "event") for number in range(100)])
            written += 100
            if turn == "java":
                # New directories: the state can only come from the changelog.
                process = java(live, tmp_path / str(written))
                eventually(lambda wanted=written: len(live.read("counts")) >= wanted, 120)
                process.terminate()
                process.wait(60)
                # Commits of Java contain the time of a partition, and Java reads that of our commits.
                committed = live.admin.call(lambda admin: admin.groups.offsets("counting"))
                assert max(decode_metadata(entry.metadata).partition_time for entry in committed.values()) > 0
            else:
                application = ours(live)
                assert sum(report["restored"] for report in application.statistics().values()) > 0
                eventually(lambda wanted=written: len(live.read("counts")) >= wanted)
                assert application.close()
        seen: dict[str, list[int]] = {}
        for key, value in live.read("counts"):
            assert value is not None
            seen.setdefault(key, []).append(int(value))
        events_per_key = written // KEYS
        assert seen == {f"counted-{number}": list(range(1, events_per_key + 1)) for number in range(KEYS)}
        live.close()
