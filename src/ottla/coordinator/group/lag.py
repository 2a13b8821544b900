"""Consumer lag: the distance from a group's committed offset to the high watermark of the partition.

The lag is computed on demand from state in memory, at no cost for commits and appends. It is known if this broker leads
both the group's shard and the partition. If another broker leads the partition, the lag is None: a tool for the whole
cluster asks that broker (ListOffsets), as `kafka-consumer-groups` does for every partition.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from ottla.coordinator.group.offsets.table import CommittedOffset
from ottla.model.ids import TopicPartition

if TYPE_CHECKING:
    from ottla.coordinator.group.state import GroupShard
    from ottla.replica.manager import ReplicaManager

__all__ = ["GroupLag", "PartitionLag", "lags_of_shard"]


class PartitionLag(NamedTuple):
    """The lag of a group in one partition.

    `end_offset` is the high watermark; it and `lag` are None where this broker does not lead the partition.
    """

    topic: str
    partition: int
    committed_offset: int
    end_offset: int | None
    commit_timestamp_ms: int

    @property
    def lag(self) -> int | None:
        # An offset beyond the end, committed by hand or before a truncation, is not behind.
        return None if self.end_offset is None else max(self.end_offset - self.committed_offset, 0)


class GroupLag(NamedTuple):
    group_id: str
    partitions: list[PartitionLag]

    @property
    def total(self) -> int:
        """The sum over the partitions whose lag is known."""
        return sum(partition.lag or 0 for partition in self.partitions)

    @property
    def largest(self) -> int:
        return max((partition.lag or 0 for partition in self.partitions), default=0)

    @property
    def unknown_partitions(self) -> int:
        return sum(partition.end_offset is None for partition in self.partitions)


# Partitions and groups that are looked at before the node may do other work.
PARTITIONS_PER_STEP = 1_000
GROUPS_PER_STEP = 500


def lags_of_shard(shard: GroupShard, replicas: ReplicaManager) -> Iterator[GroupLag | None]:
    """All groups of the shard that have committed offsets. None is a pause, so that the node can work."""
    for number, group_id in enumerate(list(shard.groups), 1):
        partitions: list[PartitionLag] = []
        for topic_partition, committed in shard.offsets.of_group(group_id).items():
            if _is_current(topic_partition, committed, shard):
                partitions.append(_lag(topic_partition, committed, replicas))
                if not len(partitions) % PARTITIONS_PER_STEP:
                    yield None
        if partitions:
            yield GroupLag(group_id, sorted(partitions))
        elif not number % GROUPS_PER_STEP:
            yield None


def _lag(topic_partition: TopicPartition, committed: CommittedOffset, replicas: ReplicaManager) -> PartitionLag:
    partition = replicas.get(topic_partition.topic, topic_partition.partition)
    is_known = partition is not None and partition.is_leader
    end_offset = partition.high_watermark if is_known and partition is not None else None
    return PartitionLag(
        topic_partition.topic, topic_partition.partition, committed.offset, end_offset, committed.commit_timestamp_ms
    )


def _is_current(topic_partition: TopicPartition, committed: CommittedOffset, shard: GroupShard) -> bool:
    """True if the partition exists and belongs to the topic that the offset was committed for."""
    topic = shard.context.image.topics.by_name.get(topic_partition.topic)
    if topic is None or topic_partition.partition not in topic.partitions:
        return False
    return not committed.topic_id or committed.topic_id == topic.topic_id
