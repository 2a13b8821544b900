"""MirrorCheckpointConnector keeps the map of offsets bounded, as the driver of a flow does."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from ottla.mirror import connector_tasks


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


def test_the_map_is_trimmed(monkeypatch: pytest.MonkeyPatch) -> None:
    async def create(*_: object) -> None:
        pass

    monkeypatch.setattr(connector_tasks, "Cluster", Cluster)
    monkeypatch.setattr(connector_tasks, "GroupSync", Groups)
    monkeypatch.setattr(connector_tasks, "_create", create)
    monkeypatch.setattr(connector_tasks, "_TICK_SECONDS", 0)
    flow: Any = SimpleNamespace(
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
    (groups,) = made
    assert groups.done == ["refresh", "refresh", "checkpoint", "trim", "close"]
