"""How a classic group goes from one generation to the next.

A rebalance begins (`prepare`) when somebody joins, leaves or fails. Everybody has to join again; whoever has not when
the rebalance timeout is over is dropped (`complete_join`), except static members, which only their session removes. An
empty group waits `group.initial.rebalance.delay.ms` for more members first (KIP-134). Then the leader assigns, and each
member fetches its part with SyncGroup before the same timeout is over again (`on_sync_timeout`).

Each function returns a decision: most often nothing, sometimes the record of a group that has become empty.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from ottla.coordinator.group.classic.group import ClassicGroup
from ottla.coordinator.group.classic.member import ClassicMember
from ottla.coordinator.group.classic.phases import Phase
from ottla.coordinator.group.classic.replay import group_record
from ottla.decisions import Decision
from ottla.model.deferred import Deferred
from ottla.model.errors import ErrorCode, KafkaError
from ottla.wire.messages.join_group import JoinGroupResponse
from ottla.wire.messages.sync_group import SyncGroupResponse

if TYPE_CHECKING:
    from ottla.coordinator.group.state import GroupShard

__all__ = [
    "NEW_MEMBER_JOIN_TIMEOUT_MS",
    "NOTHING",
    "answered_when_certain",
    "complete_join",
    "expect_heartbeat",
    "expect_join",
    "forget_heartbeat",
    "maybe_complete_join",
    "on_group_loaded",
    "prepare",
    "prepare_or_complete",
    "received_sync",
    "refuse_assignment",
    "set_assignment",
]

logger = logging.getLogger("ottla.coordinator.group.classic")

NOTHING: Decision[None] = Decision((), None)

R = TypeVar("R")

# How long a join of a member without an id may wait. Its client may have gone, and we would not notice.
NEW_MEMBER_JOIN_TIMEOUT_MS = 5 * 60 * 1000


def answered_when_certain(answer: Deferred[R], response: R) -> Decision[None]:
    """What a member hears again is known already, but perhaps only from records that may still be lost."""

    def on_settled(error: KafkaError | None) -> None:
        # Whoever has asked gets an error through the decision itself.
        if error is None and not answer.done:
            answer.resolve(response)

    return Decision((), None, on_settled=on_settled)


# Beginning.


def prepare_or_complete(group: ClassicGroup, now_ms: int, reason: str) -> Decision[None]:
    return prepare(group, now_ms, reason) if group.can_rebalance else maybe_complete_join(group, now_ms)


def prepare(group: ClassicGroup, now_ms: int, reason: str) -> Decision[None]:
    """Everybody has to join again from here on."""
    if group.phase is Phase.COMPLETING_REBALANCE:
        for member in group.members.values():
            member.assignment = b""
        _send_assignments(group, ErrorCode.REBALANCE_IN_PROGRESS)
    group.pending_sync.clear()
    group.shard.timers.cancel(_sync_key(group))
    is_initial = group.phase is Phase.EMPTY
    group.become(Phase.PREPARING_REBALANCE, now_ms)
    logger.info("group %s rebalances after generation %d: %s", group.group_id, group.generation, reason)
    if is_initial:
        delay_ms = group.shard.config.group_initial_rebalance_delay_ms
        remaining_ms = max(group.rebalance_timeout_ms - delay_ms, 0)
        _wait_for_more(group, delay_ms, remaining_ms)
        return NOTHING
    if group.has_all_joined:
        return complete_join(group, now_ms)
    _schedule(group, _join_key(group), group.rebalance_timeout_ms, complete_join)
    return NOTHING


def _wait_for_more(group: ClassicGroup, delay_ms: int, remaining_ms: int) -> None:
    def on_initial_delay(group: ClassicGroup, now_ms: int) -> Decision[None]:
        if not group.new_member_added or remaining_ms == 0:
            return complete_join(group, now_ms)
        # Somebody came meanwhile: perhaps there are more to come.
        group.new_member_added = False
        next_delay_ms = min(group.shard.config.group_initial_rebalance_delay_ms, remaining_ms)
        _wait_for_more(group, next_delay_ms, max(remaining_ms - delay_ms, 0))
        return NOTHING

    _schedule(group, _join_key(group), delay_ms, on_initial_delay)


# The end of joining.


def maybe_complete_join(group: ClassicGroup, now_ms: int) -> Decision[None]:
    """The initial rebalance waits for its delay, whoever has joined by then."""
    is_waiting = group.phase is Phase.PREPARING_REBALANCE and group.previous_phase is not Phase.EMPTY
    return complete_join(group, now_ms) if is_waiting and group.has_all_joined else NOTHING


def complete_join(group: ClassicGroup, now_ms: int) -> Decision[None]:
    timers = group.shard.timers
    timers.cancel(_join_key(group))
    if group.phase is not Phase.PREPARING_REBALANCE:
        return NOTHING
    for member in group.not_yet_rejoined():
        if member.instance_id is None:
            logger.info("group %s drops member %s, which has not joined in time", group.group_id, member.member_id)
            group.remove(member.member_id)
            forget_heartbeat(group, member.member_id)
    if not group.elect_joined_leader() and group.members:
        # Only static members are left, and none of them is here: their sessions will remove them in the end.
        _schedule(group, _join_key(group), group.rebalance_timeout_ms, complete_join)
        return NOTHING
    group.begin_generation(now_ms)
    if not group.members:
        logger.info("group %s is empty in generation %d", group.group_id, group.generation)
        return Decision((group_record(group),), None, replays=False)
    logger.info("group %s has %d members in generation %d", group.group_id, len(group.members), group.generation)
    # The leader hears of it last. Whoever gives partitions up (KIP-429) joins again as soon as the assignment is there:
    # a member that was not told of its generation by then would sync too late, and all would have to begin anew.
    for member in sorted(group.members.values(), key=lambda member: group.is_leader(member.member_id)):
        group.answer_join(member, group.joined_response(member.member_id))
        expect_heartbeat(group, member)
        member.is_new = False
        group.pending_sync.add(member.member_id)
    generation = group.generation

    def on_sync_timeout(group: ClassicGroup, now_ms: int) -> Decision[None]:
        return _drop_unsynced(group, generation, now_ms)

    _schedule(group, _sync_key(group), group.rebalance_timeout_ms, on_sync_timeout)
    return NOTHING


# Assignments.


def set_assignment(group: ClassicGroup, assignments: dict[str, bytes]) -> None:
    for member in group.members.values():
        member.assignment = assignments.get(member.member_id, b"")
    _send_assignments(group, ErrorCode.NONE)


def refuse_assignment(group: ClassicGroup, error: ErrorCode) -> None:
    for member in group.members.values():
        member.assignment = b""
    _send_assignments(group, error)


def received_sync(group: ClassicGroup, member_id: str) -> None:
    group.pending_sync.discard(member_id)
    if not group.pending_sync:
        group.shard.timers.cancel(_sync_key(group))


def _send_assignments(group: ClassicGroup, error: ErrorCode) -> None:
    is_good = error is ErrorCode.NONE
    for member in list(group.members.values()):
        response = SyncGroupResponse(
            error_code=error,
            protocol_type=group.protocol_type_or_none if is_good else None,
            protocol_name=group.protocol_name if is_good else None,
            assignment=member.assignment,
        )
        if group.answer_sync(member, response):
            # Its session was not watched while it waited.
            expect_heartbeat(group, member)


def _drop_unsynced(group: ClassicGroup, generation: int, now_ms: int) -> Decision[None]:
    is_current = generation == group.generation and group.phase in (Phase.COMPLETING_REBALANCE, Phase.STABLE)
    if not is_current or not group.pending_sync:
        return NOTHING
    dropped = sorted(group.pending_sync)
    for member_id in dropped:
        group.remove(member_id)
        forget_heartbeat(group, member_id)
    return prepare(group, now_ms, f"members have not synced in time: {', '.join(dropped)}")


# Heartbeats.


def expect_heartbeat(group: ClassicGroup, member: ClassicMember, timeout_ms: int | None = None) -> None:
    """Gives the member its session timeout (or this one) from now on."""
    member_id = member.member_id
    delay_ms = member.session_timeout_ms if timeout_ms is None else timeout_ms
    group.shard.timers.schedule(_heartbeat_key(group, member_id), delay_ms, _SessionTimeout(group.group_id, member_id))


def expect_join(group: ClassicGroup, member_id: str, timeout_ms: int) -> None:
    """The id was given out; its owner should come back with it."""
    group.shard.timers.schedule(
        _heartbeat_key(group, member_id), timeout_ms, _SessionTimeout(group.group_id, member_id)
    )


def forget_heartbeat(group: ClassicGroup, member_id: str) -> None:
    group.shard.timers.cancel(_heartbeat_key(group, member_id))


class _SessionTimeout:
    """Decides what a member's silence means; a class, since one is made with every heartbeat."""

    __slots__ = ("_group_id", "_member_id")

    def __init__(self, group_id: str, member_id: str) -> None:
        self._group_id = group_id
        self._member_id = member_id

    def __call__(self, shard: GroupShard, now_ms: int) -> Decision[None]:
        group = shard.groups.get(self._group_id)
        if not isinstance(group, ClassicGroup) or group.phase is Phase.DEAD:
            return NOTHING
        member_id = self._member_id
        if member_id in group.pending_join:
            group.remove(member_id)
            return _after_removal_while_joining(group, now_ms)
        member = group.members.get(member_id)
        if member is None or member.has_satisfied_heartbeat:
            return NOTHING
        # Its client tries again when it is still there.
        group.answer_join(member, JoinGroupResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID))
        group.remove(member_id)
        if group.phase in (Phase.STABLE, Phase.COMPLETING_REBALANCE):
            return prepare_or_complete(group, now_ms, f"member {member_id} sent no heartbeat in time")
        return _after_removal_while_joining(group, now_ms)


