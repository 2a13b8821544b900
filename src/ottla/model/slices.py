"""Long work on the loop's thread, done in slices between which everybody else is served.

Some requests are so large that they would keep the loop for a second. Their work is written as a generator that pauses
every few milliseconds. In each turn of the loop one such generator goes on until its next pause; when there are
several they take turns, so that ten of them together do not make anybody wait longer than one does.

Whoever writes such a generator has to expect that the world has changed after each pause.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator
from typing import Any, TypeVar

from ottla.model.deferred import Deferred
from ottla.model.ports import Scheduler

__all__ = ["Slices"]

T = TypeVar("T")


class Slices:
    """One for a node. The work is bounded by whoever brings it: one piece for each request, at most."""

    __slots__ = ("_is_planned", "_scheduler", "_under_way")

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._under_way: deque[tuple[Generator[None, None, Any], Deferred[Any]]] = deque()
        self._is_planned = False

    def __len__(self) -> int:
        return len(self._under_way)

    def run(self, work: Generator[None, None, T]) -> Deferred[T]:
        """What the generator returns in the end, or what it raises; it begins in one of the next turns."""
        done: Deferred[T] = Deferred()
        self._under_way.append((work, done))
        self._plan()
        return done

    def _plan(self) -> None:
        if self._under_way and not self._is_planned:
            self._is_planned = True
            self._scheduler.call_soon(self._turn)

    def _turn(self) -> None:
        self._is_planned = False
        work, done = self._under_way.popleft()
        try:
            next(work)
        except StopIteration as end:
            self._plan()
            done.resolve(end.value)
        except Exception as error:  # noqa: BLE001 (whoever holds `done` gets it)
            self._plan()
            done.fail(error)
        else:
            self._under_way.append((work, done))
            self._plan()
