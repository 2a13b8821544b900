"""`ottla streams reset`: an application starts over, with its input from the start and without its old state."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from examples.streams.word_count import build
from ottla.cli.app import run as run_cli
from ottla.cli.logic.internal_topics import internal_topics, is_worker_of
from ottla.streams import Application
from ottla.testing import cluster
from tests.streams.live import Live, eventually


@pytest.fixture
def live() -> Iterator[Live]:
    with cluster() as running:
        live_cluster = Live(running.bootstrap)
        yield live_cluster
        live_cluster.close()


def start(live: Live) -> Application:
    settings = {
        "application.id": "words",
        "bootstrap.servers": live.bootstrap,
        "processing.guarantee": "exactly_once_v2",
        "state.dir": live.state_directory,
    }
    application = Application(build("lines", "counts"), settings, runs_on="threads")
    application.start()
    application.wait_running(60)
    return application


def ottla(live: Live, *words: str) -> int:
    return run_cli([*words, "-b", live.bootstrap])


def test_an_application_begins_anew(live: Live, capsys: pytest.CaptureFixture[str]) -> None:
    live.create("lines", "counts")
    live.write("lines", [(None, "a b a")] * 10)
    application = start(live)
    eventually(lambda: len(live.read("counts")) >= 30)
    assert ottla(live, "streams", "reset", "words", "--input-topics", "lines", "--yes") == 1
    assert "is still active" in capsys.readouterr().err
    assert application.close()
    assert ottla(live, "streams", "reset", "words", "--input-topics", "lines", "--dry-run") == 0
    assert "Would delete topic words-CountStore-changelog." in capsys.readouterr().out
    assert "words-CountStore-changelog" in live.topics()
    assert ottla(live, "streams", "reset", "words", "--input-topics", "lines", "--yes") == 0
    eventually(lambda: not [topic for topic in live.topics() if topic.startswith("words-")])
    application = start(live)
    eventually(lambda: len(live.read("counts")) >= 60)
    assert application.close()
    assert sorted(int(value or 0) for key, value in live.read("counts") if key == "a") == sorted(
        [*range(1, 21), *range(1, 21)]
    )


def test_foreign_topics_are_not_deleted(live: Live, capsys: pytest.CaptureFixture[str]) -> None:
    live.create("words-mine", "wordsy-x-changelog")
    assert ottla(live, "streams", "reset", "words", "--internal-topics", "words-mine", "--yes") == 1
    assert "words-mine is no internal topic of words" in capsys.readouterr().err
    assert {"words-mine", "wordsy-x-changelog"} <= live.topics()


def test_internal_topics_are_known_by_their_names() -> None:
    names = [
        "app-store-changelog",
        "app-store-repartition",
        "app-KTABLE-FK-JOIN-SUBSCRIPTION-REGISTRATION-0000000006-topic",
        "app-join-subscription-response-topic",
        "app-topic",
        "application-store-changelog",
    ]
    assert internal_topics("app", names) == sorted(names[:4])
    assert is_worker_of("app", "app-0")
    assert is_worker_of("app", "app-0b1c2d3e-0000-4000-8000-0123456789ab-1")
    assert not is_worker_of("app", "app-billing")
