"""A busy leader delays responses to followers for a moment, to send more records in each.

A response to a follower costs both brokers about the same, whatever its size. If a follower takes in many megabytes per
second, an immediate response has few of them, and the follower fetches again at once. So its fetch is *gathering*: the
leader waits for a moment, or until there are enough records. This pays only under a heavy load. Producers wait for
followers, so at a moderate rate the moment would be a large part of their latency, and save little.

- A fetch gathers if there are many records, and the follower has just got many per millisecond.
- A follower that is behind does not gather.
- Consumers do not gather: they choose their own wait (`fetch.min.bytes`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ottla.model.ports import Clock
    from ottla.replica.fetch_sessions import FetchedPartition, FetchSession

__all__ = [
    "BUSY_BYTES_PER_MS",
    "GATHERED_BYTES",
    "GATHERED_BYTES_MIN",
    "GATHERING_MS",
    "WINDOW_MS",
    "FollowerRate",
    "Gathering",
]

# From the first size on, a fetch has many records; from the second size on, it is answered at once.
GATHERED_BYTES_MIN = 16 * 1024
GATHERED_BYTES = 1024 * 1024
# The longest delay.
GATHERING_MS = 3
# A follower with this rate receives some 40 kB more in that time. The rate is measured over windows of this length.
BUSY_BYTES_PER_MS = 12_000
WINDOW_MS = 50


class FollowerRate:
    """The bytes per millisecond that one follower receives."""

    __slots__ = ("_began_ms", "_bytes", "_bytes_per_ms")

    def __init__(self) -> None:
        # The current window.
        self._began_ms = 0
        self._bytes = 0
        # In the window before.
        self._bytes_per_ms = 0

    def add(self, size: int, now_ms: int) -> None:
        """A response with this many bytes of records leaves."""
        elapsed_ms = now_ms - self._began_ms
        if elapsed_ms >= WINDOW_MS:
            self._bytes_per_ms = self._bytes // elapsed_ms
            self._began_ms, self._bytes = now_ms, 0
        self._bytes += size

    def is_busy(self, now_ms: int) -> bool:
        return self._bytes_per_ms >= BUSY_BYTES_PER_MS and now_ms - self._began_ms < 2 * WINDOW_MS


class Gathering:
    """Decides whether one fetch of a follower gathers."""

    __slots__ = ("_clock", "_rate", "has_begun")

    def __init__(self, session: FetchSession | None, clock: Clock) -> None:
        self._rate = None if session is None else session.rate
        self._clock = clock
        # A gathering fetch has records, so the end of its wait is not a timeout.
        self.has_begun = False

    def may_begin(self, size: int) -> bool:
        """Whether the records are many, and the follower has just got many: `begins` decides the rest."""
        return (
            size >= GATHERED_BYTES_MIN
            and not self.has_begun
            and self._rate is not None
            and self._rate.is_busy(self._monotonic_ms())
        )

    def begins(self, results: list[FetchedPartition], size: int, *, max_wait_ms: int) -> bool:
        """Whether a fetch with these results waits for more records."""
        if not self.may_begin(size) or max_wait_ms <= GATHERING_MS or any(map(_is_full, results)):
            return False
        self.has_begun = True
        return True

    def on_response(self, size: int) -> None:
        """The response of the fetch has this many bytes of records."""
        if self._rate is not None:
            self._rate.add(size, self._monotonic_ms())

    def _monotonic_ms(self) -> int:
        return int(self._clock.monotonic() * 1000)


def _is_full(result: FetchedPartition) -> bool:
    """Whether the partition may have more records than the fetch asked for: its follower is behind."""
    entry, data = result
    return data.records is not None and 2 * len(data.records) > entry.max_bytes
