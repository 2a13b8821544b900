"""The driver of lake tables: topics and their configurations, and retries of steps that fail."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest

from ottla.client.admin.configs import ConfigEntry, ConfigResource, ConfigSource
from ottla.lake.driver import LakeDriver, TopicTables, find_tables
from ottla.lake.errors import LakeError
from ottla.lake.settings import Mode, read_settings
from ottla.lake.status import table_states
from ottla.model.errors import ErrorCode, KafkaError


class FailingPipeline:
    """A pipeline whose broker is away."""

    def __init__(self, settings: Any, stop_after: int) -> None:
        self.settings = settings
        self.lag = 0
        self.steps = 0
        self.stop_after = stop_after
        self.driver: LakeDriver

    def step(self) -> int:
        self.steps += 1
        if self.steps == self.stop_after:
            self.driver.stop()
        raise ConnectionError("the broker is away")


def test_a_table_is_retried_however_long_an_outage_lasts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """1025 failures take less than nine hours with the longest pause between them."""
    settings = read_settings({"bootstrap.servers": "localhost:1", "warehouse": str(tmp_path), "topics": "orders"})
    table = settings.table("orders", {})
    pipeline = FailingPipeline(table, stop_after=2000)

    class Clock:
        now = 0.0

        @classmethod
        def monotonic(cls) -> float:
            return cls.now

    def wait(_seconds: float) -> bool:
        Clock.now += 31.0
        return False

    monkeypatch.setattr("ottla.lake.driver.time", Clock)
    monkeypatch.setattr("ottla.lake.driver.find_tables", lambda _: TopicTables({"orders": table}, {}))
    monkeypatch.setattr("ottla.lake.driver.TablePipeline", lambda *_: pipeline)
    spark: Any = None
    driver = pipeline.driver = LakeDriver(settings, spark)
    monkeypatch.setattr(driver._stopping, "wait", wait)
    driver.run()
    assert pipeline.steps == 2000
    assert not driver.failed


class FakeClient:
    """A client of a cluster with the topics orders (mode = upsert) and people. `errors` are those of configurations."""

    def __init__(self, errors: dict[str, KafkaError]) -> None:
        self.errors = errors
        self.own: dict[str, dict[str, str]] = {"orders": {"ottla.lake.mode": "upsert"}, "people": {}}
        self.admin = SimpleNamespace(topics=self, configs=self)

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run(work)

    async def names(self) -> list[str]:
        return list(self.own)

    async def describe(self, resources: list[ConfigResource], *, keys: list[str]) -> dict[ConfigResource, Any]:
        entries = {
            name: [ConfigEntry(key, value, ConfigSource.DYNAMIC_TOPIC_CONFIG, False, False, (), None)]
            for name, values in self.own.items()
            for key, value in values.items()
            if key in keys
        }
        return {resource: self.errors.get(resource.name, entries.get(resource.name, [])) for resource in resources}


def modes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: ErrorCode | None) -> dict[str, Mode]:
    """The mode of each topic with a table. The broker answers with this code about the configuration of orders."""
    errors = {} if code is None else {"orders": KafkaError(code)}
    monkeypatch.setattr("ottla.lake.driver.client_of", lambda _: FakeClient(errors))
    settings = read_settings({"bootstrap.servers": "localhost:1", "warehouse": str(tmp_path), "topics": ".*"})
    return {topic: table.mode for topic, table in find_tables(settings).tables.items()}


def test_a_topic_whose_configuration_is_not_known_gets_no_table_of_another_mode(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert modes(tmp_path, monkeypatch, None) == {"orders": Mode.UPSERT, "people": Mode.RAW}
    # A broker that does not know the new topic yet answers like this.
    assert modes(tmp_path, monkeypatch, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION) == {"people": Mode.RAW}
    assert modes(tmp_path, monkeypatch, ErrorCode.REQUEST_TIMED_OUT) == {"people": Mode.RAW}
    allowed = modes(tmp_path, monkeypatch, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    assert allowed == {"orders": Mode.RAW, "people": Mode.RAW}


class LandingPipeline:
    """A pipeline whose table is current after each step; `refusals` are errors of tables, by topic."""

    refusals: ClassVar[dict[str, str]] = {}

    def __init__(self, _spark: Any, _store: Any, _lake: Any, settings: Any) -> None:
        self.settings = settings
        self.lag = 0

    def step(self) -> int:
        if self.settings.topic in self.refusals:
            raise LakeError(self.refusals[self.settings.topic])
        return 0


class Story:
    """A driver of the tables of two topics, and their cluster."""

    def __init__(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.client = FakeClient({})
        monkeypatch.setattr("ottla.lake.driver.client_of", lambda _: self.client)
        monkeypatch.setattr("ottla.lake.driver.TablePipeline", LandingPipeline)
        monkeypatch.setattr(LandingPipeline, "refusals", {})
        (tmp_path / "warehouse").mkdir()
        self.settings = read_settings(
            {"bootstrap.servers": "localhost:1", "warehouse": str(tmp_path / "warehouse"), "topics": ".*"}
        )
        spark: Any = None
        self.driver = LakeDriver(self.settings, spark)

    def modes(self) -> dict[str, Mode]:
        """Lists the topics and steps once; returns the modes of the tables that are kept current."""
        self.driver.run(until_current=True)
        return {topic: turn.pipeline.settings.mode for topic, turn in self.driver._turns.items()}


def test_a_wrong_configuration_concerns_its_topic_alone_until_it_is_corrected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    story = Story(tmp_path, monkeypatch)
    story.client.own["orders"] = {"ottla.lake.mode": "upsrt"}
    assert story.modes() == {"people": Mode.RAW}
    assert "mode = upsrt must be one of" in story.driver.failed["orders"]
    assert "Topic orders is left out: mode = upsrt" in caplog.text
    # A new topic is found, too.
    story.client.own["new"] = {}
    assert story.modes() == {"people": Mode.RAW, "new": Mode.RAW}
    story.client.own["orders"] = {"ottla.lake.mode": "upsert"}
    assert story.modes() == {"people": Mode.RAW, "new": Mode.RAW, "orders": Mode.UPSERT}
    assert not story.driver.failed
    # A table that is kept current is left out, too.
    story.client.own["orders"] = {"ottla.lake.mode": "rw"}
    assert story.modes() == {"people": Mode.RAW, "new": Mode.RAW}


def test_a_driver_waits_for_the_correction_of_its_only_topic(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    story = Story(tmp_path, monkeypatch)
    story.client.own = {"orders": {"ottla.lake.mode": "upsrt"}}
    assert story.modes() == {}
    assert list(story.driver.failed) == ["orders"]
    del story.client.own["orders"]
    assert story.modes() == {}
    assert not story.driver.failed


def test_a_table_with_a_configuration_that_cannot_be_read_keeps_its_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    story = Story(tmp_path, monkeypatch)
    story.client.errors["people"] = KafkaError(ErrorCode.REQUEST_TIMED_OUT)
    assert story.modes() == {"orders": Mode.UPSERT}
    assert "The configuration of topic people" in story.driver.failed["people"]
    story.client.errors = {"orders": KafkaError(ErrorCode.REQUEST_TIMED_OUT)}
    assert story.modes() == {"orders": Mode.UPSERT, "people": Mode.RAW}
    assert not story.driver.failed


def test_a_table_that_has_failed_is_tried_with_other_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    story = Story(tmp_path, monkeypatch)
    LandingPipeline.refusals["orders"] = "the table was made with mode = raw"
    assert story.modes() == {"people": Mode.RAW}
    LandingPipeline.refusals.clear()
    assert story.modes() == {"people": Mode.RAW}
    story.client.own["orders"] = {"ottla.lake.mode": "raw"}
    assert story.modes() == {"people": Mode.RAW, "orders": Mode.RAW}


def test_the_status_has_the_problem_of_a_topic(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    story = Story(tmp_path, monkeypatch)
    story.client.own = {"orders": {"ottla.lake.mode": "upsrt"}}
    (state,) = table_states(story.settings)
    assert (state.topic, state.table) == ("orders", "")
    assert "mode = upsrt must be one of" in state.problem
