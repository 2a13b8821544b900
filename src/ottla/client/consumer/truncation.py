"""Detection of log truncation (KIP-320).

An unclean election may truncate a log; new records then get the offsets of lost ones, which an offset alone does not
show. A position therefore includes the leader epoch of the last record before it. Before the consumer fetches from a
leader of a new epoch, it asks that leader where the position's epoch ends in its log. If the end is after the position,
nothing is lost. If it is before the position, the log was truncated there. Without an end the place is unknown.

Fetches contain the checked leader epoch, and leaders of other epochs refuse them, so no change of the leader is missed.
Fetched batches are dropped when the leader changes, because they may be lost as well.

Only epochs of records count: of records that were read, or in a commit. As with Java's consumers, fetches do not
contain the last fetched epoch: a replica that was filled from a compacted log may never have seen it, although nothing
was truncated.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from enum import Enum
from typing import NamedTuple

from ottla.client.cluster import Cluster
from ottla.client.consumer.positions import PartitionState
from ottla.client.errors import error_of
from ottla.client.metadata import TopicInfo
from ottla.model.errors import KafkaError
from ottla.model.ids import TopicPartition
from ottla.wire.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)

__all__ = ["Doubt", "EpochEnd", "LeaderLog", "ask_epoch_ends", "leader_log"]

# Brokers may take this long to learn of a leader that has written records; until then older metadata is stale. After
# this time the topic was created again under the same name, or its records are lost.
STALE_SECONDS_MAX = 5.0


class LeaderLog(Enum):
    """The relation of the leader's log to a position."""

    SAME = "same"
    # The leader must be asked with OffsetForLeaderEpoch.
    UNSURE = "unsure"
    # The metadata is stale: a newer leader has written the position's record.
    STALE = "stale"


class EpochEnd(NamedTuple):
    """The largest epoch up to the requested one, and its end offset."""

    epoch: int
    offset: int


class Doubt:
    """A position that must be checked with its leader."""

    __slots__ = ("current_epoch", "state", "topic_id", "turn")

    def __init__(self, state: PartitionState, info: TopicInfo) -> None:
        self.state = state
        self.turn = state.turn
        self.current_epoch = info.partitions[state.partition.partition].leader_epoch
        self.topic_id = info.topic_id

    def settle(self, end: EpochEnd) -> bool:
        """Returns True if the leader's log contains the position."""
        if end.epoch < 0 or end.offset < self.state.position:
            return False
        self.state.agree(self.current_epoch, self.topic_id)
        return True


def leader_log(state: PartitionState, info: TopicInfo) -> LeaderLog:
    """The relation of the leader's log to a position. A leader that needs no check is accepted at once."""
    epoch = info.partitions[state.partition.partition].leader_epoch
    if epoch == state.agreed_epoch and info.topic_id == state.topic_id:
        return LeaderLog.SAME
    state.rewind()
    if state.topic_id and info.topic_id and info.topic_id != state.topic_id:
        # Epochs of a deleted topic do not apply to a new topic of the same name.
        state.leader_epoch = -1
    if state.leader_epoch < 0 or epoch < 0:
        state.agree(epoch, info.topic_id)
        return LeaderLog.SAME
    if state.leader_epoch > epoch:
        now = asyncio.get_running_loop().time()
        state.stale_until = state.stale_until or now + STALE_SECONDS_MAX
        if now < state.stale_until:
            return LeaderLog.STALE
    return LeaderLog.UNSURE


async def ask_epoch_ends(
    cluster: Cluster, node_id: int, doubts: Sequence[Doubt]
) -> dict[TopicPartition, EpochEnd | KafkaError]:
    """The ends of the positions' epochs in their leader's log, or an error if the leader epoch has changed."""
    requested: dict[str, list[OffsetForLeaderPartition]] = {}
    for doubt in doubts:
        requested.setdefault(doubt.state.partition.topic, []).append(
            OffsetForLeaderPartition(
                partition=doubt.state.partition.partition,
                current_leader_epoch=doubt.current_epoch,
                leader_epoch=doubt.state.leader_epoch,
            )
        )
    request = OffsetForLeaderEpochRequest(
        replica_id=-1,
        topics=[OffsetForLeaderTopic(topic=topic, partitions=partitions) for topic, partitions in requested.items()],
    )
    response: OffsetForLeaderEpochResponse = await cluster.ask_node(node_id, request)
    return {
        TopicPartition(answer.topic, partition.partition): error_of(partition.error_code)
        or EpochEnd(partition.leader_epoch, partition.end_offset)
        for answer in response.topics
        for partition in answer.partitions
    }
