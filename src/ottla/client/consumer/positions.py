"""Which partitions a consumer reads, and how far it is in each."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import count

from ottla.model.ids import TopicPartition

__all__ = ["PartitionState", "Positions"]


# No two are the same, of whatever partition: one that is given up and assigned again begins where it was committed, and
# an answer to what was asked before must not be taken for one about that.
_turns = count()


class PartitionState:
    """One assigned partition. Fetching runs ahead of what was handed out; a seek makes what is under way stale."""

    __slots__ = (
        "fetch_offset",
        "fetching",
        "forgets_commits",
        "high_watermark",
        "last_stable_offset",
        "leader_epoch",
        "log_start_offset",
        "partition",
        "paused",
        "position",
        "read_replica",
        "turn",
    )

    def __init__(self, partition: TopicPartition) -> None:
        self.partition = partition
        # The next offset to hand out; -1 until it is known.
        self.position = -1
        self.fetch_offset = -1
        self.leader_epoch = -1
        self.paused = False
        self.fetching = False
        # Changed by each seek: answers to older fetches are dropped.
        self.turn = next(_turns)
        # Whether the place is for the reset policy to find, because the one that was known is not in the log.
        self.forgets_commits = False
        self.high_watermark = -1
        self.last_stable_offset = -1
        self.log_start_offset = -1
        # The follower that the leader recommends (KIP-392).
        self.read_replica = -1

    def seek(self, offset: int) -> None:
        self.position = self.fetch_offset = offset
        self.leader_epoch = -1
        self.turn = next(_turns)
        self.forgets_commits = False
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
