"""The pause before a node that has ended is restarted: a second, and twice the time whenever it ends soon again."""

from __future__ import annotations

__all__ = ["Restarts"]

FIRST_SECONDS = 1.0
SECONDS_MAX = 60.0
# After this time in the state ready, a node counts as recovered.
CALM_SECONDS = 120.0


class Restarts:
    """The restarts of one node."""

    __slots__ = ("_next_seconds", "count")

    def __init__(self) -> None:
        self._next_seconds = FIRST_SECONDS
        self.count = 0

    def pause(self, ready_seconds: float) -> float:
        """The pause before the next start. `ready_seconds` is how long the node was ready; 0 if it never was."""
        if ready_seconds >= CALM_SECONDS:
            self._next_seconds = FIRST_SECONDS
        self.count += 1
        pause, self._next_seconds = self._next_seconds, min(2 * self._next_seconds, SECONDS_MAX)
        return pause
