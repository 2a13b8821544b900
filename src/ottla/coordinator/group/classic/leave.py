"""LeaveGroup to a classic group: a member goes, or an administrator removes static members by instance id."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.coordinator.group.classic.group import ClassicGroup
from ottla.coordinator.group.classic.phases import Phase
from ottla.coordinator.group.classic.rebalance import (
    NOTHING,
    forget_heartbeat,
    maybe_complete_join,
    prepare_or_complete,
)
from ottla.coordinator.group.consumer.group import ConsumerGroup
from ottla.decisions import Decision
from ottla.model.errors import ErrorCode, KafkaError
from ottla.wire.messages.join_group import JoinGroupResponse
from ottla.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity, MemberResponse
from ottla.wire.messages.sync_group import SyncGroupResponse

if TYPE_CHECKING:
    from ottla.coordinator.group.state import GroupShard

__all__ = ["decide_leave"]


def decide_leave(shard: GroupShard, request: LeaveGroupRequest, now_ms: int) -> Decision[LeaveGroupResponse]:
    """Every member of the request is answered for itself."""
    group = shard.groups.get(request.group_id)
    if isinstance(group, ConsumerGroup):
        from ottla.coordinator.group.consumer.classic_members import decide_classic_leave

        return decide_classic_leave(shard, group, request, now_ms)
    if not isinstance(group, ClassicGroup):
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
    if group.phase is Phase.DEAD:
        raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    answers: list[MemberResponse] = []
    for identity in request.members:
        answer = MemberResponse(member_id=identity.member_id, group_instance_id=identity.group_instance_id)
        try:
            _leave(group, identity)
        except KafkaError as error:
            answer.error_code = error.code
        answers.append(answer)
    gone = [answer.group_instance_id or answer.member_id for answer in answers if not answer.error_code]
    following = NOTHING
    if gone and group.phase in (Phase.STABLE, Phase.COMPLETING_REBALANCE):
        following = prepare_or_complete(group, now_ms, f"members leave: {', '.join(gone)}")
    elif gone and group.phase is Phase.PREPARING_REBALANCE:
        following = maybe_complete_join(group, now_ms)
    return Decision(
        following.records,
        LeaveGroupResponse(members=answers),
        replays=following.replays,
        on_settled=following.on_settled,
    )


def _leave(group: ClassicGroup, identity: MemberIdentity) -> None:
    member_id, instance_id = identity.member_id, identity.group_instance_id
    if not member_id:
        known_id = None if instance_id is None else group.static_members.get(instance_id)
        if known_id is None:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
        member_id = known_id
    elif member_id in group.pending_join:
        group.remove(member_id)
        forget_heartbeat(group, member_id)
        return
    else:
        group.check_member(member_id, instance_id)
    member = group.members[member_id]
    forget_heartbeat(group, member_id)
    group.answer_join(member, JoinGroupResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID))
    group.answer_sync(member, SyncGroupResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID))
    group.remove(member_id)
