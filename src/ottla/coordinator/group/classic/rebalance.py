"""Rebalances of a classic group: the steps from one generation to the next.

A rebalance begins (`prepare`) when a member joins, leaves or fails. All members have to join again. Members that have
not joined when the rebalance timeout ends are dropped (`decide_complete_join`), except static members, which only their
session removes. An empty group first waits `group.initial.rebalance.delay.ms` for more members (KIP-134). Then the
leader assigns, and each member fetches its assignment with SyncGroup before the same timeout ends again.

The functions that begin with `decide_` return decisions. The other functions are steps: they change the group and add
to the answers of the decision. A step never makes a group empty: only `ClassicGroup.store` does, when it replays a
record.
"""

from __future__ import annotations

import logging
from collections.abc import Collection
from typing import TypeVar

from ottla.coordinator.group.classic.group import ClassicGroup
from ottla.coordinator.group.classic.phases import Phase
from ottla.coordinator.group.classic.replay import empty_generation_record
from ottla.coordinator.group.classic.sessions import (
    NOTHING,
    cancel_join_timer,
    cancel_sync_timer,
    expect_heartbeat,
    schedule_join_timer,
    schedule_sync_timer,
)
from ottla.coordinator.group.classic.soft import AnswerList
from ottla.decisions import Decision
from ottla.model.errors import ErrorCode
from ottla.wire.messages.sync_group import SyncGroupResponse

__all__ = [
    "NEW_MEMBER_JOIN_TIMEOUT_MS",
    "decide_removal",
    "decide_session_timeout",
    "on_group_loaded",
    "prepare",
    "prepare_or_complete",
    "refuse_syncs",
]

logger = logging.getLogger("ottla.coordinator.group.classic")

R = TypeVar("R")

# The timeout of a join by a member without an id, whose client may have ended without the coordinator noticing.
NEW_MEMBER_JOIN_TIMEOUT_MS = 5 * 60 * 1000


# Beginning.


def prepare_or_complete(group: ClassicGroup, answers: AnswerList, now_ms: int, reason: str) -> None:
    if group.can_rebalance:
        prepare(group, answers, now_ms, reason)
    else:
        _complete_if_all_joined(group, answers, now_ms)


def prepare(group: ClassicGroup, answers: AnswerList, now_ms: int, reason: str) -> None:
    """All members have to join again from here on."""
    if group.phase is Phase.COMPLETING_REBALANCE:
        refuse_syncs(group, answers, ErrorCode.REBALANCE_IN_PROGRESS)
    group.soft.expect_no_syncs()
    cancel_sync_timer(group)
    is_initial = group.phase is Phase.EMPTY
    group.become(Phase.PREPARING_REBALANCE, now_ms)
    logger.info("group %s rebalances after generation %d: %s", group.group_id, group.generation, reason)
    if is_initial:
        delay_ms = group.shard.config.group_initial_rebalance_delay_ms
        remaining_ms = max(group.rebalance_timeout_ms - delay_ms, 0)
        _wait_for_more(group, delay_ms, remaining_ms)
    elif group.has_all_joined:
        _complete_join(group, answers, now_ms)
    else:
        schedule_join_timer(group, group.rebalance_timeout_ms, decide_complete_join)


def _wait_for_more(group: ClassicGroup, delay_ms: int, remaining_ms: int) -> None:
    def on_initial_delay(group: ClassicGroup, now_ms: int) -> Decision[None]:
        if not group.soft.has_late_joiner or remaining_ms == 0:
            return decide_complete_join(group, now_ms)
        # A member joined during the delay: more members may follow.
        group.soft.extend_initial_delay()
        next_delay_ms = min(group.shard.config.group_initial_rebalance_delay_ms, remaining_ms)
        _wait_for_more(group, next_delay_ms, max(remaining_ms - delay_ms, 0))
        return NOTHING

    schedule_join_timer(group, delay_ms, on_initial_delay)


# The end of joining.


def _complete_if_all_joined(group: ClassicGroup, answers: AnswerList, now_ms: int) -> None:
    """The initial rebalance waits for its delay, however many members have joined by then."""
    is_waiting = group.phase is Phase.PREPARING_REBALANCE and group.previous_phase is not Phase.EMPTY
    if is_waiting and group.has_all_joined:
        _complete_join(group, answers, now_ms)


def decide_complete_join(group: ClassicGroup, now_ms: int) -> Decision[None]:
    """The rebalance timeout is over: members that have not joined are dropped."""
    if group.phase is not Phase.PREPARING_REBALANCE:
        return NOTHING
    dropped = [member.member_id for member in group.not_yet_rejoined() if member.instance_id is None]
    if len(dropped) == len(group.members):
        return _decide_empty(group, None, [], now_ms)
    for member_id in dropped:
        logger.info("group %s drops member %s, which has not joined in time", group.group_id, member_id)
        group.remove(member_id)
    answers: AnswerList = []
    _complete_join(group, answers, now_ms)
    return Decision((), None, answers=answers)


