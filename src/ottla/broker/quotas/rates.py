"""Rates of use, and the times to wait when a rate exceeds its limit.

There are two measures, with the arithmetic of Apache Kafka, so that the same quota allows the same traffic.

`WindowedRate` is for a stream: bytes, connections, time. Amounts are counted in windows of (usually) one second. The
last windows count, and together they are taken to last at least as long as all of them but one. So a client that was
idle may use the amount of ten seconds at once, and after more than that it waits until the rate is within the limit.

`TokenBucket` is for few and large operations, such as the creation of a topic with many partitions (KIP-599). Tokens
arrive at the rate of the quota, up to the amount of all windows. An operation may overdraw the bucket, and the next
operation waits until there is a token again.

Both are plain arithmetic on given times, in monotonic seconds.
"""

from __future__ import annotations

from collections import deque

__all__ = ["TokenBucket", "WindowedRate"]


class _Window:
    __slots__ = ("last", "start", "value")

    def __init__(self, start: float) -> None:
        self.start = start
        # The time of the last amount.
        self.last = start
        self.value = 0.0


class WindowedRate:
    __slots__ = ("_newest", "_newest_end", "_total", "_windows", "window_count", "window_seconds")

    def __init__(self, *, window_seconds: float, window_count: int) -> None:
        self.window_seconds = window_seconds
        self.window_count = window_count
        self._windows: deque[_Window] = deque()
        # The last of the windows, and its end.
        self._newest = _Window(0.0)
        self._newest_end = float("-inf")
        self._total = 0.0

    @property
    def span_seconds(self) -> float:
        """The longest time for which an amount counts."""
        return self.window_seconds * (self.window_count + 1)

    def record(self, amount: float, now: float) -> None:
        """Counts an amount. A negative amount takes back an earlier one."""
        self._forget(now)
        windows = self._windows
        if not windows or now - windows[-1].start >= self.window_seconds:
            self._newest, self._newest_end = _Window(now), now + self.window_seconds
            windows.append(self._newest)
        window = self._newest
        window.value += amount
        window.last = now
        self._total += amount

    def charge(self, amount: float, limit: float, now: float) -> float:
        """`record` and `excess_seconds` in one step: most amounts fall into the newest window, within the limit."""
        if now >= self._newest_end:
            self.record(amount, now)
            return self.excess_seconds(limit, now)
        newest = self._newest
        newest.value += amount
        newest.last = now
        self._total = total = self._total + amount
        # Windows that are too old would only add to the total.
        if total <= limit * self.window_seconds * (self.window_count - 1):
            return 0.0
        return self.excess_seconds(limit, now)

    def rate(self, now: float) -> float:
        """The amount per second."""
        self._forget(now)
        return self._total / self._elapsed(now)

    def is_unused(self, now: float) -> bool:
        """True if no amount counts at this time."""
        self._forget(now)
        return self._total <= 0

    def has_only(self, amount: float) -> bool:
        """True if nothing but this amount, which was recorded last, counts."""
        return self._total - amount <= 0

    def excess_seconds(self, limit: float, now: float) -> float:
        """The time until the rate is within the limit; 0 if it is within the limit now."""
        self._forget(now)
        # Waiting spreads the same amount over a longer time.
        return max(self._total / limit - self._elapsed(now), 0.0)

    def _elapsed(self, now: float) -> float:
        elapsed = now - self._windows[0].start if self._windows else 0.0
        missing = self.window_count - 1 - int(elapsed / self.window_seconds)
        return max(elapsed + max(missing, 0) * self.window_seconds, 0.001)

    def _forget(self, now: float) -> None:
        """Drops the windows whose last amount is too old; the start of a window may be older than that."""
        oldest = now - self.window_seconds * self.window_count
        windows = self._windows
        while windows and windows[0].last <= oldest:
            self._total -= windows.popleft().value
        if not windows:
            # Rounding errors of earlier sums go, too.
            self._total = 0.0
            self._newest_end = float("-inf")


class TokenBucket:
    __slots__ = ("_tokens", "_updated", "burst_seconds", "limit")

    def __init__(self, limit: float, *, burst_seconds: float, now: float) -> None:
        """The bucket is full at first. It holds the tokens of `burst_seconds`."""
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
        """The time until the bucket is no longer overdrawn; 0 if it is not overdrawn."""
        self._refill(now)
        return max(-self._tokens / self.limit, 0.0)

    def is_full(self, now: float) -> bool:
        return self.tokens(now) >= self.limit * self.burst_seconds

    def _refill(self, now: float) -> None:
        self._tokens = min(self._tokens + self.limit * (now - self._updated), self.limit * self.burst_seconds)
        self._updated = now
