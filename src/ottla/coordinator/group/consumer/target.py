"""The target assignment of all members, computed when the group epoch is ahead of it.

It is computed at most once in `group.consumer.assignment.interval.ms`, so that members that join one after the other
cost one assignment (KIP-1263). Until then members converge to the present target.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from ottla.coordinator.group.consumer.assignors import ASSIGNORS, AssignmentSpec, MemberSpec, TopicSpec
from ottla.coordinator.group.consumer.group import ConsumerGroup, ResolvedRegex
from ottla.coordinator.group.consumer.member import NO_TARGET, ConsumerMember, Target
from ottla.coordinator.group.consumer.records import assignment_epoch_record, target_record
from ottla.coordinator.group.consumer.settings import assignment_interval_ms
from ottla.coordinator.group.consumer.subscription import partition_racks, subscribed_ids
from ottla.coordinator.runtime import CoordinatorRecord

if TYPE_CHECKING:
    from ottla.coordinator.group.state import GroupContext
    from ottla.metadata.image import MetadataImage
    from ottla.model.ids import Uuid

__all__ = ["TargetOfMember", "may_compute_target", "preferred_assignor", "update_target"]

logger = logging.getLogger("ottla.coordinator.group.consumer")


class TargetOfMember(NamedTuple):
    epoch: int
    target: Target


def preferred_assignor(members: Mapping[str, ConsumerMember], context: GroupContext) -> str:
    """The assignor that most members prefer, else the broker's first assignor."""
    votes: dict[str, int] = {}
    for member in members.values():
        if member.assignor is not None:
            votes[member.assignor] = votes.get(member.assignor, 0) + 1
    return max(votes, key=lambda name: votes[name]) if votes else context.config.group_consumer_assignors[0]


def update_target(
    group: ConsumerGroup,
    *,
    group_epoch: int,
    members: Callable[[], Mapping[str, ConsumerMember]],
    member: ConsumerMember,
    context: GroupContext,
    now_ms: int,
    records: list[CoordinatorRecord],
) -> TargetOfMember:
    """The target of `member`. `members()` are all members after the records are replayed."""
    if group_epoch <= group.assignment_epoch or not may_compute_target(group, context, now_ms):
        return TargetOfMember(group.assignment_epoch, group.target_of(member.member_id, member.instance_id))
    all_members = members()
    assignor = preferred_assignor(all_members, context)
    spec = _spec(group, all_members, context.image, group.resolved_regexes)
    targets = ASSIGNORS.get(assignor, ASSIGNORS["uniform"])(spec)
    logger.info("group %s has a target for epoch %d by the %s assignor", group.group_id, group_epoch, assignor)
    for member_id, target in targets.items():
        if group.targets.get(member_id) != target:
            records.append(target_record(group.group_id, member_id, target))
    records.append(assignment_epoch_record(group.group_id, group_epoch, now_ms))
    return TargetOfMember(group_epoch, targets.get(member.member_id, NO_TARGET))


def may_compute_target(group: ConsumerGroup, context: GroupContext, now_ms: int) -> bool:
    """True if the interval since the last assignment is over."""
    interval_ms = assignment_interval_ms(context, group.group_id)
    last_ms = group.assignment_timestamp_ms
    # A timestamp in the future comes from another broker's clock and must not stop the group.
    return last_ms == 0 or interval_ms == 0 or now_ms - last_ms >= interval_ms or now_ms < last_ms


def _spec(
    group: ConsumerGroup,
    members: Mapping[str, ConsumerMember],
    image: MetadataImage,
    resolved: Mapping[str, ResolvedRegex],
) -> AssignmentSpec:
    specs: dict[str, MemberSpec] = {}
    topics: dict[Uuid, TopicSpec] = {}
    # Most members have the same subscription: it is computed once, and they share the object.
    shared: dict[tuple[tuple[str, ...], str], frozenset[Uuid]] = {}
    for member_id, member in members.items():
        subscription = member.subscribed_topics, member.subscribed_regex
        topic_ids = shared.get(subscription)
        if topic_ids is None:
            topic_ids = shared[subscription] = subscribed_ids(member, resolved, image)
        specs[member_id] = MemberSpec(
            topic_ids=topic_ids,
            previous=group.target_of(member_id, member.instance_id),
            rack_id=member.rack_id,
            instance_id=member.instance_id,
        )
    for topic_ids in shared.values():
        for topic_id in topic_ids:
            if topic_id not in topics:
                topic = image.topics.by_id[topic_id]
                topics[topic_id] = TopicSpec(topic_id, len(topic.partitions), partition_racks(topic, image.cluster))
    return AssignmentSpec(specs, topics)
