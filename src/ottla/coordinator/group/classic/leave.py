"""LeaveGroup to a classic group: a member leaves, or an administrator removes static members by instance id."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.coordinator.group.classic.group import ClassicGroup
from ottla.coordinator.group.classic.phases import Phase
from ottla.coordinator.group.classic.rebalance import decide_removal
from ottla.coordinator.group.consumer.group import ConsumerGroup
from ottla.decisions import Decision
from ottla.model.errors import ErrorCode, KafkaError
from ottla.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity, MemberResponse

if TYPE_CHECKING:
    from ottla.coordinator.group.state import GroupShard

__all__ = ["decide_leave"]


def decide_leave(shard: GroupShard, request: LeaveGroupRequest, now_ms: int) -> Decision[LeaveGroupResponse]:
    """The response has an error code for each member of the request."""
    group = shard.groups.get(request.group_id)
    if isinstance(group, ConsumerGroup):
        from ottla.coordinator.group.consumer.classic_members import decide_classic_leave

        return decide_classic_leave(shard, group, request, now_ms)
    if not isinstance(group, ClassicGroup):
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
    if group.phase is Phase.DEAD:
        raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    responses: list[MemberResponse] = []
    leaving: dict[str, None] = {}
    for identity in request.members:
        response = MemberResponse(member_id=identity.member_id, group_instance_id=identity.group_instance_id)
        try:
            member_id = _leaving(group, identity)
            if member_id in leaving:
                raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
            leaving[member_id] = None
        except KafkaError as error:
            response.error_code = error.code
        responses.append(response)
    answer = LeaveGroupResponse(members=responses)
    if not leaving:
        return Decision((), answer)
    names = [response.group_instance_id or response.member_id for response in responses if not response.error_code]
    return decide_removal(group, leaving, answer, now_ms, f"members leave: {', '.join(names)}")


def _leaving(group: ClassicGroup, identity: MemberIdentity) -> str:
    """The id of the member, or one that was given out and has not come back."""
    member_id, instance_id = identity.member_id, identity.group_instance_id
    if not member_id:
        known_id = None if instance_id is None else group.static_members.get(instance_id)
        if known_id is None:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
        return known_id
    if member_id not in group.soft.pending_ids:
        group.check_member(member_id, instance_id)
    return member_id
