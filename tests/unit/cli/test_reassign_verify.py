"""`ottla reassign verify`: the throttles stay while anything moves that they limit."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Self

import pytest

from ottla.cli import session
from ottla.cli.app import run
from ottla.cli.commands import reassign
from ottla.client.admin.partitions import LogDirectory, OngoingReassignment, ReplicaInDirectory
from ottla.model.ids import TopicPartition

ORDERS, PAYMENTS = TopicPartition("orders", 0), TopicPartition("payments", 0)


class FakeAdmin:
    """A cluster in which orders-0 has its replicas."""

    moving: dict[TopicPartition, OngoingReassignment]
    directories: list[LogDirectory]

    def __init__(self, _: object) -> None:
        self.partitions = self
        self.connections = self

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        pass

    async def reassignments(
        self, partitions: Iterable[TopicPartition] | None = None
    ) -> dict[TopicPartition, OngoingReassignment]:
        wanted = self.moving if partitions is None else set(partitions)
        return {partition: move for partition, move in self.moving.items() if partition in wanted}

    async def refresh(self, _: Sequence[str]) -> Any:
        info = SimpleNamespace(error=None, partitions={0: SimpleNamespace(replicas=[1])})
        return SimpleNamespace(topics={"orders": info})

    async def log_directories(self, *, partitions: object) -> dict[int, list[LogDirectory]]:
        return {1: self.directories}


def directory(path: str, **is_future: bool) -> LogDirectory:
    replicas = {TopicPartition(topic, 0): ReplicaInDirectory(1, 0, future) for topic, future in is_future.items()}
    return LogDirectory(path, None, 100, 100, replicas)


@pytest.mark.parametrize(
    ("moving", "directories", "states", "is_cleared"),
    [
        ({}, [directory("/b", orders=False)], ["done", "done"], True),
        ({PAYMENTS: OngoingReassignment((1, 2), (2,), ())}, [directory("/b", orders=False)], ["done", "done"], False),
        ({}, [directory("/a", orders=False), directory("/b", orders=True)], ["done", "moving"], False),
    ],
)
def test_throttles_stay_while_something_moves(
    moving: dict[TopicPartition, OngoingReassignment],
    directories: list[LogDirectory],
    states: list[str],
    is_cleared: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    cleared: list[str] = []

    async def clear_throttles(_: object, topics: Sequence[str]) -> bool:
        cleared.extend(topics)
        return True

    monkeypatch.setattr(reassign, "clear_throttles", clear_throttles)
    monkeypatch.setattr(session, "AdminClient", FakeAdmin)
    monkeypatch.setattr(FakeAdmin, "moving", moving, raising=False)
    monkeypatch.setattr(FakeAdmin, "directories", directories, raising=False)
    plan = tmp_path / "plan.json"
    entry = {"topic": "orders", "partition": 0, "replicas": [1], "log_dirs": ["/b"]}
    plan.write_text(json.dumps({"version": 1, "partitions": [entry]}))
    assert run(["reassign", "verify", "-f", str(plan), "--json"]) == 0
    assert [row["state"] for row in json.loads(capsys.readouterr().out)] == states
    assert bool(cleared) is is_cleared
