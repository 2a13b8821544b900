"""Kafka's tools treat an application of `ottla.streams` like Kafka Streams: its group, its lag, and its reset."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from examples.streams.word_count import build
from ottla.streams import Application
from tests.java.conftest import Tool
from tests.streams.live import Live, eventually
from tests.support.brokers import Broker

APPLICATION = "counted-words"
RESET = ("--application-id", APPLICATION, "--input-topics", "counted-lines", "--force")


@pytest.fixture
def live(broker: Broker) -> Iterator[Live]:
    live_cluster = Live(broker.bootstrap)
    yield live_cluster
    live_cluster.close()


def started(live: Live, directory: Path) -> Application:
    settings = {
        "application.id": APPLICATION,
        "bootstrap.servers": live.bootstrap,
        "processing.guarantee": "exactly_once_v2",
        "state.dir": str(directory),
        "replication.factor": 1,
    }
    application = Application(build("counted-lines", "counted-out"), settings, runs_on="threads")
    application.start()
    application.wait_running(60)
    return application


def test_an_application_is_a_group_and_is_reset_when_it_has_stopped(live: Live, run: Tool, tmp_path: Path) -> None:
    live.create("counted-lines", "counted-out", partitions=2)
    live.write("counted-lines", [(None, "a b a")] * 10)
    application = started(live, tmp_path)
    eventually(lambda: len(live.read("counted-out")) >= 30)
    described = run("ConsumerGroupCommand", "--describe", "--group", APPLICATION, "--members", "--verbose").stdout
    assert "counted-words-CountStore-repartition:0,1" in described
    eventually(lambda: live.lag(APPLICATION) == 0)
    refused = run("StreamsResetter", *RESET[:-1], status=1)
    assert "is still active" in refused.stdout + refused.stderr
    assert application.close()
    assert run("ConsumerGroupCommand", "--describe", "--group", APPLICATION, "--state").stdout.count("Empty") == 1
    run("StreamsResetter", *RESET)
    eventually(lambda: not [topic for topic in live.topics() if topic.startswith(f"{APPLICATION}-")])
    application = started(live, tmp_path)
    eventually(lambda: len(live.read("counted-out")) >= 60)
    assert application.close()
    counts = sorted(int(value or 0) for key, value in live.read("counted-out") if key == "a")
    assert counts == sorted([*range(1, 21), *range(1, 21)])
