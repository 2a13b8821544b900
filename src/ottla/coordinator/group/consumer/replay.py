"""Replay of the records of consumer groups: types 3 to 8, and 16.

Compaction may have removed records that other records refer to. So every replayer creates the group and the member that
it needs, and ignores a tombstone of an unknown object.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING

from ottla.coordinator.group.classic.group import ClassicGroup
from ottla.coordinator.group.consumer.group import ConsumerGroup, ResolvedRegex
from ottla.coordinator.group.consumer.member import LEAVING_EPOCH, Assigned, ClassicSide, ConsumerMember
from ottla.coordinator.group.consumer.states import MemberState
from ottla.model.ids import Uuid
from ottla.wire.messages.group_records import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupPartitionMetadataValue,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
    ConsumerTopicPartitions,
)

if TYPE_CHECKING:
    from ottla.coordinator.group.state import GroupShard, Replayer

__all__ = ["CONSUMER_REPLAYERS"]

logger = logging.getLogger("ottla.coordinator.group.consumer")


def _existing(shard: GroupShard, group_id: str) -> ConsumerGroup | None:
    group = shard.groups.get(group_id)
    return group if isinstance(group, ConsumerGroup) else None


def _group(shard: GroupShard, group_id: str) -> ConsumerGroup:
    group = shard.groups.get(group_id)
    if isinstance(group, ConsumerGroup):
        return group
    # A group that only has offsets is a classic group. If older records have made it another group, the newest record
    # counts: a contradiction about one group must not keep the other groups of the partition from loading.
    if group is not None and not (isinstance(group, ClassicGroup) and not group.members):
        assert not shard.is_loaded, f"{group_id} is of another kind"
        logger.error("group %s is of another kind in older records, which are ignored", group_id)
    created = ConsumerGroup(group_id, shard)
    shard.put_group(created)
    return created


def _replay_group(
    shard: GroupShard, key: ConsumerGroupMetadataKey, value: ConsumerGroupMetadataValue | None, _producer_id: int
) -> None:
    if value is not None:
        group = _group(shard, key.group_id)
        if shard.is_loaded and value.epoch != group.epoch:
            shard.context.rebalances += 1
        group.epoch = value.epoch
        group.metadata_hash = value.metadata_hash
    elif _existing(shard, key.group_id) is not None:
        shard.drop_group(key.group_id)


def _replay_partition_metadata(
    shard: GroupShard,
    key: ConsumerGroupPartitionMetadataKey,
    value: ConsumerGroupPartitionMetadataValue | None,
    _producer_id: int,
) -> None:
    group = _existing(shard, key.group_id) if value is None else _group(shard, key.group_id)
    if group is not None:
        group.has_partition_metadata_record = value is not None


def _replay_member(
    shard: GroupShard,
    key: ConsumerGroupMemberMetadataKey,
    value: ConsumerGroupMemberMetadataValue | None,
    _producer_id: int,
) -> None:
    if value is None:
        group = _existing(shard, key.group_id)
        if group is not None:
            group.remove_member(key.member_id)
        return
    group = _group(shard, key.group_id)
    stored = value.classic_member_metadata
    classic = None
    if stored is not None:
        protocols = tuple((protocol.name, bytes(protocol.metadata)) for protocol in stored.supported_protocols)
        classic = ClassicSide(stored.session_timeout_ms, protocols)
    old = group.members.get(key.member_id) or ConsumerMember(key.member_id)
    group.put_member(
        old._replace(
            instance_id=value.instance_id,
            rack_id=value.rack_id,
            client_id=value.client_id,
            client_host=value.client_host,
            subscribed_topics=tuple(sorted(value.subscribed_topic_names)),
            subscribed_regex=value.subscribed_topic_regex or "",
            rebalance_timeout_ms=value.rebalance_timeout_ms,
            assignor=value.server_assignor,
            classic=classic,
        )
    )


def _replay_assignment_epoch(
    shard: GroupShard,
    key: ConsumerGroupTargetAssignmentMetadataKey,
    value: ConsumerGroupTargetAssignmentMetadataValue | None,
    _producer_id: int,
) -> None:
    if value is not None:
        group = _group(shard, key.group_id)
        group.assignment_epoch = value.assignment_epoch
        group.assignment_timestamp_ms = value.assignment_timestamp
        return
    existing = _existing(shard, key.group_id)
    if existing is not None:
        existing.assignment_epoch = LEAVING_EPOCH
        existing.assignment_timestamp_ms = 0


def _replay_target(
    shard: GroupShard,
    key: ConsumerGroupTargetAssignmentMemberKey,
    value: ConsumerGroupTargetAssignmentMemberValue | None,
    _producer_id: int,
) -> None:
    if value is not None:
        group = _group(shard, key.group_id)
        group.targets[key.member_id] = {
            topic.topic_id: frozenset(topic.partitions) for topic in value.topic_partitions if topic.partitions
        }
        return
    existing = _existing(shard, key.group_id)
    if existing is not None:
        existing.targets.pop(key.member_id, None)


def _replay_current_assignment(
    shard: GroupShard,
    key: ConsumerGroupCurrentMemberAssignmentKey,
    value: ConsumerGroupCurrentMemberAssignmentValue | None,
    _producer_id: int,
) -> None:
    if value is not None:
        group = _group(shard, key.group_id)
        old = group.members.get(key.member_id) or ConsumerMember(key.member_id)
        group.put_member(
            old._replace(
                member_epoch=value.member_epoch,
                previous_epoch=value.previous_member_epoch,
                state=MemberState.of(value.state),
                assigned=_partitions(value.assigned_partitions, value.member_epoch),
                pending_revocation=_partitions(value.partitions_pending_revocation, value.member_epoch),
            )
        )
        return
    existing = _existing(shard, key.group_id)
    member = None if existing is None else existing.members.get(key.member_id)
    if existing is not None and member is not None:
        existing.put_member(
            member._replace(
                member_epoch=LEAVING_EPOCH,
                previous_epoch=LEAVING_EPOCH,
                state=MemberState.STABLE,
                assigned={},
                pending_revocation={},
            )
        )


def _replay_regex(
    shard: GroupShard,
    key: ConsumerGroupRegularExpressionKey,
    value: ConsumerGroupRegularExpressionValue | None,
    _producer_id: int,
) -> None:
    if value is not None:
        resolved = ResolvedRegex(frozenset(value.topics), value.version, value.timestamp)
        _group(shard, key.group_id).resolved_regexes[key.regular_expression] = resolved
        return
    existing = _existing(shard, key.group_id)
    if existing is not None:
        existing.resolved_regexes.pop(key.regular_expression, None)


def _partitions(stored: list[ConsumerTopicPartitions], member_epoch: int) -> Assigned:
    """Releases before 4.3 did not store the epoch of each partition: the member's epoch is the safe choice."""
    assigned: dict[Uuid, dict[int, int]] = {}
    for topic in stored:
        if topic.partitions:
            epochs = topic.assignment_epochs or [member_epoch] * len(topic.partitions)
            assigned[topic.topic_id] = dict(zip(topic.partitions, epochs, strict=True))
    return assigned


CONSUMER_REPLAYERS: Mapping[int, Replayer] = {
    ConsumerGroupMetadataKey.API_KEY: _replay_group,
    ConsumerGroupPartitionMetadataKey.API_KEY: _replay_partition_metadata,
    ConsumerGroupMemberMetadataKey.API_KEY: _replay_member,
    ConsumerGroupTargetAssignmentMetadataKey.API_KEY: _replay_assignment_epoch,
    ConsumerGroupTargetAssignmentMemberKey.API_KEY: _replay_target,
    ConsumerGroupCurrentMemberAssignmentKey.API_KEY: _replay_current_assignment,
    ConsumerGroupRegularExpressionKey.API_KEY: _replay_regex,
}
