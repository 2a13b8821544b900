"""Nodes with a defect in how they coordinate consumer groups."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.coordinator.group.classic.group import ClassicGroup
from ottla.coordinator.group.classic.member import ClassicMember
from ottla.coordinator.group.offsets import commit
from ottla.coordinator.runtime.shard import Shard


def everybody_gets_the_same(patch: pytest.MonkeyPatch) -> None:
    """Every member of a classic group gets the assignment of the first member."""
    answer = ClassicGroup.synced_response

    def synced_response(group: ClassicGroup, _member: ClassicMember) -> Any:
        return answer(group, min(group.members.values(), key=lambda member: member.member_id))

    patch.setattr(ClassicGroup, "synced_response", synced_response)


def offsets_live_in_memory(patch: pytest.MonkeyPatch) -> None:
    """A commit is acknowledged but never written, so the next coordinator does not have it."""

    def flush(shard: Shard[Any]) -> None:
        batch, shard._open = shard._open, None
        if batch is not None:
            batch.settle(None)

    def append_alone(_shard: Shard[Any], _checksummed: bytes, response: Any, _now_ms: int) -> Any:
        return response

    patch.setattr(Shard, "_flush", flush)
    patch.setattr(Shard, "append_alone", append_alone)


def members_leave_but_their_protocols_stay(patch: pytest.MonkeyPatch) -> None:
    """A classic group still counts the protocols of former members."""
    count = ClassicGroup._count_protocols

    def count_protocols(group: ClassicGroup, protocols: Any, step: int) -> None:
        if step > 0:
            count(group, protocols, step)

    patch.setattr(ClassicGroup, "_count_protocols", count_protocols)


def late_commits_are_taken(patch: pytest.MonkeyPatch) -> None:
    """A member may commit with any earlier epoch of its own."""
    patch.setattr(commit, "check_late_commit", lambda *_: None)
