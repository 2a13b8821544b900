"""The end of the event loop's turn, with one callback for all shards that have work in the turn.

Twenty commits that arrive together may belong to twenty shards. A callback for each shard would cost more than its
work. Turns are counted, so that a shard can check whether it has written in the current turn.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from ottla.model.ports import Scheduler

__all__ = ["Turn"]


class Turn:
    """The turn of the loop, shared by all shards of a runtime."""

    __slots__ = ("_actions", "_is_planned", "_scheduler", "number")

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._actions: deque[Callable[[], object]] = deque()
        self._is_planned = False
        # Counts only the turns in which `at_end` was called.
        self.number = 0

    def at_end(self, action: Callable[[], object] | None = None) -> None:
        """Runs the action when the turn ends. Without an action the turn is only counted."""
        if action is not None:
            self._actions.append(action)
        if not self._is_planned:
            self._is_planned = True
            self._scheduler.call_soon(self._end)

    def _end(self) -> None:
        # Actions that are added from here on belong to the next turn.
        actions, self._actions = self._actions, deque()
        self._is_planned = False
        try:
            while actions:
                actions.popleft()()
        finally:
            self.number += 1
            # An action raised, which the event loop reports. The remaining actions run in the next turn.
            for action in actions:
                self.at_end(action)
