"""A follower asks its leader for the first or last offsets of logs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ottla.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)

if TYPE_CHECKING:
    from ottla.replica.followed_partition import FollowedPartition

__all__ = ["offsets_in", "offsets_request"]

_UNKNOWN = -1


def offsets_request(node_id: int, wanted: Iterable[FollowedPartition], timestamp: int) -> ListOffsetsRequest:
    topics: dict[str, ListOffsetsTopic] = {}
    for followed in wanted:
        name, index = followed.partition.topic_partition
        topics.setdefault(name, ListOffsetsTopic(name=name)).partitions.append(
            ListOffsetsPartition(partition_index=index, current_leader_epoch=followed.leader_epoch, timestamp=timestamp)
        )
    return ListOffsetsRequest(replica_id=node_id, topics=list(topics.values()))


def offsets_in(response: ListOffsetsResponse) -> dict[tuple[str, int], int]:
    """The offsets by topic and partition; -1 for an error."""
    return {
        (topic.name, data.partition_index): _UNKNOWN if data.error_code else data.offset
        for topic in response.topics
        for data in topic.partitions
    }
