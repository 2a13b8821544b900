"""Timers of classic groups: heartbeat sessions, the end of joining and the end of syncing.

A timer that fires looks up its group by id, because the group may have been deleted or replaced by another kind.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ottla.decisions import Decision

if TYPE_CHECKING:
    from ottla.coordinator.group.classic.group import ClassicGroup
    from ottla.coordinator.group.classic.member import ClassicMember
    from ottla.coordinator.group.state import GroupShard

__all__ = [
    "NOTHING",
    "cancel_join_timer",
    "cancel_sync_timer",
    "expect_heartbeat",
    "expect_join",
    "forget_heartbeat",
    "schedule_join_timer",
    "schedule_now",
    "schedule_sync_timer",
]

NOTHING: Decision[None] = Decision((), None)

_OfGroup = Callable[["ClassicGroup", int], Decision[None]]


def expect_heartbeat(group: ClassicGroup, member: ClassicMember, timeout_ms: int | None = None) -> None:
    """Gives the member its session timeout, or this one, from now on."""
    member_id = member.member_id
    delay_ms = member.session_timeout_ms if timeout_ms is None else timeout_ms
    group.shard.timers.schedule(
        ("heartbeat", group.group_id, member_id), delay_ms, _SessionTimeout(group.group_id, member_id)
    )


def expect_join(group: ClassicGroup, member_id: str, timeout_ms: int) -> None:
    """The id was given out: its owner has this long to join with it."""
    group.shard.timers.schedule(
        ("heartbeat", group.group_id, member_id), timeout_ms, _SessionTimeout(group.group_id, member_id)
    )


def forget_heartbeat(group: ClassicGroup, member_id: str) -> None:
    group.shard.timers.cancel(("heartbeat", group.group_id, member_id))


class _SessionTimeout:
    """A class and not a closure, because every heartbeat makes one."""

    __slots__ = ("_group_id", "_member_id")

    def __init__(self, group_id: str, member_id: str) -> None:
        self._group_id = group_id
        self._member_id = member_id

    def __call__(self, shard: GroupShard, now_ms: int) -> Decision[None]:
        from ottla.coordinator.group.classic.rebalance import decide_session_timeout

        group = _classic_group(shard, self._group_id)
        return NOTHING if group is None else decide_session_timeout(group, self._member_id, now_ms)


def schedule_join_timer(group: ClassicGroup, delay_ms: int, decide: _OfGroup) -> None:
    group.shard.timers.schedule(("join", group.group_id), delay_ms, _for_group(group.group_id, decide))


def cancel_join_timer(group: ClassicGroup) -> None:
    group.shard.timers.cancel(("join", group.group_id))


def schedule_sync_timer(group: ClassicGroup, delay_ms: int, decide: _OfGroup) -> None:
    group.shard.timers.schedule(("sync", group.group_id), delay_ms, _for_group(group.group_id, decide))


def cancel_sync_timer(group: ClassicGroup) -> None:
    group.shard.timers.cancel(("sync", group.group_id))


def schedule_now(group: ClassicGroup, purpose: str, decide: _OfGroup) -> None:
    """Submits a decision after the present one is settled. A shard that is given up drops it."""
    group.shard.timers.schedule((purpose, group.group_id), 0, _for_group(group.group_id, decide))


def _for_group(group_id: str, decide: _OfGroup) -> Callable[[GroupShard, int], Decision[None]]:
    def on_time(shard: GroupShard, now_ms: int) -> Decision[None]:
        group = _classic_group(shard, group_id)
        return NOTHING if group is None else decide(group, now_ms)

    return on_time


def _classic_group(shard: GroupShard, group_id: str) -> ClassicGroup | None:
    from ottla.coordinator.group.classic.group import ClassicGroup
    from ottla.coordinator.group.classic.phases import Phase

    group = shard.groups.get(group_id)
    return group if isinstance(group, ClassicGroup) and group.phase is not Phase.DEAD else None
