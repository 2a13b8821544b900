"""`log.cleaner.io.max.bytes.per.second`, shared by all cleaner workers."""

from __future__ import annotations

__all__ = ["Throttle"]

_DEBT_SECONDS_MAX = 60.0
"""However large a step was, the next one is not put off longer than this."""


class Throttle:
    """Every step pays for its bytes with time; whoever comes next waits until they are paid for."""

    __slots__ = ("_free_at", "bytes_per_second")

    def __init__(self, *, bytes_per_second: float) -> None:
        self.bytes_per_second = bytes_per_second
        self._free_at = 0.0

    def delay_seconds(self, bytes_moved: int, *, now: float) -> float:
        """How long to wait after moving so many bytes; `now` is monotonic."""
        seconds = bytes_moved / self.bytes_per_second if self.bytes_per_second > 0 else _DEBT_SECONDS_MAX
        self._free_at = min(max(self._free_at, now) + seconds, now + _DEBT_SECONDS_MAX)
        return self._free_at - now
