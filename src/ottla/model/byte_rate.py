"""Bytes per second, measured over several windows and compared with a limit.

The arithmetic is Apache Kafka's: bytes are counted in windows of usually one second, and the rate is the total of the
last windows divided by the time since the oldest of them began, at least one window. A burst after an idle period is
therefore allowed briefly and throttled afterwards.
"""

from __future__ import annotations

from collections import deque

__all__ = ["UNLIMITED", "ByteRate"]

UNLIMITED = (1 << 63) - 1

# A timer cannot measure less, so a shorter delay would be repeated endlessly.
_SECONDS_MIN = 0.001


class ByteRate:
    """Counts bytes against a limit; times are monotonic seconds."""

    __slots__ = ("_total", "_windows", "limit", "window_count", "window_seconds")

    def __init__(self, *, limit: int = UNLIMITED, window_seconds: float = 1.0, window_count: int = 11) -> None:
        # In bytes per second.
        self.limit = limit
        self.window_seconds = window_seconds
        self.window_count = window_count
        # [start time, bytes] of at most `window_count` windows.
        self._windows: deque[list[float]] = deque()
        self._total = 0.0

    def record(self, size_bytes: int, now: float) -> None:
        self._drop_old_windows(now)
        if not self._windows or now - self._windows[-1][0] >= self.window_seconds:
            self._windows.append([now, 0.0])
        self._windows[-1][1] += size_bytes
        self._total += size_bytes

    def rate(self, now: float) -> float:
        """The current rate in bytes per second."""
        self._drop_old_windows(now)
        return self._total / self._elapsed(now)

    def is_exceeded(self, now: float) -> bool:
        return self.limit != UNLIMITED and self.rate(now) > self.limit

    def excess_seconds(self, now: float) -> float:
        """The time until the rate is within the limit; 0 if it is already."""
        if not self.is_exceeded(now):
            return 0.0
        if self.limit == 0:
            return self.window_seconds
        # Waiting extends the time over which the same bytes are counted; after all windows, no bytes count any more.
        seconds = self._total / self.limit - self._elapsed(now)
        return max(_SECONDS_MIN, min(seconds, self.window_seconds * self.window_count))

    def _elapsed(self, now: float) -> float:
        return max(now - self._windows[0][0], self.window_seconds) if self._windows else self.window_seconds

    def _drop_old_windows(self, now: float) -> None:
        oldest = now - self.window_seconds * self.window_count
        while self._windows and self._windows[0][0] <= oldest:
            self._total -= self._windows.popleft()[1]
