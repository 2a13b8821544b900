"""How fast somebody uses something, and how long they have to wait when that is too fast.

Two measures, with the arithmetic of Apache Kafka, so that the same quota lets the same traffic pass:

`WindowedRate` is for a stream: bytes, connections, time. What is used is counted in windows of (usually) a second; the
last few of them count, and together they are taken to last at least all of them but one. So who was silent may use ten
seconds' worth at once, and pays for more by waiting until the time that has passed makes up for it.

`TokenBucket` is for few and large things, as the creation of a topic with many partitions (KIP-599). Tokens come in at
the rate of the quota, up to what all windows hold, and the last one may be overdrawn: what was begun is done, and the
next has to wait until there is a token again.

Both are plain arithmetic on the times they are given, in monotonic seconds.
"""

from __future__ import annotations

from collections import deque

__all__ = ["TokenBucket", "WindowedRate"]


class _Window:
    __slots__ = ("last", "start", "value")

    def __init__(self, start: float) -> None:
        self.start = start
        # When something was counted last.
        self.last = start
        self.value = 0.0


class WindowedRate:
    __slots__ = ("_total", "_windows", "window_count", "window_seconds")

    def __init__(self, *, window_seconds: float, window_count: int) -> None:
        self.window_seconds = window_seconds
        self.window_count = window_count
        self._windows: deque[_Window] = deque()
        self._total = 0.0

    @property
    def span_seconds(self) -> float:
        """How long it takes at most until something is forgotten that was counted."""
        return self.window_seconds * (self.window_count + 1)

    def record(self, amount: float, now: float) -> None:
        """A negative amount takes back what was counted before."""
        self._forget(now)
        windows = self._windows
        if not windows or now - windows[-1].start >= self.window_seconds:
            windows.append(_Window(now))
        window = windows[-1]
        window.value += amount
        window.last = now
        self._total += amount

    def rate(self, now: float) -> float:
        """By the second."""
        self._forget(now)
        return self._total / self._elapsed(now)

    def is_unused(self, now: float) -> bool:
        """Whether nothing is counted at all."""
        self._forget(now)
        return self._total <= 0

    def excess_seconds(self, limit: float, now: float) -> float:
        """How long to wait until the rate is within the limit; 0 when it is."""
        self._forget(now)
        # Waiting makes the time longer in which the same amount was used.
        return max(self._total / limit - self._elapsed(now), 0.0)

    def _elapsed(self, now: float) -> float:
        elapsed = now - self._windows[0].start if self._windows else 0.0
        missing = self.window_count - 1 - int(elapsed / self.window_seconds)
        return max(elapsed + max(missing, 0) * self.window_seconds, 0.001)

    def _forget(self, now: float) -> None:
        """A window counts as long as something in it does; it may have begun before those that count."""
        oldest = now - self.window_seconds * self.window_count
        windows = self._windows
        while windows and windows[0].last <= oldest:
            self._total -= windows.popleft().value
        if not windows:
            # Nothing of former sums' roundings is left either.
            self._total = 0.0


class TokenBucket:
    __slots__ = ("_tokens", "_updated", "burst_seconds", "limit")

    def __init__(self, limit: float, *, burst_seconds: float, now: float) -> None:
        """It is full at first, with what comes in in `burst_seconds`."""
        self.limit = limit
        self.burst_seconds = burst_seconds
        self._tokens = limit * burst_seconds
        self._updated = now

    def tokens(self, now: float) -> float:
        self._refill(now)
        return self._tokens

    def record(self, amount: float, now: float) -> None:
        self._refill(now)
        self._tokens = min(self._tokens - amount, self.limit * self.burst_seconds)

    def excess_seconds(self, now: float) -> float:
        """How long to wait until it is not overdrawn any more; 0 when it is not."""
        self._refill(now)
        return max(-self._tokens / self.limit, 0.0)

    def is_full(self, now: float) -> bool:
        return self.tokens(now) >= self.limit * self.burst_seconds

    def _refill(self, now: float) -> None:
        self._tokens = min(self._tokens + self.limit * (now - self._updated), self.limit * self.burst_seconds)
        self._updated = now
