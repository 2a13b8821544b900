"""Replay of offset records: type 1, and type 0 of old logs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from ottla.coordinator.group.offsets.table import CommittedOffset, OffsetsOfTopic
from ottla.model.ids import TopicPartition
from ottla.wire.messages.group_records import (
    LegacyOffsetCommitKey,
    LegacyOffsetCommitValue,
    OffsetCommitKey,
    OffsetCommitValue,
)

if TYPE_CHECKING:
    from ottla.coordinator.group.state import GroupShard, Replayer

__all__ = ["OFFSET_REPLAYERS", "put_offsets"]


def put_offsets(
    shard: GroupShard,
    group_id: str,
    partitions: Iterable[TopicPartition],
    committed: CommittedOffset | OffsetsOfTopic,
    producer_id: int,
) -> None:
    """Replays offset records of one group, of a decision or of a load."""
    # A group that only has offsets is a classic group without members.
    if group_id not in shard.groups:
        from ottla.coordinator.group.classic.group import ClassicGroup

        shard.put_group(ClassicGroup(group_id, shard))
    shard.offsets.put(group_id, partitions, committed, producer_id)


def _replay_offset(shard: GroupShard, key: OffsetCommitKey, value: OffsetCommitValue | None, producer_id: int) -> None:
    partition = TopicPartition(key.topic, key.partition)
    if value is None:
        shard.offsets.remove(key.group, partition)
        return
    committed = CommittedOffset(
        value.offset,
        leader_epoch=value.leader_epoch,
        metadata=value.metadata,
        commit_timestamp_ms=value.commit_timestamp,
        expire_timestamp_ms=value.expire_timestamp,
        topic_id=value.topic_id,
    )
    put_offsets(shard, key.group, (partition,), committed, producer_id)


def _replay_legacy_offset(
    shard: GroupShard, key: LegacyOffsetCommitKey, value: LegacyOffsetCommitValue | None, producer_id: int
) -> None:
    partition = TopicPartition(key.topic, key.partition)
    if value is None:
        shard.offsets.remove(key.group, partition)
        return
    committed = CommittedOffset(value.offset, metadata=value.metadata, commit_timestamp_ms=value.commit_timestamp)
    put_offsets(shard, key.group, (partition,), committed, producer_id)


OFFSET_REPLAYERS: Mapping[int, Replayer] = {
    LegacyOffsetCommitKey.API_KEY: _replay_legacy_offset,
    OffsetCommitKey.API_KEY: _replay_offset,
}
