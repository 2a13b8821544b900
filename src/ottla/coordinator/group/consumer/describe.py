"""ConsumerGroupDescribe: a group and its members, with assignments and targets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from ottla.coordinator.group.consumer.group import ConsumerGroup
from ottla.coordinator.group.consumer.member import ConsumerMember
from ottla.coordinator.group.consumer.target import preferred_assignor
from ottla.model.errors import KafkaError
from ottla.wire.messages.consumer_group_describe import Assignment, DescribedGroup, Member, TopicPartitions

if TYPE_CHECKING:
    from ottla.coordinator.group.state import GroupShard
    from ottla.metadata.image import TopicsImage
    from ottla.model.ids import Uuid

__all__ = ["describe_consumer_group", "undescribed"]

# The protocol of the member (KIP-1099).
_CLASSIC_MEMBER = 0
_CONSUMER_MEMBER = 1


def describe_consumer_group(shard: GroupShard, group_id: str) -> DescribedGroup:
    try:
        group = shard.group_of_kind(group_id, ConsumerGroup)
    except KafkaError as error:
        return undescribed(group_id, error)
    topics = shard.context.image.topics
    return DescribedGroup(
        group_id=group_id,
        group_state=group.state_name,
        group_epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=preferred_assignor(group.members, shard.context),
        # The youngest first.
        members=[_member(group, member, topics) for member in reversed(group.members.values())],
    )


def undescribed(group_id: str, error: KafkaError) -> DescribedGroup:
    message = None if error.message == error.code.message else error.message
    return DescribedGroup(group_id=group_id, error_code=error.code, error_message=message)


def _member(group: ConsumerGroup, member: ConsumerMember, topics: TopicsImage) -> Member:
    return Member(
        member_id=member.member_id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        member_epoch=member.member_epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=list(member.subscribed_topics),
        subscribed_topic_regex=member.subscribed_regex,
        # A member has the partitions that it has yet to revoke, too.
        assignment=_assignment(topics, member.assigned, member.pending_revocation),
        target_assignment=_assignment(topics, group.target_of(member.member_id, None)),
        member_type=_CLASSIC_MEMBER if member.uses_classic_protocol else _CONSUMER_MEMBER,
    )


def _assignment(topics: TopicsImage, *parts: Mapping[Uuid, Iterable[int]]) -> Assignment:
    """The partitions of all parts. Deleted topics have no name any more and are left out."""
    partitions_by_topic: dict[Uuid, list[int]] = {}
    for part in parts:
        for topic_id, partitions in part.items():
            partitions_by_topic.setdefault(topic_id, []).extend(partitions)
    return Assignment(
        topic_partitions=[
            TopicPartitions(topic_id=topic_id, topic_name=topic.name, partitions=sorted(partitions))
            for topic_id, partitions in partitions_by_topic.items()
            if (topic := topics.by_id.get(topic_id)) is not None
        ]
    )
