"""The doctor reports what it knows if the groups cannot be listed, such as while a coordinator loads."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any

import pytest

from ottla.cli.logic import doctor_facts
from ottla.cli.logic.doctor_checks import examine
from ottla.client.admin.nodes import ClusterNode
from ottla.model.errors import ErrorCode, KafkaError


def answers(value: object) -> Callable[..., Awaitable[object]]:
    async def call(*_: object, **__: object) -> object:
        if isinstance(value, Exception):
            raise value
        return value

    return call


def test_groups_that_cannot_be_listed_hide_no_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    fenced = ClusterNode(1, "h", 9092, None, True)
    admin: Any = SimpleNamespace(
        cluster=SimpleNamespace(describe=answers(SimpleNamespace(brokers=[fenced])), quorum=answers(None)),
        topics=SimpleNamespace(names=answers([]), describe=answers({})),
        configs=SimpleNamespace(describe=answers({})),
        partitions=SimpleNamespace(log_directories=answers({}), reassignments=answers({})),
        transactions=SimpleNamespace(producers=answers({})),
        groups=SimpleNamespace(find=answers(KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS))),
    )
    monkeypatch.setattr(doctor_facts, "_quorum", answers(None))
    monkeypatch.setattr(doctor_facts, "find_heartbeats", answers({}))
    facts = asyncio.run(doctor_facts.gather(admin, seconds=0))
    assert [finding.check for finding in examine(facts)] == ["brokers"]
    assert facts.unknown[0].startswith("groups: ")
