"""The records of a consumer group, as Apache Kafka 4.3 writes them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ottla.coordinator.group.consumer.member import Assigned, ConsumerMember, Target
from ottla.coordinator.runtime import CoordinatorRecord
from ottla.wire.messages.group_records import (
    ClassicMemberMetadata,
    ClassicProtocol,
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
    ConsumerTopicPartitions,
    TopicPartition,
)

if TYPE_CHECKING:
    from ottla.coordinator.group.consumer.group import ConsumerGroup, ResolvedRegex

__all__ = [
    "assignment_epoch_record",
    "current_assignment_record",
    "epoch_record",
    "group_tombstones",
    "member_record",
    "member_tombstones",
    "partition_metadata_tombstone",
    "regex_record",
    "regex_tombstone",
    "target_record",
]


def epoch_record(group_id: str, epoch: int, metadata_hash: int) -> CoordinatorRecord:
    value = ConsumerGroupMetadataValue(epoch=epoch, metadata_hash=metadata_hash)
    return ConsumerGroupMetadataKey(group_id=group_id), value


def partition_metadata_tombstone(group_id: str) -> CoordinatorRecord:
    """The tombstone of the subscribed topics, which releases up to 4.0 stored. Later releases store only a hash."""
    return ConsumerGroupPartitionMetadataKey(group_id=group_id), None


def member_record(group_id: str, member: ConsumerMember) -> CoordinatorRecord:
    classic = None
    if member.classic is not None:
        classic = ClassicMemberMetadata(
            session_timeout_ms=member.classic.session_timeout_ms,
            supported_protocols=[
                ClassicProtocol(name=name, metadata=metadata) for name, metadata in member.classic.protocols
            ],
        )
    value = ConsumerGroupMemberMetadataValue(
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=list(member.subscribed_topics),
        subscribed_topic_regex=member.subscribed_regex,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        server_assignor=member.assignor,
        classic_member_metadata=classic,
    )
    return ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=member.member_id), value


def target_record(group_id: str, member_id: str, target: Target) -> CoordinatorRecord:
    value = ConsumerGroupTargetAssignmentMemberValue(
        topic_partitions=[
            TopicPartition(topic_id=topic_id, partitions=sorted(partitions)) for topic_id, partitions in target.items()
        ]
    )
    return ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id), value


def assignment_epoch_record(group_id: str, epoch: int, timestamp_ms: int) -> CoordinatorRecord:
    value = ConsumerGroupTargetAssignmentMetadataValue(assignment_epoch=epoch, assignment_timestamp=timestamp_ms)
    return ConsumerGroupTargetAssignmentMetadataKey(group_id=group_id), value


def current_assignment_record(group_id: str, member: ConsumerMember) -> CoordinatorRecord:
    value = ConsumerGroupCurrentMemberAssignmentValue(
        member_epoch=member.member_epoch,
        previous_member_epoch=member.previous_epoch,
        state=member.state,
        assigned_partitions=_with_epochs(member.assigned),
        partitions_pending_revocation=_with_epochs(member.pending_revocation),
    )
    return ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member.member_id), value


def regex_record(group_id: str, regex: str, resolved: ResolvedRegex) -> CoordinatorRecord:
    value = ConsumerGroupRegularExpressionValue(
        topics=sorted(resolved.topics), version=resolved.version, timestamp=resolved.timestamp_ms
    )
    return ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=regex), value


def regex_tombstone(group_id: str, regex: str) -> CoordinatorRecord:
    return ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=regex), None


def member_tombstones(group_id: str, member_id: str) -> list[CoordinatorRecord]:
    return [
        (ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member_id), None),
        (ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id), None),
        (ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=member_id), None),
    ]


def group_tombstones(group: ConsumerGroup, member_ids: Iterable[str] | None = None) -> list[CoordinatorRecord]:
    """Deletes the group; members before the group, so that no record refers to a deleted group."""
    group_id = group.group_id
    ids = list(group.members if member_ids is None else member_ids)
    records: list[CoordinatorRecord] = [
        (ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member_id), None) for member_id in ids
    ]
    records += [
        (ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id), None) for member_id in ids
    ]
    records.append((ConsumerGroupTargetAssignmentMetadataKey(group_id=group_id), None))
    records += [(ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=member_id), None) for member_id in ids]
    records += [regex_tombstone(group_id, regex) for regex in group.resolved_regexes]
    records.append(partition_metadata_tombstone(group_id))
    records.append((ConsumerGroupMetadataKey(group_id=group_id), None))
    return records


def _with_epochs(assigned: Assigned) -> list[ConsumerTopicPartitions]:
    return [
        ConsumerTopicPartitions(
            topic_id=topic_id, partitions=list(partitions), assignment_epochs=list(partitions.values())
        )
        for topic_id, partitions in assigned.items()
    ]
