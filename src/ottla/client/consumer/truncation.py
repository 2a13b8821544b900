"""Whether the log is still the one that was read (KIP-320).

An unclean election makes a log shorter, and other records get the offsets of those that are gone: an offset alone does
not show it. So a position also has the leader epoch of the last record before it, and before anything is fetched from a
leader of another epoch than the last one, that leader is asked where the position's epoch ends in its log. Behind the
position: nothing is missing. Before it: the log was cut there. Not at all: nobody knows where.

Fetches name the epoch that was agreed on, and are refused by a leader of any other: so no change is missed. What was
fetched ahead is dropped when the leader changes, for it may be gone as well.

Only epochs of records count, those that were read or that a commit holds. As with Java's consumers, fetches do not name
them themselves: a replica that was filled from a compacted log may never have seen the epoch of a record that was read
before, though nothing was cut.
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

# How long a broker may take to hear of a leader that has written already: whoever is named until then leads no more.
# After it, the topic is another one with the same name, or its records are lost.
STALE_SECONDS_MAX = 5.0


class LeaderLog(Enum):
    """What the log of the leader that metadata names is to a position."""

    SAME = "same"
    # The leader has to be asked.
    UNSURE = "unsure"
    # Somebody else must have led since.
    STALE = "stale"


class EpochEnd(NamedTuple):
    """The newest epoch that is not younger than the one that was asked for, and the offset behind its last record."""

    epoch: int
    offset: int


class Doubt:
    """A position that its leader has to be asked about."""

    __slots__ = ("current_epoch", "state", "topic_id", "turn")

    def __init__(self, state: PartitionState, info: TopicInfo) -> None:
        self.state = state
        self.turn = state.turn
        self.current_epoch = info.partitions[state.partition.partition].leader_epoch
        self.topic_id = info.topic_id

    def settle(self, end: EpochEnd) -> bool:
        """Whether the position is in the leader's log."""
        if end.epoch < 0 or end.offset < self.state.position:
            return False
        self.state.agree(self.current_epoch, self.topic_id)
        return True


def leader_log(state: PartitionState, info: TopicInfo) -> LeaderLog:
    """Takes over a new leader where there is nothing to ask it."""
    epoch = info.partitions[state.partition.partition].leader_epoch
    if epoch == state.agreed_epoch and info.topic_id == state.topic_id:
        return LeaderLog.SAME
    state.rewind()
    if state.topic_id and info.topic_id and info.topic_id != state.topic_id:
        # Epochs of a topic that was deleted say nothing about the one that was made in its place.
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
    """Where the epochs of these positions end in their leader's log; who leads another epoch by now says so."""
    asked: dict[str, list[OffsetForLeaderPartition]] = {}
    for one in doubts:
        asked.setdefault(one.state.partition.topic, []).append(
            OffsetForLeaderPartition(
                partition=one.state.partition.partition,
                current_leader_epoch=one.current_epoch,
                leader_epoch=one.state.leader_epoch,
            )
        )
    request = OffsetForLeaderEpochRequest(
        replica_id=-1, topics=[OffsetForLeaderTopic(topic=topic, partitions=some) for topic, some in asked.items()]
    )
    response: OffsetForLeaderEpochResponse = await cluster.ask_node(node_id, request)
    return {
        TopicPartition(answer.topic, one.partition): error_of(one.error_code)
        or EpochEnd(one.leader_epoch, one.end_offset)
        for answer in response.topics
        for one in answer.partitions
    }
