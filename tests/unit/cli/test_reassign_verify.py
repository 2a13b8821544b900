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
from ottla.client.errors import TimedOut
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

    @property
    def metadata(self) -> Any:
        return SimpleNamespace(brokers=dict.fromkeys((1, 2, 3)))

    async def log_directories(
        self, brokers: Iterable[int] | None = None, *, partitions: object
    ) -> dict[int, list[LogDirectory]]:
        """Only broker 1 answers."""
        if brokers is None or set(brokers) != {1}:
            raise TimedOut("Broker 2 does not answer.")
        return {1: self.directories}


def directory(path: str, **is_future: bool) -> LogDirectory:
    replicas = {TopicPartition(topic, 0): ReplicaInDirectory(1, 0, future) for topic, future in is_future.items()}
    return LogDirectory(path, None, 100, 100, replicas)


@pytest.fixture
def cleared(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The topics whose throttles were removed."""
    topics_cleared: list[str] = []

    async def clear_throttles(_: object, topics: Sequence[str]) -> bool:
        topics_cleared.extend(topics)
        return True

    monkeypatch.setattr(reassign, "clear_throttles", clear_throttles)
    monkeypatch.setattr(session, "AdminClient", FakeAdmin)
    monkeypatch.setattr(FakeAdmin, "moving", {}, raising=False)
    return topics_cleared


def write_plan(path: Path, replicas: list[int], log_dirs: list[str]) -> None:
    entry = {"topic": "orders", "partition": 0, "replicas": replicas, "log_dirs": log_dirs}
    path.write_text(json.dumps({"version": 1, "partitions": [entry]}))


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
    cleared: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(FakeAdmin, "moving", moving)
    monkeypatch.setattr(FakeAdmin, "directories", directories, raising=False)
    plan = tmp_path / "plan.json"
    write_plan(plan, [1], ["/b"])
    assert run(["reassign", "verify", "-f", str(plan), "--json"]) == 0
    assert [row["state"] for row in json.loads(capsys.readouterr().out)] == states
    assert bool(cleared) is is_cleared


def test_a_broker_that_does_not_answer_is_told(
    cleared: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Broker 3 does not answer either, and has no directory in the plan. Broker 4 is not in the cluster any more."""
    monkeypatch.setattr(FakeAdmin, "directories", [directory("/b", orders=False)], raising=False)
    plan = tmp_path / "plan.json"
    write_plan(plan, [1, 2, 3, 4], ["/b", "/b", "any", "/b"])
    assert run(["reassign", "verify", "-f", str(plan), "--json"]) == 1
    states = {row["partition"]: row["state"] for row in json.loads(capsys.readouterr().out)}
    assert states == {
        "orders-0": "elsewhere",
        "orders-0 on broker 1": "done",
        "orders-0 on broker 2": "unknown: Broker 2 does not answer.",
        "orders-0 on broker 4": "there is no such replica",
    }
    assert cleared == [], "its replica may be moving"
