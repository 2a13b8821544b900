"""The fetches of a follower or observer: one under way at a time, with pauses after failures."""

from __future__ import annotations

from ottla.quorum.timing import QuorumTiming

__all__ = ["FetchCycle"]


class FetchCycle:
    """`fetch_id` names the current fetch; a response to any other fetch is too late."""

    def __init__(self, timing: QuorumTiming) -> None:
        self._timing = timing
        self.fetch_id = 0
        self.is_under_way = False
        # True if the current leader has answered a fetch in this epoch.
        self.has_succeeded = False
        self.failures = 0
        # The earliest time of the next fetch.
        self.due_ms = 0

    def restart(self, now_ms: int) -> None:
        """There is a new leader: a fetch under way was meant for the former one."""
        self.has_succeeded = False
        self.failures = 0
        self.due_ms = now_ms
        self.is_under_way = False
        self.fetch_id += 1

    def abandon(self) -> None:
        """Abandons the fetch under way, because the leader has changed or failed."""
        self.is_under_way = False

    def begin(self) -> int:
        """A fetch is sent; returns its id."""
        assert not self.is_under_way, "one fetch at a time"
        self.is_under_way = True
        self.fetch_id += 1
        return self.fetch_id

    def on_answered(self) -> None:
        self.is_under_way = False

    def on_succeeded(self, now_ms: int) -> None:
        """The leader has answered without an error."""
        self.failures = 0
        self.due_ms = now_ms
        self.has_succeeded = True

    def on_failed(self, now_ms: int) -> None:
        self.failures += 1
        self.due_ms = now_ms + self._timing.retry_backoff_ms(self.failures)

    def on_snapshot_needed(self) -> None:
        """Continues the current fetch as the fetch of a snapshot."""
        self.is_under_way = True

    def on_snapshot_fetched(self, now_ms: int) -> None:
        self.is_under_way = False
        self.due_ms = now_ms

    def on_leader_resigning(self) -> None:
        """The leader has announced its end: pre-votes may be granted."""
        self.has_succeeded = False
