"""`ottla audit` ends at the end of the topic, also if the last offset has no record."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any, Self

import pytest

from ottla.cli.commands import audit
from ottla.cli.logic.audit_search import AuditSearch
from ottla.model.ids import TopicPartition

AUDIT = TopicPartition("__audit", 0)
EVENT = {"stream": "authorization", "principal": "User:ann"}


class FakeConsumer:
    """A partition with one event at offset 0, and a transaction marker at offset 1."""

    def __init__(self, _: object) -> None:
        self.offset = 0

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        pass

    async def assign(self, _: Iterable[TopicPartition]) -> None:
        pass

    async def beginning_offsets(self, _: object) -> dict[TopicPartition, int]:
        return {AUDIT: 0}

    async def end_offsets(self, _: object) -> dict[TopicPartition, int]:
        return {AUDIT: 2}

    def seek(self, _: TopicPartition, offset: int) -> None:
        self.offset = offset

    def position(self, _: TopicPartition) -> int:
        return self.offset

    async def poll(self, _: int) -> list[Any]:
        assert self.offset < 2, "the end is read already"
        self.offset = 2
        return [SimpleNamespace(topic="__audit", partition=0, offset=0, value=json.dumps(EVENT).encode())]


def test_a_marker_at_the_end_is_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    async def topics() -> dict[str, Any]:
        return {"__audit": SimpleNamespace(partitions=[0])}

    admin: Any = SimpleNamespace(topics=SimpleNamespace(all=topics))
    session: Any = SimpleNamespace(settings=None)
    monkeypatch.setattr(audit, "Consumer", FakeConsumer)
    assert asyncio.run(audit._from_topic(admin, session, AuditSearch())) == [EVENT]
