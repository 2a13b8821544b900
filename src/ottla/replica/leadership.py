"""What a leader knows about its partition beyond the log: the epoch, who is in sync, how far the followers are.

The high watermark is the smallest log end offset among the in-sync replicas. It never moves back while this epoch
lasts. A leader that is alone in the in-sync set moves it with every append.
"""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["FollowerProgress", "LeaderState"]

UNKNOWN_OFFSET = -1


class FollowerProgress:
    """How far one follower has come, learnt from its fetch requests."""

    __slots__ = (
        "caught_up_ms",
        "fetched_ms",
        "leader_end_offset_at_fetch",
        "log_end_offset",
        "log_start_offset",
        "node_id",
        "replica_epoch",
    )

    def __init__(self, node_id: int) -> None:
        self.node_id = node_id
        self.log_end_offset = UNKNOWN_OFFSET
        self.log_start_offset = UNKNOWN_OFFSET
        self.leader_end_offset_at_fetch = 0
        self.fetched_ms = 0
        self.caught_up_ms = 0
        self.replica_epoch = -1

    def on_fetch(
        self, *, fetch_offset: int, log_start_offset: int, leader_end_offset: int, now_ms: int, replica_epoch: int
    ) -> None:
        """A fetch at an offset proves that everything before it has been written.

        A follower counts as caught up at the time of this fetch when it asks for the leader's end, and at the time of
        its last fetch when it asks for what was the end then: zero lag at least once per window (KIP-16).
        """
        if fetch_offset >= leader_end_offset:
            self.caught_up_ms = max(self.caught_up_ms, now_ms)
        elif fetch_offset >= self.leader_end_offset_at_fetch:
            self.caught_up_ms = max(self.caught_up_ms, self.fetched_ms)
        self.log_end_offset = fetch_offset
        self.log_start_offset = log_start_offset
        self.leader_end_offset_at_fetch = leader_end_offset
        self.fetched_ms = now_ms
        self.replica_epoch = replica_epoch


class LeaderState:
    """One leadership, from the moment this broker takes it to the next epoch."""

    __slots__ = ("epoch", "epoch_start_offset", "followers", "is_alone", "isr", "node_id", "replica_count")

    def __init__(
        self, *, node_id: int, epoch: int, epoch_start_offset: int, replicas: Iterable[int], isr: Iterable[int]
    ) -> None:
        self.node_id = node_id
        self.epoch = epoch
        self.epoch_start_offset = epoch_start_offset
        self.followers: dict[int, FollowerProgress] = {}
        self.isr: frozenset[int] = frozenset()
        self.replica_count = 0
        self.is_alone = False
        self.assign(replicas=replicas, isr=isr)

    def assign(self, *, replicas: Iterable[int], isr: Iterable[int]) -> None:
        """New replicas or a new in-sync set within the same epoch; known followers keep their progress."""
        others = [node_id for node_id in replicas if node_id != self.node_id]
        known = self.followers
        self.followers = {node_id: known.get(node_id) or FollowerProgress(node_id) for node_id in others}
        self.isr = frozenset(isr)
        self.replica_count = len(others) + 1
        self.is_alone = self.isr <= {self.node_id}

    def high_watermark(self, log_end_offset: int) -> int:
        """The end of what every in-sync replica holds, given the leader's own end; -1 when one has not fetched yet."""
        if self.is_alone:
            return log_end_offset
        ends = [progress.log_end_offset for node_id, progress in self.followers.items() if node_id in self.isr]
        return min(log_end_offset, *ends) if ends else log_end_offset

    def low_watermark(self, log_start_offset: int) -> int:
        """The smallest log start offset among the replicas that are known to be there."""
        starts = [progress.log_start_offset for progress in self.followers.values() if progress.log_start_offset >= 0]
        return min(log_start_offset, *starts) if starts else log_start_offset
