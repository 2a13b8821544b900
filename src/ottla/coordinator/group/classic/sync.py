"""SyncGroup to a classic group: the leader sends the assignment, and each member gets its part.

The assignment is a record. Replaying the record makes the group stable. After the commit, the waiting requests are
answered together with the leader's request.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.coordinator.group.classic.group import ClassicGroup
from ottla.coordinator.group.classic.phases import Phase
from ottla.coordinator.group.classic.rebalance import prepare, refuse_syncs
from ottla.coordinator.group.classic.replay import group_record
from ottla.coordinator.group.classic.sessions import NOTHING, cancel_sync_timer, expect_heartbeat, schedule_now
from ottla.coordinator.group.classic.soft import AnswerList
from ottla.coordinator.group.consumer.group import ConsumerGroup
from ottla.decisions import Decision
from ottla.model.deferred import Deferred
from ottla.model.errors import ErrorCode, KafkaError
from ottla.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse

if TYPE_CHECKING:
    from ottla.coordinator.group.state import GroupShard

__all__ = ["decide_sync"]

# The response, or where it will be when the leader has assigned.
SyncDecision = Decision[Deferred[SyncGroupResponse]]


def decide_sync(shard: GroupShard, request: SyncGroupRequest, now_ms: int) -> SyncDecision:
    """Raises KafkaError for an invalid request."""
    group = shard.groups.get(request.group_id)
    if isinstance(group, ConsumerGroup):
        from ottla.coordinator.group.consumer.classic_members import decide_classic_sync

        return decide_classic_sync(shard, group, request)
    if not isinstance(group, ClassicGroup) or group.is_empty:
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
    _check(group, request)
    member_id = request.member_id
    if group.phase is Phase.PREPARING_REBALANCE:
        raise KafkaError(ErrorCode.REBALANCE_IN_PROGRESS)
    if group.phase is Phase.COMPLETING_REBALANCE and group.is_leader(member_id):
        return _store_assignment(group, request, now_ms)
    _on_sync(group, member_id)
    if group.phase is Phase.STABLE:
        return Decision((), Deferred.resolved(group.synced_response(group.members[member_id])))
    answer: Deferred[SyncGroupResponse] = Deferred()
    group.soft.wait_for_sync(member_id, answer)
    return Decision((), answer)


def _check(group: ClassicGroup, request: SyncGroupRequest) -> None:
    if group.phase is Phase.DEAD:
        raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    group.check_member(request.member_id, request.group_instance_id)
    if request.generation_id != group.generation:
        raise KafkaError(ErrorCode.ILLEGAL_GENERATION)
    for requested, current in (
        (request.protocol_type, group.protocol_type_or_none),
        (request.protocol_name, group.protocol_name),
    ):
        if requested is not None and current is not None and requested != current:
            raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)


def _on_sync(group: ClassicGroup, member_id: str) -> None:
    group.soft.on_sync(member_id)
    if not group.soft.unsynced:
        cancel_sync_timer(group)


def _store_assignment(group: ClassicGroup, request: SyncGroupRequest, now_ms: int) -> SyncDecision:
    """The record makes the group stable; after its commit all members that wait get their parts."""
    assignments = {part.member_id: bytes(part.assignment) for part in request.assignments}
    generation, leader_id = group.generation, request.member_id

    def on_settled(error: KafkaError | None) -> None:
        if error is not None:
            code = error.code
            schedule_now(group, "unassigned", lambda group, now_ms: _decide_unassigned(group, generation, code, now_ms))

    def answer(_shard: GroupShard, _now_ms: int) -> SyncDecision:
        _on_sync(group, leader_id)
        own: Deferred[SyncGroupResponse] = Deferred()
        group.soft.wait_for_sync(leader_id, own)
        answers: AnswerList = []
        for member in group.members.values():
            waiting = group.soft.take_sync(member.member_id)
            if waiting is not None:
                answers.append((waiting, group.synced_response(member)))
                # The session was not watched while the request waited.
                expect_heartbeat(group, member)
        return Decision((), own, answers=answers, on_settled=on_settled)

    record = group_record(group, now_ms=now_ms, assignments=assignments)
    return Decision.first([record], answer, on_refused=on_settled)


def _decide_unassigned(group: ClassicGroup, generation: int, code: ErrorCode, now_ms: int) -> Decision[None]:
    """The assignment of this generation was refused, or may not be committed: the members join again."""
    if group.generation != generation or group.phase not in (Phase.COMPLETING_REBALANCE, Phase.STABLE):
        return NOTHING
    answers: AnswerList = []
    if group.phase is Phase.COMPLETING_REBALANCE:
        refuse_syncs(group, answers, code)
    prepare(group, answers, now_ms, f"the assignment could not be stored ({code.name})")
    return Decision((), None, answers=answers)
