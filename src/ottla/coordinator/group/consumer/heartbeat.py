"""ConsumerGroupHeartbeat: a member joins, sends its subscription and its partitions, and gets an assignment (KIP-848).

    member -> changed subscription -> group epoch -> target assignment -> one step of the member's reconciliation

The decision works on values and returns records. The response has the assignment when the member sent a full request,
when its assignment has changed, and from then on until the member reports exactly those partitions: the response may be
lost, and librdkafka does not send a full request after a heartbeat that timed out.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING

from ottla.coordinator.group.classic.group import ClassicGroup
from ottla.coordinator.group.classic.soft import AnswerList
from ottla.coordinator.group.consumer.group import ConsumerGroup
from ottla.coordinator.group.consumer.leave import check_instance, decide_leave
from ottla.coordinator.group.consumer.member import (
    JOINING_EPOCH,
    LEAVING_EPOCH,
    LEAVING_STATIC_EPOCH,
    Assigned,
    ConsumerMember,
)
from ottla.coordinator.group.consumer.progress import GroupProgress, reconcile_member, replace_member
from ottla.coordinator.group.consumer.reconcile import Owned
from ottla.coordinator.group.consumer.regex import plan_resolution, update_regexes
from ottla.coordinator.group.consumer.sessions import expect_heartbeat
from ottla.coordinator.group.consumer.settings import heartbeat_interval_ms
from ottla.coordinator.group.consumer.upgrade import upgrade
from ottla.coordinator.runtime import CoordinatorRecord
from ottla.decisions import Decision
from ottla.model.errors import ErrorCode, KafkaError
from ottla.wire.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)

if TYPE_CHECKING:
    from ottla.coordinator.group.state import GroupShard

__all__ = ["HeartbeatAttempt", "check_request", "decide_heartbeat"]

logger = logging.getLogger("ottla.coordinator.group.consumer")

FIRST_VERSION_WITH_OWN_MEMBER_ID = 1


class HeartbeatAttempt:
    """A request and its sender."""

    __slots__ = ("client_host", "client_id", "may_see_topic", "member_id", "request")

    def __init__(
        self,
        request: ConsumerGroupHeartbeatRequest,
        *,
        client_id: str,
        client_host: str,
        generated_id: str,
        may_see_topic: Callable[[str], bool],
    ) -> None:
        self.request = request
        self.client_id = client_id
        self.client_host = client_host
        self.member_id = request.member_id or generated_id
        # A regular expression matches only topics that the member may describe.
        self.may_see_topic = may_see_topic


def check_request(request: ConsumerGroupHeartbeatRequest, api_version: int, assignors: Collection[str]) -> None:
    """Checks that need no group; raises INVALID_REQUEST or UNSUPPORTED_ASSIGNOR."""
    epoch = request.member_epoch
    if api_version >= FIRST_VERSION_WITH_OWN_MEMBER_ID or epoch > 0 or epoch == LEAVING_EPOCH:
        _check_not_blank(request.member_id, "MemberId must not be empty.")
    # Kafka's clients and tests depend on this sentence.
    _check_not_blank(request.group_id, "GroupId can't be empty.")
    _check_not_blank(request.instance_id, "InstanceId must be null or not empty.")
    _check_not_blank(request.rack_id, "RackId must be null or not empty.")
    if epoch == JOINING_EPOCH:
        if request.rebalance_timeout_ms == -1:
            raise _invalid("RebalanceTimeoutMs must be set in the request that joins.")
        if request.topic_partitions is None or request.topic_partitions:
            raise _invalid("TopicPartitions must be empty in the request that joins.")
        if request.subscribed_topic_names is None and request.subscribed_topic_regex is None:
            raise _invalid("SubscribedTopicNames or SubscribedTopicRegex must be set in the request that joins.")
    elif epoch == LEAVING_STATIC_EPOCH:
        if request.instance_id is None:
            raise _invalid("InstanceId must be set by a static member that leaves temporarily.")
    elif epoch < LEAVING_STATIC_EPOCH:
        raise _invalid(f"MemberEpoch {epoch} is invalid.")
    if request.server_assignor is not None and request.server_assignor not in assignors:
        raise KafkaError(
            ErrorCode.UNSUPPORTED_ASSIGNOR,
            f"Assignor {request.server_assignor} is not supported; supported are: {', '.join(assignors)}.",
        )


def decide_heartbeat(
    shard: GroupShard, attempt: HeartbeatAttempt, now_ms: int
) -> Decision[ConsumerGroupHeartbeatResponse]:
    """`check_request` has let the request pass."""
    request = attempt.request
    if request.member_epoch < JOINING_EPOCH:
        return decide_leave(shard, request, now_ms)
    records: list[CoordinatorRecord] = []
    answers: AnswerList = []
    group = _group(shard, request, records, answers)
    _check_room(group, attempt.member_id, shard.config.group_consumer_max_size)
    member = _member(group, attempt, records)
    updated = _updated(member, attempt)
    progress = GroupProgress(shard, group, member, updated, records, now_ms)
    progress.write_member()
    regex_change = update_regexes(group, member, updated, records)
    progress.update_epoch(has_regex_changed=regex_change.is_resolved)
    reconciled = reconcile_member(
        progress,
        progress.update_target(),
        owned=request.topic_partitions,
        has_subscription_changed=progress.has_subscription_changed or regex_change.has_changed,
    )
    plan_resolution(shard, group, updated, attempt.may_see_topic, now_ms)
    expect_heartbeat(shard, group.group_id, reconciled)
    response = ConsumerGroupHeartbeatResponse(
        member_id=reconciled.member_id,
        member_epoch=reconciled.member_epoch,
        heartbeat_interval_ms=heartbeat_interval_ms(shard.context, group.group_id),
    )
    has_changed = not reconciled.has_same_assignment(member)
    if _reports_assignment(request.topic_partitions, reconciled.assigned):
        group.note_confirmed(reconciled.member_id)
    elif has_changed:
        group.note_unconfirmed(reconciled.member_id)
    if _is_full(request) or has_changed or reconciled.member_id in group.unconfirmed:
        response.assignment = _assignment(reconciled.assigned)
    return Decision(records, response, answers=answers)


# The member.


def _group(
    shard: GroupShard, request: ConsumerGroupHeartbeatRequest, records: list[CoordinatorRecord], answers: AnswerList
) -> ConsumerGroup:
    """A new group is a draft: replaying the records makes the group that stays."""
    group_id = request.group_id
    group = shard.groups.get(group_id)
    is_joining = request.member_epoch == JOINING_EPOCH
    if isinstance(group, ConsumerGroup):
        return group
    if group is None and not is_joining:
        raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} not found.")
    if group is None:
        return ConsumerGroup(group_id, shard)
    if is_joining and isinstance(group, ClassicGroup):
        if group.is_empty and not group.members:
            records += group.tombstones()
            return ConsumerGroup(group_id, shard)
        return upgrade(shard, group, records, answers)
    raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is of another kind.")


def _check_room(group: ConsumerGroup, member_id: str, size_max: int) -> None:
    if len(group.members) >= size_max and member_id not in group.members:
        raise KafkaError(
            ErrorCode.GROUP_MAX_SIZE_REACHED,
            f"The group is full: it has {size_max} members.",
        )


def _member(group: ConsumerGroup, attempt: HeartbeatAttempt, records: list[CoordinatorRecord]) -> ConsumerMember:
    request = attempt.request
    member_id = attempt.member_id
    epoch = request.member_epoch
    if request.instance_id is not None:
        return _static_member(group, member_id, request.instance_id, request, records)
    if epoch == JOINING_EPOCH:
        member = group.members.get(member_id)
        if member is None:
            logger.info("member %s joins group %s", member_id, group.group_id)
            member = ConsumerMember(member_id)
        return member
    member = group.member(member_id)
    _check_epoch(member, epoch, request.topic_partitions)
    return member


def _static_member(
    group: ConsumerGroup,
    member_id: str,
    instance_id: str,
    request: ConsumerGroupHeartbeatRequest,
    records: list[CoordinatorRecord],
) -> ConsumerMember:
    if request.member_epoch != JOINING_EPOCH:
        member = check_instance(group, member_id, instance_id)
        _check_epoch(member, request.member_epoch, request.topic_partitions)
        return member
    existing = group.static_member(instance_id)
    if existing is None:
        logger.info("static member %s joins group %s as %s", instance_id, group.group_id, member_id)
        return group.members.get(member_id) or ConsumerMember(member_id)
    if not existing.uses_classic_protocol and existing.member_epoch != LEAVING_STATIC_EPOCH:
        raise KafkaError(
            ErrorCode.UNRELEASED_INSTANCE_ID,
            f"Instance {instance_id} is member {existing.member_id}, which has not left: {member_id} has to wait.",
        )
    logger.info("static member %s is back in group %s as %s", instance_id, group.group_id, member_id)
    return replace_member(group, existing, member_id, records)


def _check_epoch(member: ConsumerMember, epoch: int, owned: Owned) -> None:
    if epoch > member.member_epoch:
        raise _fenced("greater", epoch, member.member_epoch)
    # The response with the newer epoch may have been lost. Then the member owns only partitions of its assignment.
    if epoch < member.member_epoch and (epoch != member.previous_epoch or not _is_within(owned, member.assigned)):
        raise _fenced("smaller", epoch, member.member_epoch)


def _is_within(owned: Owned, assigned: Assigned) -> bool:
    if owned is None:
        return False
    no_partitions: Mapping[int, int] = {}
    return all(
        partition in assigned.get(topic.topic_id, no_partitions) for topic in owned for partition in topic.partitions
    )


def _updated(member: ConsumerMember, attempt: HeartbeatAttempt) -> ConsumerMember:
    """Fields that the request leaves out stay as they are. The sender uses the consumer protocol."""
    request = attempt.request
    names = request.subscribed_topic_names
    return member._replace(
        instance_id=member.instance_id if request.instance_id is None else request.instance_id,
        rack_id=member.rack_id if request.rack_id is None else request.rack_id,
        rebalance_timeout_ms=(
            member.rebalance_timeout_ms if request.rebalance_timeout_ms == -1 else request.rebalance_timeout_ms
        ),
        assignor=member.assignor if request.server_assignor is None else request.server_assignor,
        subscribed_topics=member.subscribed_topics if names is None else tuple(sorted(set(names))),
        subscribed_regex=(
            member.subscribed_regex if request.subscribed_topic_regex is None else request.subscribed_topic_regex
        ),
        client_id=attempt.client_id,
        client_host=attempt.client_host,
        classic=None,
    )


# The response.


def _is_full(request: ConsumerGroupHeartbeatRequest) -> bool:
    """A member sends all fields when it joins, and when its last request may be lost."""
    has_subscription = request.subscribed_topic_names is not None or request.subscribed_topic_regex is not None
    has_all = request.rebalance_timeout_ms != -1 and has_subscription and request.topic_partitions is not None
    return request.member_epoch == JOINING_EPOCH or has_all


def _reports_assignment(owned: Owned, assigned: Assigned) -> bool:
    """True if the member owns exactly the partitions of its assignment."""
    return _is_within(owned, assigned) and sum(len(topic.partitions) for topic in owned or ()) == sum(
        map(len, assigned.values())
    )


def _assignment(assigned: Assigned) -> Assignment:
    return Assignment(
        topic_partitions=[
            TopicPartitions(topic_id=topic_id, partitions=list(partitions)) for topic_id, partitions in assigned.items()
        ]
    )


def _check_not_blank(text: str | None, message: str) -> None:
    if text is not None and not text.strip():
        raise _invalid(message)


def _invalid(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, message)


def _fenced(comparison: str, received: int, known: int) -> KafkaError:
    return KafkaError(
        ErrorCode.FENCED_MEMBER_EPOCH,
        f"Epoch {received} is {comparison} than the member's epoch {known}. "
        "The member must revoke its partitions and join again.",
    )
