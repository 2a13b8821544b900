"""The limits that a client sets for a fetch."""

from __future__ import annotations

from ottla.replica.gathering import GATHERED_BYTES, GATHERING_MS

__all__ = ["FetchLimits"]

# The parked fetch of a client that went away stays until its timeout, so a client may not ask for days.
WAIT_MS_MAX = 600_000


class FetchLimits:
    """The size limits of a fetch, and how long it may wait."""

    __slots__ = ("max_bytes", "max_wait_ms", "min_bytes")

    def __init__(self, *, max_bytes: int, min_bytes: int, max_wait_ms: int) -> None:
        self.max_bytes = max_bytes
        # A minimum above the maximum could never be reached.
        self.min_bytes = min(min_bytes, max_bytes)
        self.max_wait_ms = min(max_wait_ms, WAIT_MS_MAX)

    def gathering(self) -> FetchLimits:
        """The limits of a follower's fetch that waits a moment for more records: see `gathering`."""
        return FetchLimits(
            max_bytes=self.max_bytes,
            min_bytes=max(self.min_bytes, GATHERED_BYTES),
            max_wait_ms=min(self.max_wait_ms, GATHERING_MS),
        )
