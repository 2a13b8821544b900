"""Timers of consumer groups: a member that sends no heartbeat, or does not revoke its partitions in time, is removed.

A timer that fires looks up group and member by id, because both may no longer exist.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from ottla.coordinator.group.consumer.group import ConsumerGroup
from ottla.coordinator.group.consumer.member import ConsumerMember
from ottla.coordinator.group.consumer.settings import session_timeout_ms
from ottla.coordinator.group.consumer.states import MemberState
from ottla.decisions import Decision

if TYPE_CHECKING:
    from ottla.coordinator.group.state import GroupShard

__all__ = [
    "cancel_progress_timers",
    "cancel_timers",
    "expect_heartbeat",
    "expect_revocation",
    "forget_revocation",
    "on_group_loaded",
]

logger = logging.getLogger("ottla.coordinator.group.consumer")


def expect_heartbeat(shard: GroupShard, group_id: str, member: ConsumerMember) -> None:
    """Gives the member its session timeout from now on."""
    classic = member.classic
    timeout_ms = session_timeout_ms(shard.context, group_id) if classic is None else classic.session_timeout_ms
    timer = _SessionTimeout(group_id, member.member_id)
    shard.timers.schedule(_session_key(group_id, member.member_id), timeout_ms, timer)


def expect_revocation(shard: GroupShard, group_id: str, member: ConsumerMember) -> None:
    """The member has its rebalance timeout to revoke partitions, and so to leave its epoch."""
    epoch = member.member_epoch
    member_id = member.member_id

    def on_rebalance_timeout(shard: GroupShard, now_ms: int) -> Decision[None]:
        group = shard.groups.get(group_id)
        current = group.members.get(member_id) if isinstance(group, ConsumerGroup) else None
        if current is None or current.member_epoch != epoch or current.state is not MemberState.UNREVOKED_PARTITIONS:
            return Decision((), None)
        return _fence(shard, group_id, member_id, f"it has not left epoch {epoch} in time", now_ms)

    shard.timers.schedule(_rebalance_key(group_id, member_id), member.rebalance_timeout_ms, on_rebalance_timeout)


def forget_revocation(shard: GroupShard, group_id: str, member_id: str) -> None:
    shard.timers.cancel(_rebalance_key(group_id, member_id))


def cancel_timers(shard: GroupShard, group_id: str, member_id: str) -> None:
    """Called when the removal of a member is replayed: a member whose removal is refused keeps its session."""
    shard.timers.cancel(_session_key(group_id, member_id))
    cancel_progress_timers(shard, group_id, member_id)


def cancel_progress_timers(shard: GroupShard, group_id: str, member_id: str) -> None:
    """Cancels all timers except the session. The end of a session without its member has no effect."""
    for key in (_rebalance_key, join_key, sync_key):
        shard.timers.cancel(key(group_id, member_id))


def on_group_loaded(group: ConsumerGroup, _now_ms: int) -> None:
    """Members have their whole session timeout to find the coordinator here."""
    for member in group.members.values():
        expect_heartbeat(group.shard, group.group_id, member)
        if member.state is MemberState.UNREVOKED_PARTITIONS and not member.uses_classic_protocol:
            expect_revocation(group.shard, group.group_id, member)


class _SessionTimeout:
    """A class and not a closure, because every heartbeat makes one."""

    __slots__ = ("_group_id", "_member_id")

    def __init__(self, group_id: str, member_id: str) -> None:
        self._group_id = group_id
        self._member_id = member_id

    def __call__(self, shard: GroupShard, now_ms: int) -> Decision[None]:
        return _fence(shard, self._group_id, self._member_id, "its session has expired", now_ms)


def _fence(shard: GroupShard, group_id: str, member_id: str, reason: str, now_ms: int) -> Decision[None]:
    from ottla.coordinator.group.consumer.leave import decide_fence

    return decide_fence(shard, group_id, member_id, reason, now_ms)


def _session_key(group_id: str, member_id: str) -> object:
    return ("session", group_id, member_id)


def _rebalance_key(group_id: str, member_id: str) -> object:
    return ("rebalance", group_id, member_id)


def join_key(group_id: str, member_id: str) -> object:
    """The key of the timer for a member of the classic protocol that has to join again."""
    return ("rejoin", group_id, member_id)


def sync_key(group_id: str, member_id: str) -> object:
    """A member of the classic protocol that has joined and has to fetch its assignment."""
    return ("resync", group_id, member_id)
