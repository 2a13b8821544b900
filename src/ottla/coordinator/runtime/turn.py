"""The end of the loop's turn, once for all shards.

Twenty commits that arrive together may be for twenty shards: planning a callback for each would cost more than what it
does. The turns are counted, so that a shard can tell whether it has written in this one before.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from ottla.model.ports import Scheduler

__all__ = ["Turn"]


class Turn:
    """One for all shards of a runtime."""

    __slots__ = ("_actions", "_is_planned", "_scheduler", "number")

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._actions: deque[Callable[[], object]] = deque()
        self._is_planned = False
        # Counts only turns in which somebody asked for their end.
        self.number = 0

    def at_end(self, action: Callable[[], object] | None = None) -> None:
        """Has the action done when the turn ends; without one, the turn is merely counted."""
        if action is not None:
            self._actions.append(action)
        if not self._is_planned:
            self._is_planned = True
            self._scheduler.call_soon(self._end)

    def _end(self) -> None:
        # What is asked for from here on belongs to the next turn.
        actions, self._actions = self._actions, deque()
        self._is_planned = False
        try:
            while actions:
                actions.popleft()()
        finally:
            self.number += 1
            # One has failed, which the loop is told: the others are not to blame.
            for action in actions:
                self.at_end(action)
