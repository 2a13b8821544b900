"""Nodes with a defect in how they coordinate consumer groups."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.coordinator.group.classic.group import ClassicGroup
from ottla.coordinator.group.classic.member import ClassicMember
from ottla.coordinator.runtime.shard import Shard


def everybody_gets_the_same(patch: pytest.MonkeyPatch) -> None:
    """Members of a classic group are given the share of the first of them."""
    answer = ClassicGroup.answer_sync

    def answer_sync(group: ClassicGroup, member: ClassicMember, response: Any) -> bool:
        first = min(group.members.values(), key=lambda each: each.member_id)
        response.assignment = first.assignment
        return answer(group, member, response)

    patch.setattr(ClassicGroup, "answer_sync", answer_sync)


def offsets_live_in_memory(patch: pytest.MonkeyPatch) -> None:
    """A commit is acknowledged and never written: whoever takes over knows nothing of it."""

    def flush(shard: Shard[Any]) -> None:
        batch, shard._open = shard._open, None
        if batch is not None:
            batch.settle(None)

    def append_alone(_shard: Shard[Any], _checksummed: bytes, response: Any, _now_ms: int) -> Any:
        return response

    patch.setattr(Shard, "_flush", flush)
    patch.setattr(Shard, "append_alone", append_alone)
