"""Bounds the work for strangers, clients that are not authenticated, to a short time in each turn of the loop.

Any client can ask for a TLS handshake, which computes for a third of a millisecond, and can send its login byte by
byte. When a turn has spent its time on such work, further steps wait in a queue, and connections that are open are
served before the next step. The queue is served in the order of arrival, so every stranger is served in the end.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from time import perf_counter
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from ottla.model.ports import Scheduler

__all__ = ["SECONDS_PER_TURN", "StrangerTurns"]

# No further step begins in a turn after this time. A produce request takes about as long.
SECONDS_PER_TURN: Final = 0.00025


class StrangerTurns:
    """Shared by the listeners of a loop."""

    __slots__ = ("_is_planned", "_now", "_scheduler", "_seconds_left", "_waiting")

    def __init__(self, scheduler: Scheduler, *, now: Callable[[], float] = perf_counter) -> None:
        self._scheduler = scheduler
        self._now = now
        self._seconds_left = SECONDS_PER_TURN
        self._waiting: deque[Callable[[], object]] = deque()
        # True if the next turn is planned, in which time is available again.
        self._is_planned = False

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    def run(self, step: Callable[[], object]) -> bool:
        """Runs the step now, or returns False and runs it in a later turn."""
        if not self._is_planned:
            self._is_planned = True
            self._scheduler.call_soon(self._begin_turn)
        if self._waiting or self._seconds_left <= 0:
            self._waiting.append(step)
            return False
        self._run(step)
        return True

    def _begin_turn(self) -> None:
        self._seconds_left = SECONDS_PER_TURN
        waiting = self._waiting
        self._is_planned = bool(waiting)
        if waiting:
            # Planned before the steps, because an exception in a step must not end the turns.
            self._scheduler.call_soon(self._begin_turn)
        while waiting and self._seconds_left > 0:
            self._run(waiting.popleft())

    def _run(self, step: Callable[[], object]) -> None:
        began = self._now()
        try:
            step()
        finally:
            self._seconds_left -= self._now() - began
