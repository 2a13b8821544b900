"""Bytes a second, measured over a few windows, and whether they are more than allowed.

The same arithmetic as in Apache Kafka: bytes are counted in windows of (usually) a second, the last few of them count,
and the time since the oldest of these began is at least one window. So a burst after a silence is allowed for a moment,
and paid for afterwards.
"""

from __future__ import annotations

from collections import deque

__all__ = ["UNLIMITED", "ByteRate"]

UNLIMITED = (1 << 63) - 1

# Less than a timer can tell would be waited for without end.
_SECONDS_MIN = 0.001


class ByteRate:
    """Counts bytes against a limit; times are monotonic seconds."""

    __slots__ = ("_total", "_windows", "limit", "window_count", "window_seconds")

    def __init__(self, *, limit: int = UNLIMITED, window_seconds: float = 1.0, window_count: int = 11) -> None:
        # Bytes a second.
        self.limit = limit
        self.window_seconds = window_seconds
        self.window_count = window_count
        # When each window began, and what it has counted; at most `window_count` of them.
        self._windows: deque[list[float]] = deque()
        self._total = 0.0

    def record(self, size_bytes: int, now: float) -> None:
        self._forget(now)
        if not self._windows or now - self._windows[-1][0] >= self.window_seconds:
            self._windows.append([now, 0.0])
        self._windows[-1][1] += size_bytes
        self._total += size_bytes

    def rate(self, now: float) -> float:
        """Bytes a second at present."""
        self._forget(now)
        return self._total / self._elapsed(now)

    def is_exceeded(self, now: float) -> bool:
        return self.limit != UNLIMITED and self.rate(now) > self.limit

    def excess_seconds(self, now: float) -> float:
        """How long to wait until the rate is within the limit; 0 when it is."""
        if not self.is_exceeded(now):
            return 0.0
        if self.limit == 0:
            return self.window_seconds
        # Waiting makes the time longer over which the same bytes are counted, and drops old windows sooner or later.
        seconds = self._total / self.limit - self._elapsed(now)
        return max(_SECONDS_MIN, min(seconds, self.window_seconds * self.window_count))

    def _elapsed(self, now: float) -> float:
        return max(now - self._windows[0][0], self.window_seconds) if self._windows else self.window_seconds

    def _forget(self, now: float) -> None:
        oldest = now - self.window_seconds * self.window_count
        while self._windows and self._windows[0][0] <= oldest:
            self._total -= self._windows.popleft()[1]
