"""Parked requests: requests that cannot be answered yet, and the events that wake them.

A fetch without records to read and a produce that waits for followers are *parked*: each is in a `WaitList` of every
partition it waits for, and has one timer for its timeout. An append, a new high watermark, the loss of leadership or
the deletion of the topic wakes the parked requests of a partition. Woken requests are retried together at the end of
the loop's turn, so that ten appends in one turn cost a parked fetch one read and its client one response.

A parked request holds no records in memory: a fetch knows offsets, and reads again when it is woken.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from ottla.model.deferred import Deferred
from ottla.model.ports import Scheduler, Timer

__all__ = ["PARKED_MAX", "Parked", "Parking", "WaitList"]

# A parked request has a connection, and a connection answers in order. So this limit is far beyond `max.connections`,
# and only a last line of defence: beyond it a request is answered as if it had timed out.
PARKED_MAX = 100_000

T = TypeVar("T")


class Parking:
    """All parked requests of a broker. Retries woken requests."""

    __slots__ = ("_ready", "_retry_scheduled", "parked", "parked_max", "retries", "scheduler", "timeouts")

    def __init__(self, scheduler: Scheduler, *, parked_max: int = PARKED_MAX) -> None:
        self.scheduler = scheduler
        self.parked_max = parked_max
        self.parked = 0
        self.retries = 0
        self.timeouts = 0
        self._ready: deque[Parked[Any]] = deque()
        self._retry_scheduled = False

    @property
    def is_full(self) -> bool:
        return self.parked >= self.parked_max

    def wake(self, parked: Parked[Any]) -> None:
        """The request is retried after the current callback."""
        if parked.is_woken:
            return
        parked.is_woken = True
        self._ready.append(parked)
        if not self._retry_scheduled:
            self._retry_scheduled = True
            self.scheduler.call_soon(self._retry)

    def _retry(self) -> None:
        ready, self._ready = self._ready, deque()
        self._retry_scheduled = False
        try:
            while ready:
                parked = ready.popleft()
                parked.is_woken = False
                if parked.is_parked:
                    self.retries += 1
                    parked.attempt(parked.retry)
        finally:
            # One request has failed, and its exception goes to the loop. The remaining requests are retried later.
            for parked in ready:
                parked.is_woken = False
                self.wake(parked)


class Parked(Generic[T]):
    """A request that may have to wait. A subclass defines what it waits for."""

    __slots__ = ("answer", "is_parked", "is_woken", "parking", "timer")

    def __init__(self, parking: Parking) -> None:
        self.parking = parking
        self.is_parked = False
        self.is_woken = False
        self.timer: Timer | None = None
        self.answer: Deferred[T] | None = None

    def retry(self) -> None:
        """Called after a wake-up: responds with `unpark`, or keeps waiting."""
        raise NotImplementedError

    @property
    def is_out_of_time(self) -> bool:
        """Whether the end of the wait counts as a timeout. It does not for a gathering fetch, which has records."""
        return True

    def on_timeout(self) -> None:
        """Called when the wait is over: responds with `unpark`."""
        raise NotImplementedError

    def on_readable(self, size_bytes: int) -> None:  # noqa: ARG002
        """A partition has about this many more readable bytes."""
        self.parking.wake(self)

    def leave(self) -> None:
        """Removes the request from the wait lists of its partitions."""
        raise NotImplementedError

    def park(self, wait_ms: int) -> Deferred[T]:
        """The subclass has filled the wait lists. The request waits until `unpark` completes the returned Deferred."""
        assert not self.is_parked, "a request is parked once"
        self.is_parked = True
        self.parking.parked += 1
        self.timer = self.parking.scheduler.call_later(wait_ms / 1000, self._time_out)
        self.answer = Deferred()
        return self.answer

    def wait_again(self, wait_ms: int) -> None:
        """Restarts the timer with another timeout."""
        if self.timer is not None:
            self.timer.cancel()
        self.timer = self.parking.scheduler.call_later(wait_ms / 1000, self._time_out)

    def unpark(self, value: T) -> None:
        assert self.is_parked, "the request is parked"
        self._end()
        assert self.answer is not None
        self.answer.resolve(value)

    def fail(self, error: BaseException) -> None:
        assert self.is_parked, "failed a request that does not wait"
        self._end()
        assert self.answer is not None
        self.answer.fail(error)

    def attempt(self, step: Callable[[], None]) -> None:
        """Runs one step. A defect fails this request, and no other parked request."""
        try:
            step()
        except Exception as defect:
            if not self.is_parked:
                raise
            self.fail(defect)

    def _end(self) -> None:
        self.is_parked = False
        self.parking.parked -= 1
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None
        self.leave()

    def _time_out(self) -> None:
        self.timer = None
        if self.is_parked:
            self.parking.timeouts += self.is_out_of_time
            self.attempt(self.on_timeout)


class WaitList(dict[Parked[Any], None]):
    """The requests that wait for one kind of event of one partition, in the order in which they were parked.

    It is a dictionary so that the order is kept, and `add` is the dictionary's own method so that it costs no frame.
    """

    __slots__ = ()

    add = dict.setdefault

    def discard(self, parked: Parked[Any]) -> None:
        self.pop(parked, None)
