"""OffsetFetch: a group's committed offsets, of some partitions or of all."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.coordinator.group.offsets.table import CommittedOffset
from ottla.model.errors import ErrorCode, KafkaError
from ottla.model.ids import TopicPartition, Uuid
from ottla.wire.messages.offset_fetch import (
    OffsetFetchRequestGroup,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)

if TYPE_CHECKING:
    from ottla.coordinator.group.state import GroupShard

__all__ = ["INVALID_OFFSET", "fetch_offsets"]

INVALID_OFFSET = -1


def fetch_offsets(
    shard: GroupShard, request: OffsetFetchRequestGroup, *, require_stable: bool
) -> OffsetFetchResponseGroup:
    """Topics have names here in all versions. With `require_stable`, an offset that an open transaction may still
    change is answered with an error, and the client asks again (KIP-447).
    """
    group_id = request.group_id
    group = shard.groups.get(group_id)
    is_known = group is not None
    if group is not None:
        try:
            group.check_offset_fetch(member_id=request.member_id, member_epoch=request.member_epoch)
        except KafkaError as error:
            if error.code is not ErrorCode.GROUP_ID_NOT_FOUND:
                raise
            is_known = False
    pending = shard.offsets.pending_partitions(group_id) if require_stable else set()
    committed = shard.offsets.of_group(group_id) if is_known else {}
    if request.topics is None:
        return OffsetFetchResponseGroup(group_id=group_id, topics=_all(committed, pending))
    topics = [
        OffsetFetchResponseTopics(
            name=topic.name,
            topic_id=topic.topic_id,
            partitions=[
                _partition(committed, pending, TopicPartition(topic.name, index), topic.topic_id)
                for index in topic.partition_indexes
            ],
        )
        for topic in request.topics
    ]
    return OffsetFetchResponseGroup(group_id=group_id, topics=topics)


def _all(
    committed: dict[TopicPartition, CommittedOffset], pending: set[TopicPartition]
) -> list[OffsetFetchResponseTopics]:
    by_topic: dict[str, list[OffsetFetchResponsePartitions]] = {}
    for partition in committed:
        by_topic.setdefault(partition.topic, []).append(_partition(committed, pending, partition, Uuid.ZERO))
    return [OffsetFetchResponseTopics(name=name, partitions=partitions) for name, partitions in by_topic.items()]


def _partition(
    committed: dict[TopicPartition, CommittedOffset],
    pending: set[TopicPartition],
    partition: TopicPartition,
    topic_id: Uuid,
) -> OffsetFetchResponsePartitions:
    index = partition.partition
    if partition in pending:
        return OffsetFetchResponsePartitions(
            partition_index=index,
            committed_offset=INVALID_OFFSET,
            metadata="",
            error_code=ErrorCode.UNSTABLE_OFFSET_COMMIT,
        )
    offset = committed.get(partition)
    # The topic was deleted and created again since: the offset belongs to the deleted one.
    is_namesake = offset is not None and topic_id and offset.topic_id and offset.topic_id != topic_id
    if offset is None or is_namesake:
        return OffsetFetchResponsePartitions(partition_index=index, committed_offset=INVALID_OFFSET, metadata="")
    return OffsetFetchResponsePartitions(
        partition_index=index,
        committed_offset=offset.offset,
        committed_leader_epoch=offset.leader_epoch,
        metadata=offset.metadata,
    )
