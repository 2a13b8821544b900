"""`log.cleaner.io.max.bytes.per.second`, shared by all cleaner workers."""

from __future__ import annotations

__all__ = ["Throttle"]

_DEBT_SECONDS_MAX = 60.0
"""The longest delay after a step, whatever its size."""


class Throttle:
    """The bytes of a step delay the next step, whichever worker runs it."""

    __slots__ = ("_free_at", "bytes_per_second")

    def __init__(self, *, bytes_per_second: float) -> None:
        self.bytes_per_second = bytes_per_second
        self._free_at = 0.0

    def delay_seconds(self, bytes_moved: int, *, now: float) -> float:
        """The time to wait after moving this number of bytes. `now` is monotonic."""
        seconds = bytes_moved / self.bytes_per_second if self.bytes_per_second > 0 else _DEBT_SECONDS_MAX
        self._free_at = min(max(self._free_at, now) + seconds, now + _DEBT_SECONDS_MAX)
        return self._free_at - now
