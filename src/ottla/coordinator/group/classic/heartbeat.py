"""Heartbeat to a classic group."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.coordinator.group.classic.group import ClassicGroup
from ottla.coordinator.group.classic.phases import Phase
from ottla.coordinator.group.classic.sessions import expect_heartbeat
from ottla.coordinator.group.consumer.group import ConsumerGroup
from ottla.decisions import Decision
from ottla.model.errors import ErrorCode, KafkaError
from ottla.wire.messages.heartbeat import HeartbeatRequest

if TYPE_CHECKING:
    from ottla.coordinator.group.state import GroupShard

__all__ = ["decide_heartbeat"]


def decide_heartbeat(shard: GroupShard, request: HeartbeatRequest, now_ms: int) -> Decision[ErrorCode]:
    group = shard.groups.get(request.group_id)
    if isinstance(group, ConsumerGroup):
        from ottla.coordinator.group.consumer.classic_members import decide_classic_heartbeat

        return decide_classic_heartbeat(shard, group, request, now_ms)
    if not isinstance(group, ClassicGroup):
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
    if group.phase is Phase.DEAD:
        raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    group.check_member(request.member_id, request.group_instance_id)
    if request.generation_id != group.generation:
        raise KafkaError(ErrorCode.ILLEGAL_GENERATION)
    expect_heartbeat(group, group.members[request.member_id])
    is_rebalancing = group.phase is Phase.PREPARING_REBALANCE
    return Decision((), ErrorCode.REBALANCE_IN_PROGRESS if is_rebalancing else ErrorCode.NONE)
