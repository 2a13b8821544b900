"""Removal of members: they leave, leave temporarily (static members), or are fenced."""

from __future__ import annotations

import logging
from collections.abc import Collection
from typing import TYPE_CHECKING, TypeVar

from ottla.coordinator.group.consumer.group import ConsumerGroup
from ottla.coordinator.group.consumer.member import LEAVING_STATIC_EPOCH, ConsumerMember
from ottla.coordinator.group.consumer.records import (
    current_assignment_record,
    epoch_record,
    member_tombstones,
    regex_tombstone,
)
from ottla.coordinator.group.consumer.sessions import cancel_timers, forget_revocation
from ottla.coordinator.group.consumer.subscription import metadata_hash, topics_of_members
from ottla.coordinator.runtime import CoordinatorRecord
from ottla.decisions import Decision
from ottla.model.errors import ErrorCode, KafkaError
from ottla.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)

if TYPE_CHECKING:
    from ottla.coordinator.group.state import GroupShard

__all__ = ["check_instance", "decide_fence", "decide_leave", "remove_members"]

logger = logging.getLogger("ottla.coordinator.group.consumer")

R = TypeVar("R")


def decide_leave(
    shard: GroupShard, request: ConsumerGroupHeartbeatRequest, now_ms: int
) -> Decision[ConsumerGroupHeartbeatResponse]:
    """Member epoch -1 leaves permanently. With -2 a static member keeps its place until its session ends."""
    group = shard.group_of_kind(request.group_id, ConsumerGroup)
    instance_id = request.instance_id
    if instance_id is None:
        member = group.member(request.member_id)
    else:
        member = check_instance(group, request.member_id, instance_id)
    response = ConsumerGroupHeartbeatResponse(member_id=request.member_id, member_epoch=request.member_epoch)
    if instance_id is not None and request.member_epoch == LEAVING_STATIC_EPOCH:
        logger.info("static member %s of group %s leaves temporarily", instance_id, group.group_id)
        forget_revocation(shard, group.group_id, member.member_id)
        return Decision((current_assignment_record(group.group_id, _away(member)),), response)
    logger.info("member %s leaves group %s", member.member_id, group.group_id)
    return remove_members(shard, group, [member], response, now_ms)


def decide_fence(shard: GroupShard, group_id: str, member_id: str, reason: str, now_ms: int) -> Decision[None]:
    """The decision of a timer, for which the group or the member may no longer exist."""
    group = shard.groups.get(group_id)
    member = group.members.get(member_id) if isinstance(group, ConsumerGroup) else None
    if not isinstance(group, ConsumerGroup) or member is None:
        return Decision((), None)
    logger.info("member %s is removed from group %s: %s", member_id, group_id, reason)
    return remove_members(shard, group, [member], None, now_ms)


def remove_members(
    shard: GroupShard, group: ConsumerGroup, members: Collection[ConsumerMember], response: R, now_ms: int
) -> Decision[R]:
    """Removes members. The group gets a new epoch, and a new assignment with the next heartbeat of a member."""
    from ottla.coordinator.group.consumer.downgrade import can_downgrade_without, downgrade_without

    if not members:
        return Decision((), response)
    if can_downgrade_without(group, members):
        return downgrade_without(group, members, response, now_ms)
    group_id = group.group_id
    leaving_ids = {member.member_id for member in members}
    records: list[CoordinatorRecord] = []
    for member in members:
        records += member_tombstones(group_id, member.member_id)
    remaining = [member for member in group.members.values() if member.member_id not in leaving_ids]
    regexes = {member.subscribed_regex for member in remaining}
    resolved = {regex: value for regex, value in group.resolved_regexes.items() if regex in regexes}
    records += [regex_tombstone(group_id, regex) for regex in group.resolved_regexes if regex not in regexes]
    topics = topics_of_members(remaining, resolved)
    records.append(epoch_record(group_id, group.epoch + 1, metadata_hash(topics, shard.context)))

    def forget_sessions(shard: GroupShard, _now_ms: int) -> Decision[R]:
        # The timers are cancelled only now, because members keep their sessions if the records are refused.
        for member_id in leaving_ids:
            cancel_timers(shard, group_id, member_id)
        return Decision((), response)

    return Decision.first(records, forget_sessions)


def check_instance(group: ConsumerGroup, member_id: str, instance_id: str) -> ConsumerMember:
    """The static member of that instance; raises unless it has this member id."""
    member = group.static_member(instance_id)
    if member is None:
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, f"Group {group.group_id} has no instance {instance_id}.")
    if member.member_id != member_id:
        raise KafkaError(
            ErrorCode.FENCED_INSTANCE_ID,
            f"Instance {instance_id} is member {member.member_id} now; {member_id} is fenced.",
        )
    return member


def _away(member: ConsumerMember) -> ConsumerMember:
    """The static member after leaving for a while: it keeps its partitions and may return at any epoch."""
    assigned = {topic_id: dict.fromkeys(partitions, 0) for topic_id, partitions in member.assigned.items()}
    return member._replace(member_epoch=LEAVING_STATIC_EPOCH, assigned=assigned, pending_revocation={})
