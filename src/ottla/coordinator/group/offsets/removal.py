"""Removal of offsets: by OffsetDelete, with their topic, with their group, or by expiry."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING

from ottla.coordinator.group.offsets.table import NO_EXPIRY
from ottla.coordinator.runtime import CoordinatorRecord
from ottla.decisions import Decision
from ottla.model.errors import ErrorCode
from ottla.model.ids import TopicPartition, Uuid
from ottla.wire.messages.group_records import OffsetCommitKey
from ottla.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)

if TYPE_CHECKING:
    from ottla.coordinator.group.state import GroupShard

__all__ = ["all_offset_tombstones", "decide_delete_offsets", "decide_expiry", "decide_forget_topics"]

# Records of one decision that no request asked for; the next decision removes the rest.
TOMBSTONES_PER_DECISION_MAX = 1000


def decide_delete_offsets(shard: GroupShard, request: OffsetDeleteRequest) -> Decision[OffsetDeleteResponse]:
    """Keeps the offsets of topics that members subscribe to: those members would not notice (KIP-496)."""
    group = shard.group(request.group_id)
    group.check_offset_delete()
    records: list[CoordinatorRecord] = []
    topics: list[OffsetDeleteResponseTopic] = []
    pending = shard.offsets.pending_partitions(group.group_id)
    for topic in request.topics:
        code = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC if group.is_subscribed_to(topic.name) else ErrorCode.NONE
        answers: list[OffsetDeleteResponsePartition] = []
        for requested in topic.partitions:
            partition = TopicPartition(topic.name, requested.partition_index)
            answers.append(OffsetDeleteResponsePartition(partition_index=requested.partition_index, error_code=code))
            is_stored = partition in pending or shard.offsets.get(group.group_id, partition) is not None
            if code is ErrorCode.NONE and is_stored:
                records.append(_tombstone(group.group_id, partition))
        topics.append(OffsetDeleteResponseTopic(name=topic.name, partitions=answers))
    return Decision(records, OffsetDeleteResponse(topics=topics))


def all_offset_tombstones(shard: GroupShard, group_id: str) -> list[CoordinatorRecord]:
    partitions = dict.fromkeys(shard.offsets.of_group(group_id))
    partitions.update(dict.fromkeys(shard.offsets.pending_partitions(group_id)))
    return [_tombstone(group_id, partition) for partition in partitions]


def decide_forget_topics(shard: GroupShard, group_id: str, topics: Collection[str]) -> Decision[bool]:
    """Removes a group's offsets of deleted topics. The response is True when no offset is left to remove.

    Producers may have committed to a new topic of the same name meanwhile. A tombstone would remove such a pending
    offset, too, so there is none for its partition: the end of the transaction replaces the obsolete offset.
    """
    by_name = shard.context.image.topics.by_name

    def is_obsolete(partition: TopicPartition, topic_id: Uuid) -> bool:
        namesake = by_name.get(partition.topic)
        return partition.topic in topics and (namesake is None or namesake.topic_id != topic_id)

    obsolete: dict[TopicPartition, None] = {}
    valid: set[TopicPartition] = set()
    for partition, topic_id in shard.offsets.pending_topic_ids(group_id):
        if is_obsolete(partition, topic_id):
            obsolete[partition] = None
        else:
            valid.add(partition)
    for partition, offset in shard.offsets.of_group(group_id).items():
        if is_obsolete(partition, offset.topic_id):
            obsolete[partition] = None
    removed = [partition for partition in obsolete if partition not in valid]
    records = _tombstones(group_id, removed[:TOMBSTONES_PER_DECISION_MAX])
    return Decision(records, len(records) == len(removed))


def decide_expiry(shard: GroupShard, group_id: str, now_ms: int) -> Decision[None]:
    """Removes offsets that are older than `offsets.retention.minutes` (KIP-211), and then a group without offsets.

    A subscription of a member keeps the offsets of its topic, and an open transaction keeps its own.
    """
    group = shard.groups.get(group_id)
    if group is None:
        return Decision((), None)
    retention_ms = shard.config.offsets_retention_minutes * 60_000
    committed = shard.offsets.of_group(group_id)
    pending = shard.offsets.pending_partitions(group_id)
    expired: list[TopicPartition] = []
    # Asked once for each topic, because the answer may be in the subscription of every member.
    subscribed = {topic: group.is_subscribed_to(topic) for topic in {partition.topic for partition in committed}}
    for partition, offset in committed.items():
        if partition in pending or subscribed[partition.topic]:
            continue
        if offset.expire_timestamp_ms != NO_EXPIRY:
            is_expired = group.offsets_expire_from(offset.commit_timestamp_ms) is not None and (
                now_ms >= offset.expire_timestamp_ms
            )
        else:
            since_ms = group.offsets_expire_from(offset.commit_timestamp_ms)
            is_expired = since_ms is not None and now_ms - since_ms >= retention_ms
        if is_expired:
            expired.append(partition)
    is_unused = len(expired) == len(committed) and not pending
    records = _tombstones(group_id, expired[:TOMBSTONES_PER_DECISION_MAX])
    if is_unused and group.is_empty and len(expired) <= TOMBSTONES_PER_DECISION_MAX:
        records.extend(group.tombstones())
    return Decision(records, None)


def _tombstones(group_id: str, partitions: Iterable[TopicPartition]) -> list[CoordinatorRecord]:
    return [_tombstone(group_id, partition) for partition in partitions]


def _tombstone(group_id: str, partition: TopicPartition) -> CoordinatorRecord:
    return OffsetCommitKey(group=group_id, topic=partition.topic, partition=partition.partition), None
