"""Members of the classic protocol in a consumer group: JoinGroup, SyncGroup, Heartbeat and LeaveGroup.

To these members the group looks like a classic group that rebalances cooperatively. The generation is the member epoch.
A heartbeat tells the member to join again when it has to revoke partitions or can get more. JoinGroup takes it one step
towards its target, and SyncGroup returns its assignment. No member is the leader: the coordinator assigns.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ottla.coordinator.group.classic.group import CONSUMER_PROTOCOL_TYPE
from ottla.coordinator.group.classic.join import FIRST_VERSION_WITH_REQUIRED_MEMBER_ID, JoinAttempt, JoinDecision
from ottla.coordinator.group.consumer.downgrade import can_downgrade_replacing, downgrade_replacing
from ottla.coordinator.group.consumer.embedded import encode_assignment, owned_partitions, read_subscription
from ottla.coordinator.group.consumer.group import ConsumerGroup
from ottla.coordinator.group.consumer.leave import check_instance, decide_fence, remove_members
from ottla.coordinator.group.consumer.member import ClassicSide, ConsumerMember
from ottla.coordinator.group.consumer.migration_policy import is_disabled
from ottla.coordinator.group.consumer.progress import GroupProgress, reconcile_member, replace_member
from ottla.coordinator.group.consumer.regex import update_regexes
from ottla.coordinator.group.consumer.sessions import expect_heartbeat, join_key, sync_key
from ottla.coordinator.group.consumer.states import MemberState
from ottla.coordinator.group.consumer.target import TargetOfMember, may_compute_target
from ottla.coordinator.runtime import CoordinatorRecord
from ottla.decisions import Decision
from ottla.model.deferred import Deferred
from ottla.model.errors import ErrorCode, KafkaError
from ottla.wire.codec import MalformedMessage
from ottla.wire.messages.consumer_protocol import ConsumerProtocolSubscription
from ottla.wire.messages.heartbeat import HeartbeatRequest
from ottla.wire.messages.join_group import JoinGroupResponse
from ottla.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity, MemberResponse
from ottla.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse

if TYPE_CHECKING:
    from ottla.coordinator.group.state import GroupShard

__all__ = ["decide_classic_heartbeat", "decide_classic_join", "decide_classic_leave", "decide_classic_sync"]


# Joining.


def decide_classic_join(shard: GroupShard, group: ConsumerGroup, attempt: JoinAttempt, now_ms: int) -> JoinDecision:
    request = attempt.request
    member_id = request.member_id or attempt.generated_id
    refusal = _refusal(shard, group, attempt, member_id)
    if refusal is not None:
        return attempt.refuse(refusal, "")
    needs_id = request.group_instance_id is None and not request.member_id
    if needs_id and attempt.api_version >= FIRST_VERSION_WITH_REQUIRED_MEMBER_ID:
        return attempt.refuse(ErrorCode.MEMBER_ID_REQUIRED, member_id)
    records: list[CoordinatorRecord] = []
    replaced = group.static_member(request.group_instance_id)
    try:
        subscription = read_subscription(attempt.protocols[0][1])
        member = _member(group, attempt, member_id, records)
    except MalformedMessage:
        return attempt.refuse(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "")
    except KafkaError as error:
        return attempt.refuse(error.code, "")
    updated = _updated(member, attempt, subscription)
    progress = GroupProgress(shard, group, member, updated, records, now_ms)
    progress.write_member()
    regex_change = update_regexes(group, member, updated, records)
    progress.update_epoch(has_regex_changed=regex_change.is_resolved)
    owned = owned_partitions(subscription, shard.context.image.topics)
    has_subscription_changed = progress.has_subscription_changed or regex_change.has_changed
    if replaced is not None and can_downgrade_replacing(group, replaced):
        if progress.epoch == group.assignment_epoch:
            target = TargetOfMember(progress.epoch, group.target_of(member_id, request.group_instance_id))
            updated = reconcile_member(progress, target, owned=owned, has_subscription_changed=has_subscription_changed)
        return downgrade_replacing(
            group,
            replaced,
            updated,
            records,
            response=_joined(attempt, member_id, generation=group.epoch),
            group_epoch=progress.epoch,
            now_ms=now_ms,
        )
    reconciled = reconcile_member(
        progress,
        progress.update_target(),
        owned=owned,
        has_subscription_changed=has_subscription_changed,
    )

    def answer(shard: GroupShard, _now_ms: int) -> JoinDecision:
        # The time to sync starts again, too, because the response to an earlier join may have been lost.
        for key in (join_key, sync_key):
            shard.timers.cancel(key(group.group_id, member_id))
        expect_heartbeat(shard, group.group_id, reconciled)
        _expect(shard, sync_key, group.group_id, reconciled, "it has not synced in time")
        return Decision((), _joined(attempt, member_id, generation=reconciled.member_epoch))

    return Decision.first(records, answer) if records else answer(shard, now_ms)


def _updated(
    member: ConsumerMember, attempt: JoinAttempt, subscription: ConsumerProtocolSubscription
) -> ConsumerMember:
    return member._replace(
        instance_id=attempt.request.group_instance_id or member.instance_id,
        rack_id=subscription.rack_id or member.rack_id,
        rebalance_timeout_ms=attempt.rebalance_timeout_ms,
        subscribed_topics=tuple(sorted(set(subscription.topics))),
        subscribed_regex="",
        client_id=attempt.client_id,
        client_host=attempt.client_host,
        classic=ClassicSide(attempt.request.session_timeout_ms, attempt.protocols),
    )


def _joined(attempt: JoinAttempt, member_id: str, *, generation: int) -> Deferred[JoinGroupResponse]:
    return Deferred.resolved(
        JoinGroupResponse(
            member_id=member_id,
            generation_id=generation,
            protocol_type=CONSUMER_PROTOCOL_TYPE,
            protocol_name=attempt.protocols[0][0],
        )
    )


def _refusal(shard: GroupShard, group: ConsumerGroup, attempt: JoinAttempt, member_id: str) -> ErrorCode | None:
    if is_disabled(shard):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    if len(group.members) >= shard.config.group_consumer_max_size and member_id not in group.members:
        return ErrorCode.GROUP_MAX_SIZE_REACHED
    if attempt.request.protocol_type != CONSUMER_PROTOCOL_TYPE or not _shares_protocol(group, attempt):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    return None


def _shares_protocol(group: ConsumerGroup, attempt: JoinAttempt) -> bool:
    """True if all classic members share a protocol, so that they can continue in a classic group."""
    sides = [{name for name, _ in member.classic.protocols} for member in group.members.values() if member.classic]
    return any(all(name in side for side in sides) for name, _ in attempt.protocols)


def _member(
    group: ConsumerGroup, attempt: JoinAttempt, member_id: str, records: list[CoordinatorRecord]
) -> ConsumerMember:
    instance_id = attempt.request.group_instance_id
    if instance_id is None:
        return group.members.get(member_id) or ConsumerMember(member_id)
    if attempt.request.member_id:
        return check_instance(group, member_id, instance_id)
    existing = group.static_member(instance_id)
    if existing is None:
        return ConsumerMember(member_id)
    return replace_member(group, existing, member_id, records)


def _expect(
    shard: GroupShard, key: Callable[[str, str], object], group_id: str, member: ConsumerMember, reason: str
) -> None:
    member_id = member.member_id
    shard.timers.schedule_if_absent(
        key(group_id, member_id),
        member.rebalance_timeout_ms,
        lambda shard, now_ms: decide_fence(shard, group_id, member_id, reason, now_ms),
    )


# Syncing and heartbeats.


def decide_classic_sync(
    shard: GroupShard, group: ConsumerGroup, request: SyncGroupRequest
) -> Decision[Deferred[SyncGroupResponse]]:
    member, side = _check_member(group, request.member_id, request.group_instance_id, request.generation_id)
    protocol, metadata = side.protocols[0]
    if request.protocol_type not in (None, CONSUMER_PROTOCOL_TYPE) or request.protocol_name not in (None, protocol):
        raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    if group.assignment_epoch > member.member_epoch and member.state is not MemberState.UNREVOKED_PARTITIONS:
        _expect(shard, join_key, group.group_id, member, "it has not joined again in time")
        raise KafkaError(ErrorCode.REBALANCE_IN_PROGRESS)

    shard.timers.cancel(sync_key(group.group_id, member.member_id))
    expect_heartbeat(shard, group.group_id, member)
    response = SyncGroupResponse(
        protocol_type=request.protocol_type,
        protocol_name=request.protocol_name,
        assignment=encode_assignment(member.assigned, metadata, shard.context.image.topics),
    )
    return Decision((), Deferred.resolved(response))


def decide_classic_heartbeat(
    shard: GroupShard, group: ConsumerGroup, request: HeartbeatRequest, now_ms: int
) -> Decision[ErrorCode]:
    member, _ = _check_member(group, request.member_id, request.group_instance_id, request.generation_id)
    expect_heartbeat(shard, group.group_id, member)
    # Joining computes a target that is due. In a group of classic members alone no other request would.
    is_target_due = member.member_epoch < group.epoch and may_compute_target(group, shard.context, now_ms)
    must_join = (
        member.member_epoch < group.assignment_epoch
        or is_target_due
        or member.state is MemberState.UNREVOKED_PARTITIONS
        or (member.state is MemberState.UNRELEASED_PARTITIONS and not _waits_for_others(group, member))
    )
    if must_join:
        _expect(shard, join_key, group.group_id, member, "it has not joined again in time")
    return Decision((), ErrorCode.REBALANCE_IN_PROGRESS if must_join else ErrorCode.NONE)


def _waits_for_others(group: ConsumerGroup, member: ConsumerMember) -> bool:
    """True if another member still holds a partition of its target."""
    return any(
        group.owner_of(topic_id, partition) not in (None, member.member_id)
        for topic_id, partitions in group.target_of(member.member_id, None).items()
        for partition in partitions
    )


def _check_member(
    group: ConsumerGroup, member_id: str, instance_id: str | None, generation: int
) -> tuple[ConsumerMember, ClassicSide]:
    member = group.member(member_id) if instance_id is None else check_instance(group, member_id, instance_id)
    side = _classic_side(member)
    if generation != member.member_epoch:
        raise KafkaError(ErrorCode.ILLEGAL_GENERATION)
    return member, side


def _classic_side(member: ConsumerMember) -> ClassicSide:
    if member.classic is None:
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member.member_id} uses the consumer protocol.")
    return member.classic


# Leaving.


def decide_classic_leave(
    shard: GroupShard, group: ConsumerGroup, request: LeaveGroupRequest, now_ms: int
) -> Decision[LeaveGroupResponse]:
    leaving: dict[str, ConsumerMember] = {}
    answers: list[MemberResponse] = []
    for identity in request.members:
        answer = MemberResponse(member_id=identity.member_id, group_instance_id=identity.group_instance_id)
        try:
            member = _leaving(group, identity)
        except KafkaError as error:
            answer.error_code = error.code
        else:
            leaving[member.member_id] = member
        answers.append(answer)
    return remove_members(shard, group, leaving.values(), LeaveGroupResponse(members=answers), now_ms)


def _leaving(group: ConsumerGroup, identity: MemberIdentity) -> ConsumerMember:
    """A member of either protocol: administrators remove members with LeaveGroup, static ones by instance id."""
    instance_id = identity.group_instance_id
    if instance_id is None:
        return group.member(identity.member_id)
    static_member = group.static_member(instance_id)
    own_id = "" if static_member is None else static_member.member_id
    return check_instance(group, identity.member_id or own_id, instance_id)
