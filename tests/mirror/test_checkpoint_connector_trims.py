"""MirrorCheckpointConnector keeps the map of offsets bounded, as the driver of a flow does."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from ottla.mirror import connector_tasks
from ottla.model.errors import ErrorCode, KafkaError


class Groups:
    def __init__(self, *_: object) -> None:
        self.done: list[str] = []
        made.append(self)

    async def refresh(self) -> None:
        self.done.append("refresh")

    async def checkpoint(self) -> list[object]:
        self.done.append("checkpoint")
        return []

    async def trim_map(self) -> int:
        self.done.append("trim")
        return 0

    async def close(self) -> None:
        self.done.append("close")


class Cluster:
    def __init__(self, _settings: object) -> None:
        pass

    async def close(self) -> None:
        pass


made: list[Groups] = []


def run(monkeypatch: pytest.MonkeyPatch, groups: type[Groups]) -> list[str]:
    """The steps of the connector's task in one round."""

    async def create(*_: object) -> None:
        pass

    monkeypatch.setattr(connector_tasks, "Cluster", Cluster)
    monkeypatch.setattr(connector_tasks, "GroupSync", groups)
    monkeypatch.setattr(connector_tasks, "_create", create)
    monkeypatch.setattr(connector_tasks, "_TICK_SECONDS", 0)
    flow: Any = SimpleNamespace(
        name="a->b",
        source_client=None,
        target_client=None,
        source="a",
        policy=SimpleNamespace(checkpoints_topic=lambda source: source),
        sync_groups_s=0,
        refresh_groups_s=600,
        checkpoints_s=60,
    )
    answers = iter([False, True])
    asyncio.run(connector_tasks.write_checkpoints(flow, lambda: next(answers)))
    return made.pop().done


def test_the_map_is_trimmed(monkeypatch: pytest.MonkeyPatch) -> None:
    assert run(monkeypatch, Groups) == ["refresh", "refresh", "checkpoint", "trim", "close"]


def test_a_login_that_may_not_write_to_the_map_writes_checkpoints(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    class Forbidden(Groups):
        async def trim_map(self) -> int:
            raise KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)

    assert run(monkeypatch, Forbidden) == ["refresh", "refresh", "checkpoint", "close"]
    assert "a->b: topic mm2-offset-map.a.internal grows" in caplog.text


def test_another_failure_to_trim_the_map_fails_the_task(monkeypatch: pytest.MonkeyPatch) -> None:
    class Failing(Groups):
        async def trim_map(self) -> int:
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)

    with pytest.raises(KafkaError):
        run(monkeypatch, Failing)
    assert made.pop().done[-1] == "close"
