"""When a worker commits: after the commit interval, or earlier if it has processed all available records.

With exactly-once, results are seen after the commit. A worker that has caught up has nothing else to do, so it commits
without waiting for the rest of the interval. Two bounds keep commits cheap: the shortest time between two of them, and
a share of the worker's time.
"""

from __future__ import annotations

__all__ = ["CommitSchedule"]

# The time between two early commits is at least this multiple of the last commit's duration.
_DURATIONS_BETWEEN = 5


class CommitSchedule:
    """Times are seconds of the worker's event loop."""

    def __init__(self, *, interval_ms: int, shortest_ms: int, now: float) -> None:
        self._interval = interval_ms / 1000
        self._shortest = min(shortest_ms, interval_ms) / 1000
        # When the last commit began, and how long it took.
        self._last, self._commit_seconds = now, 0.0
        # When the transaction was opened.
        self._opened = now

    def on_begin(self, now: float) -> None:
        self._opened = now

    def on_commit(self, begun: float) -> None:
        self._last = begun

    def on_committed(self, now: float) -> None:
        self._commit_seconds = now - self._last

    def due(self, *, is_caught_up: bool) -> float:
        """The time of the next commit. After a pause the first records are committed at once."""
        wait = self._interval
        if is_caught_up:
            wait = min(wait, max(self._shortest, _DURATIONS_BETWEEN * self._commit_seconds))
        return max(self._opened, self._last + wait)
