"""Consumer lag: for every committed offset of a group, the distance to the end of what its partition's readers see.

Computed when somebody asks, from what the broker has in memory anyway: committing and appending pay nothing for it.
A figure exists where this broker leads both the group's shard and the partition; where another broker leads the
partition, its end is unknown here and said to be so: whoever wants one answer for a cluster asks that broker
(ListOffsets) for what is missing, as `kafka-consumer-groups` does for everything.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from ottla.coordinator.group.offsets.table import CommittedOffset
from ottla.model.ids import TopicPartition

if TYPE_CHECKING:
    from ottla.coordinator.group.state import GroupShard
    from ottla.replica.manager import ReplicaManager

__all__ = ["GroupLag", "PartitionLag", "lag_of_group", "lags_of_shard"]


class PartitionLag(NamedTuple):
    """Where a group stands in one partition.

    `end_offset` is the high watermark; it and `lag` are None where this broker does not lead the partition.
    """

    topic: str
    partition: int
    committed_offset: int
    end_offset: int | None
    commit_timestamp_ms: int

    @property
    def lag(self) -> int | None:
        # An offset committed beyond the end, by hand or before a truncation, leaves nothing to read.
        return None if self.end_offset is None else max(self.end_offset - self.committed_offset, 0)


class GroupLag(NamedTuple):
    group_id: str
    partitions: list[PartitionLag]

    @property
    def total(self) -> int:
        """Over the partitions whose lag is known."""
        return sum(each.lag or 0 for each in self.partitions)

    @property
    def largest(self) -> int:
        return max((each.lag or 0 for each in self.partitions), default=0)

    @property
    def unknown_partitions(self) -> int:
        return sum(each.end_offset is None for each in self.partitions)


def lags_of_shard(shard: GroupShard, replicas: ReplicaManager) -> Iterator[GroupLag]:
    """Every group of the shard that has committed anything."""
    for group_id in list(shard.groups):
        lag = lag_of_group(shard, group_id, replicas)
        if lag.partitions:
            yield lag


def lag_of_group(shard: GroupShard, group_id: str, replicas: ReplicaManager) -> GroupLag:
    """Partitions in order. A group that is not there is not behind anywhere."""
    offsets = shard.offsets.of_group(group_id)
    partitions = [
        _lag(where, committed, replicas) for where, committed in offsets.items() if _is_current(where, committed, shard)
    ]
    return GroupLag(group_id, sorted(partitions))


def _lag(where: TopicPartition, committed: CommittedOffset, replicas: ReplicaManager) -> PartitionLag:
    partition = replicas.get(where.topic, where.partition)
    is_known = partition is not None and partition.is_leader
    end_offset = partition.high_watermark if is_known and partition is not None else None
    return PartitionLag(where.topic, where.partition, committed.offset, end_offset, committed.commit_timestamp_ms)


def _is_current(where: TopicPartition, committed: CommittedOffset, shard: GroupShard) -> bool:
    """Whether the partition exists, and is not a namesake of the one the offset was committed for."""
    topic = shard.context.image.topics.by_name.get(where.topic)
    if topic is None or where.partition not in topic.partitions:
        return False
    return not committed.topic_id or committed.topic_id == topic.topic_id
