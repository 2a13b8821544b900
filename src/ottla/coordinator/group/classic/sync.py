"""SyncGroup to a classic group: the leader hands the assignment in, everybody gets a part of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.coordinator.group.classic.group import ClassicGroup
from ottla.coordinator.group.classic.phases import Phase
from ottla.coordinator.group.classic.rebalance import (
    NOTHING,
    answered_when_certain,
    prepare_or_complete,
    received_sync,
    refuse_assignment,
    set_assignment,
)
from ottla.coordinator.group.classic.replay import group_record
from ottla.coordinator.group.consumer.group import ConsumerGroup
from ottla.decisions import Decision
from ottla.model.deferred import Deferred
from ottla.model.errors import ErrorCode, KafkaError
from ottla.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse

if TYPE_CHECKING:
    from ottla.coordinator.group.state import GroupShard

__all__ = ["decide_sync"]


def decide_sync(
    shard: GroupShard, request: SyncGroupRequest, answer: Deferred[SyncGroupResponse], now_ms: int
) -> Decision[None]:
    """Answers through `answer`; raises KafkaError for what is wrong with the request."""
    group = shard.groups.get(request.group_id)
    if isinstance(group, ConsumerGroup):
        from ottla.coordinator.group.consumer.classic_members import decide_classic_sync

        return decide_classic_sync(shard, group, request, answer)
    if not isinstance(group, ClassicGroup) or group.is_empty:
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
    _check(group, request)
    member = group.members[request.member_id]
    if group.phase is Phase.PREPARING_REBALANCE:
        raise KafkaError(ErrorCode.REBALANCE_IN_PROGRESS)
    received_sync(group, request.member_id)
    if group.phase is Phase.STABLE:
        response = SyncGroupResponse(
            protocol_type=group.protocol_type_or_none,
            protocol_name=group.protocol_name,
            assignment=member.assignment,
        )
        return answered_when_certain(answer, response)
    member.awaiting_sync = answer
    if not group.is_leader(request.member_id):
        return NOTHING
    return _store_assignment(group, request, now_ms)


def _check(group: ClassicGroup, request: SyncGroupRequest) -> None:
    if group.phase is Phase.DEAD:
        raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    group.check_member(request.member_id, request.group_instance_id)
    if request.generation_id != group.generation:
        raise KafkaError(ErrorCode.ILLEGAL_GENERATION)
    for asked, known in (
        (request.protocol_type, group.protocol_type_or_none),
        (request.protocol_name, group.protocol_name),
    ):
        if asked is not None and known is not None and asked != known:
            raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)


def _store_assignment(group: ClassicGroup, request: SyncGroupRequest, now_ms: int) -> Decision[None]:
    """The group is stable, and its members get their parts, once the assignment is committed."""
    given = {each.member_id: bytes(each.assignment) for each in request.assignments}
    assignments = {member_id: given.get(member_id, b"") for member_id in group.members}
    generation = group.generation

    def on_settled(error: KafkaError | None) -> None:
        if group.phase is not Phase.COMPLETING_REBALANCE or group.generation != generation:
            # Another rebalance has begun meanwhile, and answers everybody.
            return
        if error is not None:
            refuse_assignment(group, error.code)
            prepare_or_complete(group, now_ms, f"the assignment could not be stored ({error.code.name})")
            return
        group.become(Phase.STABLE, now_ms)
        set_assignment(group, assignments)

    return Decision((group_record(group, assignments),), None, replays=False, on_settled=on_settled)
