"""The assigned partitions of a consumer and their positions."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import count

from ottla.model.ids import TopicPartition, Uuid

__all__ = ["PartitionState", "Positions"]


# Turns are unique across all partitions: a partition that is revoked and assigned again starts at its committed offset,
# and responses to earlier requests must not apply to it.
_turns = count()


class PartitionState:
    """An assigned partition. Fetching runs ahead of the position; a seek voids requests in flight."""

    __slots__ = (
        "agreed_epoch",
        "fetch_offset",
        "fetching",
        "forgets_commits",
        "high_watermark",
        "last_stable_offset",
        "leader_epoch",
        "log_start_offset",
        "look_again",
        "partition",
        "paused",
        "position",
        "read_replica",
        "read_replica_until",
        "seek_turn",
        "stale_until",
        "taken_turn",
        "topic_id",
        "turn",
    )

    def __init__(self, partition: TopicPartition) -> None:
        self.partition = partition
        # The offset of the next returned record; -1 until it is known.
        self.position = -1
        self.fetch_offset = -1
        # The leader epoch of the last record before the position; -1 if it was not read.
        self.leader_epoch = -1
        # The leader epoch and topic id for which the log is known to contain the position (`truncation`).
        self.agreed_epoch = -1
        self.topic_id = Uuid.ZERO
        # Until this time a leader that is older than the position counts as stale metadata.
        self.stale_until = 0.0
        self.paused = False
        # True while an OffsetForLeaderEpoch request is in flight.
        self.fetching = False
        # Changed by every seek: responses to earlier fetches are dropped.
        self.turn = next(_turns)
        # The turn that began with the last seek, and the turn of the batch that was taken last.
        self.seek_turn = self.turn
        self.taken_turn = -1
        # True if the reset policy must set the position, because the known one is out of range.
        self.forgets_commits = False
        # The time of the next lookup of an unknown position.
        self.look_again = 0.0
        self.high_watermark = -1
        self.last_stable_offset = -1
        self.log_start_offset = -1
        # The preferred read replica (KIP-392), and the time until which it is used.
        self.read_replica = -1
        self.read_replica_until = 0.0

    def seek(self, offset: int, leader_epoch: int = -1) -> None:
        """Moves to an offset. A known leader epoch of the previous record makes the consumer check for truncation."""
        self.position = self.fetch_offset = offset
        self.leader_epoch = leader_epoch
        self.agreed_epoch = -1
        self.topic_id = Uuid.ZERO
        self.stale_until = 0.0
        self.turn = self.seek_turn = next(_turns)
        self.forgets_commits = False
        self.look_again = 0.0
        self.read_replica = -1

    def rewind(self) -> None:
        """Voids fetched batches and requests in flight."""
        if self.fetch_offset != self.position:
            self.fetch_offset = self.position
            self.turn = next(_turns)

    def agree(self, leader_epoch: int, topic_id: Uuid) -> None:
        """The log of this leader contains the position: fetching may continue."""
        self.agreed_epoch = leader_epoch
        self.topic_id = topic_id
        self.stale_until = 0.0
        self.read_replica = -1

    def reset(self) -> None:
        """The position is out of range. The committed offset would lead to it again, so the reset policy applies."""
        self.seek(-1)
        self.forgets_commits = True


class Positions:
    """The current assignment."""

    def __init__(self) -> None:
        self.states: dict[TopicPartition, PartitionState] = {}

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Sets a new assignment. Partitions that stay assigned keep their positions."""
        self.states = {partition: self.states.get(partition) or PartitionState(partition) for partition in partitions}

    def get(self, partition: TopicPartition) -> PartitionState:
        state = self.states.get(partition)
        if state is None:
            raise ValueError(f"{partition} is not assigned to this consumer")
        return state

    @property
    def unknown(self) -> list[TopicPartition]:
        """The assigned partitions without a position."""
        return [partition for partition, state in self.states.items() if state.position < 0]

    def committable(self) -> dict[TopicPartition, tuple[int, int]]:
        """Partition -> (position, leader epoch), for partitions with a position."""
        return {
            partition: (state.position, state.leader_epoch)
            for partition, state in self.states.items()
            if state.position >= 0
        }
