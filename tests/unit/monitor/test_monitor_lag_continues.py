"""`ottla monitor lag` continues after a sample that fails, as the outage may be why it is watched."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Self

import pytest

from ottla.cli import session
from ottla.cli.app import run
from ottla.cli.commands import monitor
from ottla.client.errors import ClusterUnreachable
from ottla.monitor.group_watch import GroupStatus, GroupWatch, PartitionStatus
from ottla.monitor.lag import Status

PARTITION = PartitionStatus(topic="t", partition=0, status=Status.OK, committed=1, end=1, lag=0, lag_seconds=0.0)
SAMPLE = [GroupStatus(group="g", state="Stable", status=Status.OK, lag=0, lag_seconds=0.0, partitions=(PARTITION,))]


class FakeAdmin:
    def __init__(self, _: object) -> None:
        pass

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        pass


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    async def pause(*_: object) -> None:
        pass

    monkeypatch.setattr(monitor, "pause", pause)
    monkeypatch.setattr(session, "AdminClient", FakeAdmin)

    def set_outcomes(*outcomes: Any) -> None:
        waiting = list(outcomes)

        async def look(_: GroupWatch) -> list[GroupStatus]:
            outcome = waiting.pop(0)
            if isinstance(outcome, Exception):
                raise outcome
            return list(outcome)

        monkeypatch.setattr(GroupWatch, "look", look)

    return set_outcomes


def test_a_sample_that_fails_does_not_end_the_watch(
    looks: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    looks(SAMPLE, ClusterUnreachable("No broker answers."), SAMPLE)
    assert run(["monitor", "lag", "-n", "3", "--json"]) == 1
    captured = capsys.readouterr()
    assert [json.loads(line)[0]["group"] for line in captured.out.splitlines()] == ["g", "g"]
    assert captured.err == "ottla: No broker answers.\n"


def test_the_first_sample_that_fails_ends_the_watch(
    looks: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    looks(ClusterUnreachable("No broker answers."), SAMPLE)
    assert run(["monitor", "lag", "-n", "2", "--json"]) == 1
    assert capsys.readouterr().out == ""
