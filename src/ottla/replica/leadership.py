"""What a leader knows about its partition beyond the log: the epoch, who is in sync, how far the followers are.

The high watermark is the smallest log end offset among the in-sync replicas. It never moves back while this epoch
lasts. A leader that is alone in the in-sync set moves it with every append.

A change of the in-sync set is the controller's to decide. Until its answer is there, the leader does not know which of
the two sets holds, and so must please both: the high watermark counts the *maximal* set, with everybody who may be in
it, and `min.insync.replicas` is held against the committed one.

Times here are monotonic milliseconds: a wall clock that is set must not throw anybody out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

__all__ = ["NEVER_MS", "FollowerProgress", "LeaderState", "PendingIsr"]

UNKNOWN_OFFSET = -1

# Before every time there is.
NEVER_MS = -(1 << 62)


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
        self.fetched_ms = NEVER_MS
        self.caught_up_ms = NEVER_MS
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

    def on_fetches_at_end(self, until_ms: int) -> None:
        """The follower has fetched at the leader's end, and there was nothing new, until this time."""
        self.caught_up_ms = max(self.caught_up_ms, until_ms)
        self.fetched_ms = max(self.fetched_ms, until_ms)

    def on_epoch_started_in_sync(self, now_ms: int) -> None:
        """A follower in sync at the start of an epoch has the full `replica.lag.time.max.ms` to fetch."""
        self.caught_up_ms = now_ms

    def is_caught_up(self, *, leader_end_offset: int, now_ms: int, lag_ms_max: int) -> bool:
        """Whether it holds everything, or did so a short while ago."""
        return self.log_end_offset == leader_end_offset or now_ms - self.caught_up_ms <= lag_ms_max


class PendingIsr:
    """A change of the in-sync set that the controller has not answered yet."""

    __slots__ = ("is_growth", "isr")

    def __init__(self, isr: tuple[int, ...], *, is_growth: bool) -> None:
        self.isr = isr
        self.is_growth = is_growth


class LeaderState:
    """One leadership, from the moment this broker takes it to the next epoch."""

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
        self.followers: dict[int, FollowerProgress] = {}
        self.isr: frozenset[int] = frozenset()
        # The same as the controller lists it.
        self.isr_order: tuple[int, ...] = ()
        self.maximal_isr: frozenset[int] = frozenset()
        self.pending: PendingIsr | None = None
        self.replica_count = 0
        # Nobody else holds a replica: what is written is committed.
        self.is_alone = False
        self.assign(replicas=replicas, isr=isr)
        for follower_id, progress in self.followers.items():
            if follower_id in self.isr:
                progress.on_epoch_started_in_sync(now_ms)

    def assign(self, *, replicas: Iterable[int], isr: Iterable[int]) -> None:
        """New replicas or a new in-sync set within the same epoch; known followers keep their progress."""
        others = [node_id for node_id in replicas if node_id != self.node_id]
        known = self.followers
        self.followers = {node_id: known.get(node_id) or FollowerProgress(node_id) for node_id in others}
        self.replica_count = len(others) + 1
        self.is_alone = not others
        self.commit_isr(isr)

    def commit_isr(self, isr: Iterable[int]) -> None:
        """The controller's word; whatever was asked for before is answered by it."""
        self.isr_order = tuple(isr)
        self.isr = self.maximal_isr = frozenset(self.isr_order)
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
        """The controller has refused the change: the committed set holds."""
        self.pending = None
        self.maximal_isr = self.isr

    def high_watermark(self, log_end_offset: int, is_joining: Callable[[FollowerProgress], bool] | None = None) -> int:
        """The end of what every in-sync replica holds, given the leader's own end; -1 when one has not fetched yet.

        A follower that is about to join is waited for as well, or a busy leader would run away from it for ever.
        """
        lowest = log_end_offset
        for node_id, progress in self.followers.items():
            if progress.log_end_offset < lowest and (
                node_id in self.maximal_isr or (is_joining is not None and is_joining(progress))
            ):
                lowest = progress.log_end_offset
        return lowest

    def low_watermark(self, log_start_offset: int, is_alive: Callable[[int], bool] | None = None) -> int:
        """The smallest log start offset among the replicas that are there; -1 when one has not told its own yet."""
        lowest = log_start_offset
        for node_id, progress in self.followers.items():
            if progress.log_start_offset < lowest and (is_alive is None or is_alive(node_id)):
                lowest = progress.log_start_offset
        return lowest
