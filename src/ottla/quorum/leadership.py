"""What only the leader knows: how far each replica is, what follows from it, and whether anybody still listens."""

from __future__ import annotations

from typing import NamedTuple

from ottla.quorum.voters import ReplicaKey, VoterSet

__all__ = ["Leadership", "ReplicaProgress"]

UNKNOWN_OFFSET = -1

# Observers that are remembered, and for how long after their last fetch.
OBSERVERS_MAX = 10_000
OBSERVER_SESSION_MS = 300_000


class ReplicaProgress(NamedTuple):
    key: ReplicaKey
    # The replica has everything before it; -1 while it has not fetched in this epoch.
    end_offset: int
    # When it fetched last, and when it was last seen with everything; -1 while it never was.
    fetched_ms: int
    caught_up_ms: int


class Leadership:
    """One epoch of one leader. Times are the machine's own."""

    def __init__(self, *, own: ReplicaKey, voters: VoterSet, epoch_start_offset: int, now_ms: int) -> None:
        self._own = own
        self._voters = voters
        # The offset of the epoch's first entry: nothing is committed before it is (Raft, section 5.4.2).
        self.epoch_start_offset = epoch_start_offset
        self.high_watermark = UNKNOWN_OFFSET
        self.began_ms = now_ms
        self._replicas: dict[int, ReplicaProgress] = {}
        # Since when these are the voters: before, nobody could know whose silence would count.
        self._voters_ms = now_ms
        self._heard_ms: dict[int, int] = {}

    @property
    def is_established(self) -> bool:
        """Whether an entry of this epoch is committed, so that the leader knows what is."""
        return self.high_watermark > self.epoch_start_offset

    def change_voters(self, voters: VoterSet, now_ms: int) -> None:
        if voters != self._voters:
            self._voters_ms = now_ms
        self._voters = voters

    def progress(self, node_id: int) -> ReplicaProgress | None:
        return self._replicas.get(node_id)

    def observers(self, now_ms: int) -> list[ReplicaProgress]:
        """Those that fetched lately and have no vote, by id."""
        return sorted(
            each
            for each in self._replicas.values()
            if not self._voters.has(each.key) and now_ms - each.fetched_ms < OBSERVER_SESSION_MS
        )

    def on_fetched(self, replica: ReplicaKey, *, offset: int, end_offset: int, now_ms: int) -> None:
        before = self._replicas.get(replica.node_id)
        if before is None and len(self._replicas) >= OBSERVERS_MAX and replica.node_id not in self._voters.ids:
            return
        caught_up_ms = -1 if before is None or not before.key.matches(replica) else before.caught_up_ms
        if offset >= min(end_offset, max(self.high_watermark, 0)):
            caught_up_ms = now_ms
        self._replicas[replica.node_id] = ReplicaProgress(replica, offset, now_ms, caught_up_ms)

    def on_heard(self, replica: ReplicaKey, now_ms: int) -> None:
        """A voter is there, though it has not followed yet: it cuts its log off, or fetches a snapshot."""
        if self._voters.has(replica):
            self._heard_ms[replica.node_id] = now_ms

    def committed(self, *, synced_offset: int) -> int:
        """The highest offset that a majority of voters has on disk."""
        offsets = sorted((self._end_offset(voter.key, synced_offset) for voter in self._voters), reverse=True)
        return offsets[self._voters.majority - 1]

    def advance(self, offset: int) -> bool:
        """Moves the high watermark, once it is above the first entry of this epoch (Raft, section 5.4.2)."""
        if offset <= max(self.epoch_start_offset, self.high_watermark):
            return False
        self.high_watermark = offset
        return True

    def invariants(self, log_end_offset: int) -> None:
        assert self.high_watermark <= log_end_offset, "only entries of the leader's log are committed"
        assert self.high_watermark == UNKNOWN_OFFSET or self.is_established
        assert self.epoch_start_offset <= log_end_offset, "a leader never truncates its log"

    def contact_ms(self, voter: ReplicaKey) -> int:
        """When a voter was heard of last; the beginning of the epoch, or of its being a voter, when it was not."""
        progress = self._replicas.get(voter.node_id)
        heard_ms = max(self._heard_ms.get(voter.node_id, self.began_ms), self._voters_ms)
        if progress is None or not progress.key.matches(voter):
            return heard_ms
        return max(progress.fetched_ms, heard_ms)

    def majority_contact_ms(self, now_ms: int) -> int:
        """The latest time at which a majority of voters, this node included, was heard of at that time or later."""
        times = sorted(
            (now_ms if voter.key.matches(self._own) else self.contact_ms(voter.key) for voter in self._voters),
            reverse=True,
        )
        return times[self._voters.majority - 1]

    def successors(self) -> tuple[ReplicaKey, ...]:
        """The other voters, the one with the longest log first."""
        others = [voter.key for voter in self._voters if not voter.key.matches(self._own)]
        return tuple(sorted(others, key=lambda key: -self._end_offset(key, UNKNOWN_OFFSET)))

    def _end_offset(self, key: ReplicaKey, own_offset: int) -> int:
        if key.matches(self._own):
            return own_offset
        progress = self._replicas.get(key.node_id)
        return UNKNOWN_OFFSET if progress is None or not progress.key.matches(key) else progress.end_offset
