"""The state of a leader: the progress of the replicas, the high watermark, and the times of the last contacts."""

from __future__ import annotations

from typing import NamedTuple

from ottla.quorum.voters import ReplicaKey, VoterSet

__all__ = ["Leadership", "ReplicaProgress"]

UNKNOWN_OFFSET = -1

# The number of remembered observers, and how long an observer is remembered after its last fetch.
OBSERVERS_MAX = 10_000
OBSERVER_SESSION_MS = 300_000


class ReplicaProgress(NamedTuple):
    key: ReplicaKey
    # The replica has every entry before this offset; -1 if it has not fetched in this epoch.
    end_offset: int
    # The time of its last fetch, and of its last fetch at the end of the log; -1 if there was none.
    fetched_ms: int
    caught_up_ms: int


class Leadership:
    """One epoch of one leader, in the times of the machine."""

    def __init__(self, *, own: ReplicaKey, voters: VoterSet, epoch_start_offset: int, now_ms: int) -> None:
        self._own = own
        self._voters = voters
        # The offset of the epoch's first entry. The leader commits nothing before that entry (Raft, section 5.4.2).
        self.epoch_start_offset = epoch_start_offset
        self.high_watermark = UNKNOWN_OFFSET
        self.began_ms = now_ms
        self._replicas: dict[int, ReplicaProgress] = {}
        # The time of the last change of the voters. The silence of a voter counts from then on.
        self._voters_ms = now_ms
        self._heard_ms: dict[int, int] = {}

    @property
    def is_established(self) -> bool:
        """True if an entry of this epoch is committed, so that the high watermark is known."""
        return self.high_watermark > self.epoch_start_offset

    def change_voters(self, voters: VoterSet, now_ms: int) -> None:
        if voters != self._voters:
            self._voters_ms = now_ms
        self._voters = voters

    def progress(self, node_id: int) -> ReplicaProgress | None:
        return self._replicas.get(node_id)

    def observers(self, now_ms: int) -> list[ReplicaProgress]:
        """Replicas without a vote that have fetched lately, by id."""
        return sorted(
            replica
            for replica in self._replicas.values()
            if not self._voters.has(replica.key) and now_ms - replica.fetched_ms < OBSERVER_SESSION_MS
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
        """A voter is reachable, although it has not followed yet: it truncates its log, or fetches a snapshot."""
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
        """The latest of: the voter's last request, the start of the epoch, the last change of voters."""
        progress = self._replicas.get(voter.node_id)
        heard_ms = max(self._heard_ms.get(voter.node_id, self.began_ms), self._voters_ms)
        if progress is None or not progress.key.matches(voter):
            return heard_ms
        return max(progress.fetched_ms, heard_ms)

    def majority_contact_ms(self, now_ms: int) -> int:
        """The latest time since which a majority of voters, including this node, has had contact."""
        times = sorted(
            (now_ms if voter.key.matches(self._own) else self.contact_ms(voter.key) for voter in self._voters),
            reverse=True,
        )
        return times[self._voters.majority - 1]

    def successors(self) -> tuple[ReplicaKey, ...]:
        """The other voters, the voter with the longest log first."""
        other_voters = [voter.key for voter in self._voters if not voter.key.matches(self._own)]
        return tuple(sorted(other_voters, key=lambda key: -self._end_offset(key, UNKNOWN_OFFSET)))

    def _end_offset(self, key: ReplicaKey, own_offset: int) -> int:
        if key.matches(self._own):
            return own_offset
        progress = self._replicas.get(key.node_id)
        return UNKNOWN_OFFSET if progress is None or not progress.key.matches(key) else progress.end_offset
