"""The driver of lake tables: topics and their configurations, and retries of steps that fail."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ottla.client.admin.configs import ConfigEntry, ConfigResource, ConfigSource
from ottla.lake.driver import LakeDriver, find_tables
from ottla.lake.settings import Mode, read_settings
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
    monkeypatch.setattr("ottla.lake.driver.find_tables", lambda _: {"orders": table})
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
        self.admin = SimpleNamespace(topics=self, configs=self)

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run(work)

    async def names(self) -> list[str]:
        return ["orders", "people"]

    async def describe(self, resources: list[ConfigResource], *, keys: list[str]) -> dict[ConfigResource, Any]:
        own = {"orders": {"ottla.lake.mode": "upsert"}, "people": {}}
        entries = {
            name: [ConfigEntry(key, value, ConfigSource.DYNAMIC_TOPIC_CONFIG, False, False, (), None)]
            for name, values in own.items()
            for key, value in values.items()
            if key in keys
        }
        return {resource: self.errors.get(resource.name, entries.get(resource.name, [])) for resource in resources}


def modes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: ErrorCode | None) -> dict[str, Mode]:
    """The mode of each topic with a table. The broker answers with this code about the configuration of orders."""
    errors = {} if code is None else {"orders": KafkaError(code)}
    monkeypatch.setattr("ottla.lake.driver.client_of", lambda _: FakeClient(errors))
    settings = read_settings({"bootstrap.servers": "localhost:1", "warehouse": str(tmp_path), "topics": ".*"})
    return {topic: table.mode for topic, table in find_tables(settings).items()}


def test_a_topic_whose_configuration_is_not_known_gets_no_table_of_another_mode(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert modes(tmp_path, monkeypatch, None) == {"orders": Mode.UPSERT, "people": Mode.RAW}
    # A broker that does not know the new topic yet answers like this.
    assert modes(tmp_path, monkeypatch, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION) == {"people": Mode.RAW}
    with pytest.raises(KafkaError, match="The configuration of topic orders"):
        modes(tmp_path, monkeypatch, ErrorCode.REQUEST_TIMED_OUT)
    allowed = modes(tmp_path, monkeypatch, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    assert allowed == {"orders": Mode.RAW, "people": Mode.RAW}
