"""The state of a leader beyond its log: the epoch, the in-sync set, and the progress of the followers.

The high watermark is the smallest log end offset among the in-sync replicas. It never decreases within an epoch. A
leader that is alone in the in-sync set moves it with every append.

The controller decides changes of the in-sync set. Until its response arrives, the leader does not know which of the two
sets is valid, and satisfies both: the high watermark counts the *maximal* set, which contains the members of both, and
`min.insync.replicas` is compared with the committed set.

Times are monotonic milliseconds: setting the wall clock must not remove a follower from the in-sync set.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache

__all__ = ["NEVER_MS", "FollowerProgress", "LeaderState", "PendingIsr"]

UNKNOWN_OFFSET = -1

# Earlier than any other time.
NEVER_MS = -(1 << 62)


class FollowerProgress:
    """The progress of one follower, known from its fetch requests."""

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
        self.fetched_ms = NEVER_MS
        self.caught_up_ms = NEVER_MS
        self.replica_epoch = -1

    def on_fetch(
        self, *, fetch_offset: int, log_start_offset: int, leader_end_offset: int, now_ms: int, replica_epoch: int
    ) -> None:
        """A fetch at an offset proves that the follower has written everything before it.

        The follower was caught up at the time of this fetch if it fetches at the leader's end. It was caught up at the
        time of its previous fetch if it fetches at what was the end then (KIP-16).
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

    def on_fetches_at_end(self, until_ms: int) -> None:
        """The follower has fetched at the leader's end, and there was nothing new, until this time."""
        self.caught_up_ms = max(self.caught_up_ms, until_ms)
        self.fetched_ms = max(self.fetched_ms, until_ms)

    def on_epoch_started_in_sync(self, now_ms: int) -> None:
        """A follower in sync at the start of an epoch has the full `replica.lag.time.max.ms` to fetch."""
        self.caught_up_ms = now_ms

    def is_caught_up(self, *, leader_end_offset: int, now_ms: int, lag_ms_max: int) -> bool:
        """Whether the follower holds every record, or did so within the last `lag_ms_max`."""
        return self.log_end_offset == leader_end_offset or now_ms - self.caught_up_ms <= lag_ms_max


class PendingIsr:
    """A proposed change of the in-sync set, before the controller's response."""

    __slots__ = ("is_growth", "isr")

    def __init__(self, isr: tuple[int, ...], *, is_growth: bool) -> None:
        self.isr = isr
        self.is_growth = is_growth


_NO_FOLLOWERS: Mapping[int, FollowerProgress] = {}


@lru_cache(maxsize=4096)
def _members(isr: tuple[int, ...]) -> frozenset[int]:
    """Thousands of partitions have the same in-sync set, and a set takes 216 bytes."""
    return frozenset(isr)


class LeaderState:
    """The leadership of this broker in one epoch."""

    __slots__ = (
        "epoch",
        "epoch_start_offset",
        "followers",
        "is_alone",
        "isr",
        "isr_order",
        "maximal_isr",
        "node_id",
        "pending",
        "replica_count",
    )

    def __init__(
        self,
        *,
        node_id: int,
        epoch: int,
        epoch_start_offset: int,
        replicas: Iterable[int],
        isr: Iterable[int],
        now_ms: int = NEVER_MS,
    ) -> None:
        self.node_id = node_id
        self.epoch = epoch
        self.epoch_start_offset = epoch_start_offset
        self.followers: Mapping[int, FollowerProgress] = _NO_FOLLOWERS
        self.isr: frozenset[int] = frozenset()
        # The members in the controller's order.
        self.isr_order: tuple[int, ...] = ()
        self.maximal_isr: frozenset[int] = frozenset()
        self.pending: PendingIsr | None = None
        self.replica_count = 0
        # True if this broker has the only replica: then an appended record is committed.
        self.is_alone = False
        self.assign(replicas=replicas, isr=isr)
        for follower_id, progress in self.followers.items():
            if follower_id in self.isr:
                progress.on_epoch_started_in_sync(now_ms)

    def assign(self, *, replicas: Iterable[int], isr: Iterable[int]) -> None:
        """New replicas or a new in-sync set in the same epoch. Known followers keep their progress."""
        follower_ids = [node_id for node_id in replicas if node_id != self.node_id]
        known_followers = self.followers
        self.followers = (
            {node_id: known_followers.get(node_id) or FollowerProgress(node_id) for node_id in follower_ids}
            if follower_ids
            else _NO_FOLLOWERS
        )
        self.replica_count = len(follower_ids) + 1
        self.is_alone = not follower_ids
        self.commit_isr(isr)

    def commit_isr(self, isr: Iterable[int]) -> None:
        """The controller has decided the in-sync set. A pending proposal is settled."""
        self.isr_order = tuple(isr)
        self.isr = self.maximal_isr = _members(self.isr_order)
        self.pending = None

    def invariants(self, *, log_end_offset: int) -> None:
        assert self.epoch_start_offset <= log_end_offset, "a leader never truncates its log"
        assert self.replica_count == len(self.followers) + 1, "this broker holds a replica, too"
        assert self.is_alone == (not self.followers)
        assert self.isr == frozenset(self.isr_order)
        assert self.isr <= self.maximal_isr, "the maximal in-sync set has the members of both sets"
        assert self.pending is not None or self.isr == self.maximal_isr
        assert self.maximal_isr <= {self.node_id, *self.followers}, "replicas in sync are replicas"
        for progress in self.followers.values():
            assert progress.log_end_offset <= log_end_offset, "a follower holds nothing that its leader lacks"

    def propose_isr(self, pending: PendingIsr) -> None:
        assert self.pending is None, "one change of the in-sync set at a time"
        self.pending = pending
        self.maximal_isr = self.isr | frozenset(pending.isr)

    def withdraw_isr(self) -> None:
        """The controller has rejected the proposal: the committed set is valid."""
        self.pending = None
        self.maximal_isr = self.isr

    def high_watermark(self, log_end_offset: int, is_joining: Callable[[FollowerProgress], bool] | None = None) -> int:
        """The smallest end among the in-sync replicas and the leader; -1 if a replica has not fetched yet.

        A follower that is about to join counts as well. Otherwise a busy leader would always be ahead of it.
        """
        lowest = log_end_offset
        for node_id, progress in self.followers.items():
            if progress.log_end_offset < lowest and (
                node_id in self.maximal_isr or (is_joining is not None and is_joining(progress))
            ):
                lowest = progress.log_end_offset
        return lowest

    def low_watermark(self, log_start_offset: int, is_alive: Callable[[int], bool] | None = None) -> int:
        """The smallest log start offset among live replicas; -1 if a replica has not fetched yet."""
        lowest = log_start_offset
        for node_id, progress in self.followers.items():
            if progress.log_start_offset < lowest and (is_alive is None or is_alive(node_id)):
                lowest = progress.log_start_offset
        return lowest
