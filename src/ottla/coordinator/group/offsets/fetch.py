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
    offsets = shard.offsets
    pending = offsets.pending_partitions(group_id) if require_stable else set()
    if request.topics is None:
        committed = offsets.of_group(group_id) if is_known else {}
        return OffsetFetchResponseGroup(group_id=group_id, topics=_all(committed, pending, shard))

    def answer(partition: TopicPartition, topic_id: Uuid) -> OffsetFetchResponsePartitions:
        # Looked up one by one: the group may have very many offsets, of which a member asks for a few.
        offset = offsets.get(group_id, partition) if is_known else None
        if offset is not None and _is_of_namesake(offset, topic_id):
            offset = None
        return _partition(offset, pending, partition)

    topics: list[OffsetFetchResponseTopics] = []
    for topic in request.topics:
        topic_id = topic.topic_id or _current_id(topic.name, shard)
        partitions = [answer(TopicPartition(topic.name, index), topic_id) for index in topic.partition_indexes]
        topics.append(OffsetFetchResponseTopics(name=topic.name, topic_id=topic.topic_id, partitions=partitions))
    return OffsetFetchResponseGroup(group_id=group_id, topics=topics)


def _all(
    committed: dict[TopicPartition, CommittedOffset], pending: set[TopicPartition], shard: GroupShard
) -> list[OffsetFetchResponseTopics]:
    current_ids = {name: _current_id(name, shard) for name in {partition.topic for partition in committed}}
    by_topic: dict[str, list[OffsetFetchResponsePartitions]] = {}
    for partition, offset in committed.items():
        if not _is_of_namesake(offset, current_ids[partition.topic]):
            by_topic.setdefault(partition.topic, []).append(_partition(offset, pending, partition))
    return [OffsetFetchResponseTopics(name=name, partitions=partitions) for name, partitions in by_topic.items()]


def _current_id(name: str, shard: GroupShard) -> Uuid:
    """The id of the present topic of that name. Offsets of a deleted topic are removed some turns after it."""
    topic = shard.context.image.topics.by_name.get(name)
    return Uuid.ZERO if topic is None else topic.topic_id


def _is_of_namesake(offset: CommittedOffset, topic_id: Uuid) -> bool:
    """True if the offset belongs to a deleted topic of the same name."""
    return bool(topic_id and offset.topic_id) and offset.topic_id != topic_id


def _partition(
    offset: CommittedOffset | None, pending: set[TopicPartition], partition: TopicPartition
) -> OffsetFetchResponsePartitions:
    index = partition.partition
    if partition in pending:
        return OffsetFetchResponsePartitions(
            partition_index=index,
            committed_offset=INVALID_OFFSET,
            metadata="",
            error_code=ErrorCode.UNSTABLE_OFFSET_COMMIT,
        )
    if offset is None:
        return OffsetFetchResponsePartitions(partition_index=index, committed_offset=INVALID_OFFSET, metadata="")
    return OffsetFetchResponsePartitions(
        partition_index=index,
        committed_offset=offset.offset,
        committed_leader_epoch=offset.leader_epoch,
        metadata=offset.metadata,
    )
