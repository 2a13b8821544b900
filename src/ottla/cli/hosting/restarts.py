"""When a node that has ended is started again: after a second, and after twice the time each time it ends soon."""

from __future__ import annotations

__all__ = ["Restarts"]

FIRST_SECONDS = 1.0
SECONDS_MAX = 60.0
# A node that was ready for so long has recovered.
CALM_SECONDS = 120.0


class Restarts:
    """Of one node."""

    __slots__ = ("_next_seconds", "count")

    def __init__(self) -> None:
        self._next_seconds = FIRST_SECONDS
        self.count = 0

    def pause(self, ready_seconds: float) -> float:
        """How long to wait, after the node was ready for so long; 0 if it never was."""
        if ready_seconds >= CALM_SECONDS:
            self._next_seconds = FIRST_SECONDS
        self.count += 1
        pause, self._next_seconds = self._next_seconds, min(2 * self._next_seconds, SECONDS_MAX)
        return pause
