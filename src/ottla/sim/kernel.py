"""Virtual time: a queue of events, run one at a time, in an order that the seed alone decides.

Everything that happens in a simulation is an event of this queue: a timer, a frame that arrives, a worker that has
finished, a fault. Time stands still while an event runs and jumps to the next one, so that idle minutes cost nothing.
Two events of the same microsecond run in the order in which they were planned.

The kernel keeps a digest of everything it ran. Two runs of one seed have the same digest, which is how the tests know
that nothing but the seed decides.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from heapq import heappop, heappush
from random import Random
from typing import Any

__all__ = ["SECOND_US", "Event", "Kernel", "TimeStandsStill"]

SECOND_US = 1_000_000

# Events at one and the same microsecond; more than this is a loop that never lets time go on.
EVENTS_AT_ONCE_MAX = 200_000

_DIGEST_MASK = 0xFFFF_FFFF_FFFF_FFFF


class TimeStandsStill(Exception):
    """A loop that takes no time: a real node would burn a core in it."""


class Event:
    """A callback that waits for its time; `cancel` makes it never come."""

    __slots__ = ("arguments", "callback")

    def __init__(self, callback: Callable[..., object] | None, arguments: tuple[Any, ...]) -> None:
        self.callback = callback
        self.arguments = arguments

    def cancel(self) -> None:
        self.callback = None
        self.arguments = ()


class Kernel:
    """The clock, the queue and the source of chance of one simulation."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.now_us = 0
        self.events_run = 0
        self.digest = 0
        # What happened, by kind: shows what a run covered.
        self.counts: Counter[str] = Counter()
        # Called with every line of the trace, when somebody wants to read it.
        self.on_trace: Callable[[str], object] | None = None
        self._queue: list[tuple[int, int, Event]] = []
        self._sequence = 0
        self._events_at_once = 0

    @property
    def now_seconds(self) -> float:
        return self.now_us / SECOND_US

    def random_for(self, name: str) -> Random:
        """A stream of its own for each user, so that one more draw here does not change what is drawn there."""
        return Random(f"{self.seed}/{name}")

    def after(self, delay_us: int, callback: Callable[..., object], *arguments: Any) -> Event:
        event = Event(callback, arguments)
        self._sequence += 1
        heappush(self._queue, (self.now_us + delay_us if delay_us > 0 else self.now_us, self._sequence, event))
        return event

    def run_until(self, end_us: int, is_done: Callable[[], bool] | None = None) -> bool:
        """Runs events up to a time; ends early, and says so, when `is_done` (asked after every event) says yes."""
        queue = self._queue
        while queue and queue[0][0] <= end_us:
            time_us, sequence, event = heappop(queue)
            callback = event.callback
            if callback is None:
                continue
            self._advance(time_us)
            self.digest = hash((self.digest, time_us, sequence)) & _DIGEST_MASK
            self.events_run += 1
            event.callback = None
            callback(*event.arguments)
            if is_done is not None and is_done():
                return True
        self._advance(end_us)
        return False

    def _advance(self, time_us: int) -> None:
        if time_us != self.now_us:
            assert time_us > self.now_us
            self.now_us = time_us
            self._events_at_once = 0
        self._events_at_once += 1
        if self._events_at_once >= EVENTS_AT_ONCE_MAX:
            raise TimeStandsStill("something plans itself again and again, without letting time go on")

    def trace(self, kind: str, text: str = "", number: int = 0) -> None:
        """Notes that something happened; `number` (a checksum, say) goes into the digest too."""
        self.counts[kind] += 1
        self.digest = hash((self.digest, len(kind), len(text), number)) & _DIGEST_MASK
        if self.on_trace is not None:
            self.on_trace(f"{self.now_us / SECOND_US:12.6f} {kind:<24} {text}")
