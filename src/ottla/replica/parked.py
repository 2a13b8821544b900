"""Requests that cannot be answered yet, and what wakes them.

A fetch with nothing to read and a produce that waits for followers are *parked*: they hang on every partition that
may move them on, with one timer for the longest they may wait. Whoever moves a partition on (an append, a high
watermark, the loss of leadership, the deletion of the topic) marks them as woken; they are looked at again together, at
the end of the loop's turn, so that ten appends in one turn cost a parked fetch one read and its client one answer.

Nobody holds records in memory while waiting: a parked fetch knows offsets and reads again when it is woken.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from ottla.model.deferred import Deferred
from ottla.model.ports import Scheduler, Timer

__all__ = ["PARKED_MAX", "Parked", "Parking", "WaitList"]

# Every waiting request has a connection behind it, and a connection answers in order: this is far beyond what
# `max.connections` lets in, and only a last line of defence. Beyond it a request is answered as if its time was up.
PARKED_MAX = 100_000

T = TypeVar("T")


class Parking:
    """Counts the parked requests of a broker and retries those that were woken."""

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
        """Has the request looked at again once the current callback is over."""
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
            # One has failed, which the loop is told: the others are not to blame.
            for parked in ready:
                parked.is_woken = False
                self.wake(parked)


class Parked(Generic[T]):
    """One request that may have to wait; a subclass says for what."""

    __slots__ = ("answer", "is_parked", "is_woken", "parking", "timer")

    def __init__(self, parking: Parking) -> None:
        self.parking = parking
        self.is_parked = False
        self.is_woken = False
        self.timer: Timer | None = None
        self.answer: Deferred[T] | None = None

    def retry(self) -> None:
        """Called after a wake-up: answers with `unpark`, or goes on waiting."""
        raise NotImplementedError

    @property
    def is_out_of_time(self) -> bool:
        """Whether the end of the waiting is a time-out, and not a moment after which there is something to tell."""
        return True

    def on_timeout(self) -> None:
        """Called when the request has waited long enough: answers with `unpark`."""
        raise NotImplementedError

    def on_readable(self, size_bytes: int) -> None:  # noqa: ARG002
        """A partition has about so many more bytes to read: worth another look."""
        self.parking.wake(self)

    def leave(self) -> None:
        """Takes the request off every partition it hangs on."""
        raise NotImplementedError

    def park(self, wait_ms: int) -> Deferred[T]:
        """The subclass has hung the request on its partitions; from here on it is answered by `unpark`."""
        assert not self.is_parked, "parked twice"
        self.is_parked = True
        self.parking.parked += 1
        self.timer = self.parking.scheduler.call_later(wait_ms / 1000, self._time_out)
        self.answer = Deferred()
        return self.answer

    def wait_again(self, wait_ms: int) -> None:
        """From now on it waits for so long, whatever it has waited before."""
        assert self.timer is not None, "only who waits can wait again"
        self.timer.cancel()
        self.timer = self.parking.scheduler.call_later(wait_ms / 1000, self._time_out)

    def unpark(self, value: T) -> None:
        assert self.is_parked, "answered a request that does not wait"
        self._end()
        assert self.answer is not None
        self.answer.resolve(value)

    def fail(self, error: BaseException) -> None:
        assert self.is_parked, "failed a request that does not wait"
        self._end()
        assert self.answer is not None
        self.answer.fail(error)

    def attempt(self, step: Callable[[], None]) -> None:
        """Runs one step. A defect of ours ends this request with an error, and not those that wait beside it."""
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
    """The requests that wait for one kind of event of one partition, in the order in which they began to wait.

    It is a dictionary so that the order is kept, and `add` is the dictionary's own method so that it costs no frame.
    """

    __slots__ = ()

    add = dict.setdefault

    def discard(self, parked: Parked[Any]) -> None:
        self.pop(parked, None)