def _complete_join(group: ClassicGroup, answers: AnswerList, now_ms: int) -> None:
    cancel_join_timer(group)
    if not group.elect_joined_leader():
        # Only static members remain, and none has joined. The ends of their sessions will remove them.
        schedule_join_timer(group, group.rebalance_timeout_ms, decide_complete_join)
        return
    group.begin_generation(now_ms)
    logger.info("group %s has %d members in generation %d", group.group_id, len(group.members), group.generation)
    # The leader is answered last. A member that gives partitions up (KIP-429) joins again as soon as it has its
    # assignment. A member that had not been told its generation by then would sync too late, and the rebalance would
    # start over.
    for member in sorted(group.members.values(), key=lambda member: group.is_leader(member.member_id)):
        request = group.soft.take_join(member.member_id)
        if request is not None:
            answers.append((request, group.joined_response(member.member_id)))
        expect_heartbeat(group, member)
    group.soft.expect_syncs(group.members)
    generation = group.generation

    def on_sync_timeout(group: ClassicGroup, now_ms: int) -> Decision[None]:
        return _decide_drop_unsynced(group, generation, now_ms)

    schedule_sync_timer(group, group.rebalance_timeout_ms, on_sync_timeout)


# Assignments.


def refuse_syncs(group: ClassicGroup, answers: AnswerList, code: ErrorCode) -> None:
    """Answers the waiting SyncGroup requests with an error, because their generation gets no assignment."""
    for member in group.members.values():
        request = group.soft.take_sync(member.member_id)
        if request is not None:
            answers.append((request, SyncGroupResponse(error_code=code)))
            # The session was not watched while the request waited.
            expect_heartbeat(group, member)


def _decide_drop_unsynced(group: ClassicGroup, generation: int, now_ms: int) -> Decision[None]:
    is_current = generation == group.generation and group.phase in (Phase.COMPLETING_REBALANCE, Phase.STABLE)
    if not is_current or not group.soft.unsynced:
        return NOTHING
    dropped = sorted(group.soft.unsynced)
    reason = f"members have not synced in time: {', '.join(dropped)}"
    return decide_removal(group, dropped, None, now_ms, reason)


# Removal.


def decide_removal(
    group: ClassicGroup, member_ids: Collection[str], response: R, now_ms: int, reason: str
) -> Decision[R]:
    """Members, or ids that were given out, go. Their waiting requests get UNKNOWN_MEMBER_ID."""
    answers = group.soft.answers_to(member_ids, ErrorCode.UNKNOWN_MEMBER_ID)
    if group.would_be_empty_without(member_ids):
        logger.info("group %s loses its last members: %s", group.group_id, reason)
        return _decide_empty(group, response, answers, now_ms)
    for member_id in member_ids:
        group.remove(member_id)
    if group.phase in (Phase.STABLE, Phase.COMPLETING_REBALANCE):
        prepare(group, answers, now_ms, reason)
    else:
        _complete_if_all_joined(group, answers, now_ms)
    return Decision((), response, answers=answers)


def _decide_empty(group: ClassicGroup, response: R, answers: AnswerList, now_ms: int) -> Decision[R]:
    """The decision for a group without members: replaying the record of the next generation removes the members."""
    logger.info("group %s is empty in generation %d", group.group_id, group.generation + 1)
    return Decision((empty_generation_record(group, now_ms),), response, answers=answers)


def decide_session_timeout(group: ClassicGroup, member_id: str, now_ms: int) -> Decision[None]:
    """The session timed out: the member sent no heartbeat, or an id that was handed out was never used."""
    if member_id in group.members:
        if group.soft.is_waiting(member_id):
            return NOTHING
        return decide_removal(group, (member_id,), None, now_ms, f"member {member_id} sent no heartbeat in time")
    if member_id not in group.soft.pending_ids:
        return NOTHING
    if group.would_be_empty_without((member_id,)):
        return _decide_empty(group, None, [], now_ms)
    group.remove(member_id)
    answers: AnswerList = []
    # A rebalance may have waited for this id alone. A stable group has never seen it.
    _complete_if_all_joined(group, answers, now_ms)
    return Decision((), None, answers=answers)


# Loading.


def on_group_loaded(group: ClassicGroup, now_ms: int) -> None:
    """Members have their whole session timeout to find the coordinator here."""
    for member in group.members.values():
        expect_heartbeat(group, member)
    size_max = group.shard.config.group_max_size
    if len(group.members) > size_max:
        answers: AnswerList = []
        prepare(group, answers, now_ms, f"{len(group.members)} members are more than {size_max}")
        assert not answers, "no request waits in a group that was just loaded"