def _after_removal_while_joining(group: ClassicGroup, now_ms: int) -> Decision[None]:
    if group.phase is Phase.PREPARING_REBALANCE and group.has_all_joined:
        return complete_join(group, now_ms)
    return NOTHING


# Loading.


def on_group_loaded(group: ClassicGroup, now_ms: int) -> None:
    """Members have their whole session to find the coordinator here."""
    for member in group.members.values():
        expect_heartbeat(group, member)
    size_max = group.shard.config.group_max_size
    if len(group.members) > size_max:
        prepare(group, now_ms, f"{len(group.members)} members are more than {size_max}")


# Timers find the group anew when they fire: it may have gone, or become one of another kind.


def _schedule(
    group: ClassicGroup, key: object, delay_ms: int, decide: Callable[[ClassicGroup, int], Decision[None]]
) -> None:
    group_id = group.group_id

    def on_time(shard: GroupShard, now_ms: int) -> Decision[None]:
        found = shard.groups.get(group_id)
        return decide(found, now_ms) if isinstance(found, ClassicGroup) else NOTHING

    group.shard.timers.schedule(key, delay_ms, on_time)


def _join_key(group: ClassicGroup) -> object:
    return ("join", group.group_id)


def _sync_key(group: ClassicGroup) -> object:
    return ("sync", group.group_id)


def _heartbeat_key(group: ClassicGroup, member_id: str) -> object:
    return ("heartbeat", group.group_id, member_id)
