"""`ottla balance watch`: what it repairs, and what it leaves alone."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Self

import pytest

from ottla.balance.anomalies import AnomalyDetector
from ottla.balance.journal import Journal
from ottla.balance.state import BrokerState, ClusterState, PartitionState
from ottla.cli import session
from ottla.cli.app import run
from ottla.cli.commands import balance
from ottla.cli.commands.balance import _repairs
from ottla.client.errors import ClientError
from ottla.model.ids import TopicPartition

# The limit is for a broken command only.
LIMIT_SECONDS = 10.0


def cluster(*replicas: tuple[int, ...], brokers: int = 5) -> ClusterState:
    return ClusterState(
        brokers={broker_id: BrokerState(broker_id=broker_id) for broker_id in range(1, brokers + 1)},
        partitions={
            TopicPartition("t", number): PartitionState(replicas=replica_ids, leader=replica_ids[0])
            for number, replica_ids in enumerate(replicas)
        },
    )


def without(state: ClusterState, *gone: int) -> ClusterState:
    brokers = {
        broker_id: replace(broker, is_alive=broker_id not in gone) for broker_id, broker in state.brokers.items()
    }
    return replace(state, brokers=brokers)


def repaired_partitions(state: ClusterState, detector: AnomalyDetector, now: float, *kinds: str) -> list[int]:
    due = [anomaly for anomaly in detector.look(state, {}, now) if anomaly.is_due and anomaly.kind in kinds]
    steps = _repairs(state, due, kinds) if due else ()
    return sorted(movement.partition.partition for step in steps for movement in step.movements)


def test_a_broker_that_restarts_is_left_alone_while_a_lost_broker_is_repaired() -> None:
    healthy = cluster((1, 2), (1, 3), (2, 3))
    detector = AnomalyDetector(600)
    detector.look(without(healthy, 2), {}, 0.0)
    # Broker 2 is gone for ten minutes, broker 3 has just gone. A partition of both is repaired.
    assert repaired_partitions(without(healthy, 2, 3), detector, 600.0, "dead") == [0, 2]
    assert repaired_partitions(without(healthy, 2, 3), detector, 1200.0, "dead") == [0, 1, 2]


def test_only_the_kinds_that_were_named_are_repaired() -> None:
    healthy = cluster((1, 2), (1, 3), (4, 1))
    failed = replace(healthy.brokers[3], failed_replicas=frozenset({TopicPartition("t", 1)}))
    broken = without(replace(healthy, brokers={**healthy.brokers, 3: failed}), 2)
    detector = AnomalyDetector(0)
    assert repaired_partitions(broken, detector, 0.0, "directory") == [1]
    assert repaired_partitions(broken, detector, 0.0, "dead") == [0]
    assert repaired_partitions(broken, detector, 0.0, "dead", "directory") == [0, 1]


class Admin:
    """An admin client of the cluster `here`."""

    def __init__(self, *_: object) -> None:
        self.cluster = self

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        pass

    async def describe(self) -> SimpleNamespace:
        return SimpleNamespace(cluster_id="here")


@pytest.fixture
def watch(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., int]:
    async def healthy(_: object) -> ClusterState:
        return cluster()

    monkeypatch.setattr(session, "AdminClient", Admin)
    monkeypatch.setattr(balance, "observe", healthy)
    options = ["--probe", "0", "-i", "0s", "--no-guard", "--journal", str(tmp_path / "journal.json")]
    return lambda *words: run(["balance", "watch", "-b", "127.0.0.1:1", *options, *words])


def test_a_journal_of_another_cluster_is_not_executed(
    watch: Callable[..., int],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    executed: list[str] = []

    async def execute(_: object, __: object, journal: Journal, ___: object) -> bool:
        executed.append(journal.cluster_id)
        journal.remove()
        return True

    monkeypatch.setattr(balance, "_execute", execute)
    path = tmp_path / "journal.json"
    Journal(path, "there", (), None).write()
    assert watch("-n", "1") == 1
    assert (executed, path.exists()) == ([], True)
    assert "is of the cluster there, and this is here" in capsys.readouterr().err
    Journal(path, "here", (), None, is_repair=True).write()
    assert watch("-n", "1", "--repair", "dead") == 0
    assert (executed, path.exists()) == (["here"], False)


@pytest.mark.parametrize(("is_repair", "words"), [(True, ()), (False, ("--repair", "dead"))])
def test_only_a_repair_is_continued(
    is_repair: bool,
    words: tuple[str, ...],
    watch: Callable[..., int],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """`ottla balance run` may have stopped its plan because producers suffered."""
    executed: list[str] = []

    async def execute(_: object, __: object, journal: Journal, ___: object) -> bool:
        executed.append(journal.cluster_id)
        return True

    async def broken(_: object) -> ClusterState:
        return without(cluster((1, 2), (1, 3), (2, 3)), 2)

    monkeypatch.setattr(balance, "_execute", execute)
    monkeypatch.setattr(balance, "observe", broken)
    path = tmp_path / "journal.json"
    Journal(path, "here", (), 5, is_repair=is_repair).write()
    content = path.read_bytes()
    assert watch("-n", "1", "--dead-after", "0s", *words) == 0
    assert (executed, path.read_bytes()) == ([], content)
    out = capsys.readouterr().out
    assert "dead: " in out
    assert ("has a plan that was not finished" in out) is bool(words)


def test_a_plan_that_another_process_executes_is_left_alone(
    watch: Callable[..., int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "journal.json"
    journal = Journal(path, "here", (), None, is_repair=True)
    journal.write()
    with journal.locked():
        assert watch("-n", "1", "--repair", "dead") == 0
        assert run(["balance", "resume", "-b", "127.0.0.1:1", "--no-guard", "--journal", str(path)]) == 1
    assert path.exists()
    output = capsys.readouterr()
    sentence = f"Another process executes the plan in {path}."
    assert sentence in output.out
    assert sentence in output.err


def test_a_repair_ends_at_a_signal(watch: Callable[..., int], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    ends: list[str] = []

    async def execute(*_: Any) -> bool:
        os.kill(os.getpid(), signal.SIGTERM)
        try:
            await asyncio.wait_for(asyncio.Event().wait(), LIMIT_SECONDS)
        except asyncio.CancelledError:
            ends.append("cancelled")
            raise
        except TimeoutError:
            ends.append("not noticed")
        return True

    monkeypatch.setattr(balance, "_execute", execute)
    Journal(tmp_path / "journal.json", "here", (), None, is_repair=True).write()
    assert watch("--repair", "dead") == 0
    assert ends == ["cancelled"]


def test_a_cluster_that_is_out_of_reach_for_a_time_is_watched_further(
    watch: Callable[..., int], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    looks: list[int] = []

    async def observe(_: object) -> ClusterState:
        looks.append(len(looks))
        if looks[-1] == 1:
            raise ClientError("No broker answers.")
        return cluster()

    monkeypatch.setattr(balance, "observe", observe)
    assert watch("-n", "3") == 0
    assert looks == [0, 1, 2]
    assert "The cluster could not be checked: No broker answers." in capsys.readouterr().out
