"""Runs long work on the event loop's thread in slices, between which the loop serves other requests.

Some requests are so large that they would block the loop for a second. Their work is a generator that pauses every few
milliseconds. Each turn of the loop runs one generator until its next pause. Several generators take turns, so that ten
of them delay other requests no longer than one does.

A generator must expect that the node's state has changed after each pause.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from itertools import islice
from typing import Any, TypeVar

from ottla.model.deferred import Deferred
from ottla.model.ports import Scheduler

__all__ = ["Admission", "Slices", "finish", "in_portions"]

T = TypeVar("T")


class Slices:
    """The queue of a node's generators. Its length is limited by its callers: one generator per request at most."""

    __slots__ = ("_is_scheduled", "_queue", "_scheduler")

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._queue: deque[tuple[Generator[None, None, Any], Deferred[Any]]] = deque()
        self._is_scheduled = False

    def __len__(self) -> int:
        return len(self._queue)

    def run(self, work: Generator[None, None, T]) -> Deferred[T]:
        """Starts the generator in a later turn; completes with its return value or exception."""
        done: Deferred[T] = Deferred()
        self._queue.append((work, done))
        self._schedule()
        return done

    def start(self, work: Generator[None, None, T]) -> Deferred[T]:
        """`run`, with the first slice in this turn."""
        try:
            next(work)
        except StopIteration as end:
            return Deferred.resolved(end.value)
        except Exception as error:  # noqa: BLE001 (the holder of the Deferred gets it)
            return Deferred.failed(error)
        return self.run(work)

    def _schedule(self) -> None:
        if self._queue and not self._is_scheduled:
            self._is_scheduled = True
            self._scheduler.call_soon(self._run_slice)

    def _run_slice(self) -> None:
        self._is_scheduled = False
        work, done = self._queue.popleft()
        try:
            next(work)
        except StopIteration as end:
            self._schedule()
            done.resolve(end.value)
        except Exception as error:  # noqa: BLE001 (the holder of `done` gets it)
            self._schedule()
            done.fail(error)
        else:
            self._queue.append((work, done))
            self._schedule()


def finish(work: Generator[None, None, T]) -> T:
    """The result of the generator without pauses, for callers that have no loop or cannot wait."""
    while True:
        try:
            next(work)
        except StopIteration as end:
            result: T = end.value
            return result


def in_portions(items: Iterable[T], size: int) -> Iterator[list[T]]:
    """The items in lists of `size`, for a generator that pauses after each list."""
    assert size > 0
    remaining = iter(items)
    while portion := list(islice(remaining, size)):
        yield portion


class Admission:
    """Admits a few tasks at a time, in the order of arrival. The caller bounds the number of waiting tasks."""

    __slots__ = ("_admitted", "_admitted_max", "_waiting")

    def __init__(self, admitted_max: int) -> None:
        self._admitted_max = admitted_max
        self._admitted = 0
        self._waiting: deque[Callable[[], object]] = deque()

    def enter(self, start: Callable[[], object]) -> None:
        """Calls `start` now, or when enough other tasks have left."""
        if self._admitted < self._admitted_max:
            self._admitted += 1
            start()
        else:
            self._waiting.append(start)

    def leave(self) -> None:
        """Called when an admitted task has ended."""
        if self._waiting:
            self._waiting.popleft()()
        else:
            self._admitted -= 1
