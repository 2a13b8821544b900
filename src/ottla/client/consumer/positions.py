"""Which partitions a consumer reads, and how far it is in each."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import count

from ottla.model.ids import TopicPartition, Uuid

__all__ = ["PartitionState", "Positions"]


# No two are the same, of whatever partition: one that is given up and assigned again begins where it was committed, and
# an answer to what was asked before must not be taken for one about that.
_turns = count()


class PartitionState:
    """One assigned partition. Fetching runs ahead of what was handed out; a seek makes what is under way stale."""

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
        "stale_until",
        "topic_id",
        "turn",
    )

    def __init__(self, partition: TopicPartition) -> None:
        self.partition = partition
        # The next offset to hand out; -1 until it is known.
        self.position = -1
        self.fetch_offset = -1
        # Of the last record before the position; -1 where that was not read.
        self.leader_epoch = -1
        # Of the leader, and the topic, whose log is known to be the one that the position is in (`truncation`).
        self.agreed_epoch = -1
        self.topic_id = Uuid.ZERO
        # Until when a leader that is older than the position is taken for old news.
        self.stale_until = 0.0
        self.paused = False
        # Whether something is being asked about it.
        self.fetching = False
        # Changed by each seek: answers to older fetches are dropped.
        self.turn = next(_turns)
        # Whether the place is for the reset policy to find, because the one that was known is not in the log.
        self.forgets_commits = False
        # When a position that could not be found is looked for again.
        self.look_again = 0.0
        self.high_watermark = -1
        self.last_stable_offset = -1
        self.log_start_offset = -1
        # The follower that the leader recommends (KIP-392), and until when it is not asked again.
        self.read_replica = -1
        self.read_replica_until = 0.0

    def seek(self, offset: int, leader_epoch: int = -1) -> None:
        """With the epoch of the record before the offset, where that is known, the log is looked at first."""
        self.position = self.fetch_offset = offset
        self.leader_epoch = leader_epoch
        self.agreed_epoch = -1
        self.topic_id = Uuid.ZERO
        self.stale_until = 0.0
        self.turn = next(_turns)
        self.forgets_commits = False
        self.look_again = 0.0
        self.read_replica = -1

    def rewind(self) -> None:
        """Forgets what was fetched ahead."""
        if self.fetch_offset != self.position:
            self.fetch_offset = self.position
            self.turn = next(_turns)

    def agree(self, leader_epoch: int, topic_id: Uuid) -> None:
        """The leader of this epoch has what lies before the position: so it can be read on from there."""
        self.agreed_epoch = leader_epoch
        self.topic_id = topic_id
        self.stale_until = 0.0
        self.read_replica = -1

    def reset(self) -> None:
        """The place is not in the log: what the group has committed would lead to it again."""
        self.seek(-1)
        self.forgets_commits = True


class Positions:
    """The current assignment."""

    def __init__(self) -> None:
        self.states: dict[TopicPartition, PartitionState] = {}

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Takes over a new assignment; what stays keeps its position."""
        self.states = {one: self.states.get(one) or PartitionState(one) for one in partitions}

    def get(self, one: TopicPartition) -> PartitionState:
        state = self.states.get(one)
        if state is None:
            raise ValueError(f"{one} is not assigned to this consumer")
        return state

    @property
    def unknown(self) -> list[TopicPartition]:
        """Assigned, but without a position yet."""
        return [one for one, state in self.states.items() if state.position < 0]

    def committable(self) -> dict[TopicPartition, tuple[int, int]]:
        """Partition -> (position, leader epoch), of those that have one."""
        return {one: (state.position, state.leader_epoch) for one, state in self.states.items() if state.position >= 0}
