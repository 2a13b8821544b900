"""Virtual time: a queue of events, run one at a time, in an order that only the seed determines.

Everything that happens in a simulation is an event of this queue: a timer, a frame that arrives, a finished worker, a
fault. Time stands still while an event runs and then jumps to the next event, so that idle minutes cost nothing. Two
events of the same microsecond run in the order in which they were planned.

The kernel keeps a digest of everything it ran. Two runs of one seed have the same digest. The tests compare digests to
show that a run depends on nothing but its seed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from heapq import heappop, heappush
from random import Random
from typing import Any

__all__ = ["SECOND_US", "Event", "Kernel", "TimeStandsStill"]

SECOND_US = 1_000_000

# Events within one microsecond. More than this is a loop in which time does not advance.
EVENTS_AT_ONCE_MAX = 200_000

_DIGEST_MASK = 0xFFFF_FFFF_FFFF_FFFF


class TimeStandsStill(Exception):
    """A loop runs without advancing time. On a real node it would use a whole core."""


class Event:
    """A planned callback. After `cancel` it never runs."""

    __slots__ = ("arguments", "callback")

    def __init__(self, callback: Callable[..., object] | None, arguments: tuple[Any, ...]) -> None:
        self.callback = callback
        self.arguments = arguments

    def cancel(self) -> None:
        self.callback = None
        self.arguments = ()


class Kernel:
    """The clock, the event queue and the source of randomness of one simulation."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.now_us = 0
        self.events_run = 0
        self.digest = 0
        # The number of events by kind: shows what a run covered.
        self.counts: Counter[str] = Counter()
        # Called with every line of the trace; None if no trace is wanted.
        self.on_trace: Callable[[str], object] | None = None
        self._queue: list[tuple[int, int, Event]] = []
        self._sequence = 0
        self._events_at_once = 0

    @property
    def now_seconds(self) -> float:
        return self.now_us / SECOND_US

    def random_for(self, name: str) -> Random:
        """The random stream of this name. Every user has its own, so that a new draw does not change other streams."""
        return Random(f"{self.seed}/{name}")

    def after(self, delay_us: int, callback: Callable[..., object], *arguments: Any) -> Event:
        event = Event(callback, arguments)
        self._sequence += 1
        heappush(self._queue, (self.now_us + delay_us if delay_us > 0 else self.now_us, self._sequence, event))
        return event

    def run_until(self, end_us: int, is_done: Callable[[], bool] | None = None) -> bool:
        """Runs events up to a time. Returns True if it ended early because `is_done`, called after every event, did."""
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
            raise TimeStandsStill(
                f"{EVENTS_AT_ONCE_MAX} events ran at {self.now_seconds} s without advancing time: "
                "a callback plans itself again without a delay"
            )

    def trace(self, kind: str, text: str = "", number: int = 0) -> None:
        """Counts an event of this kind and adds it to the digest, with `number` (a checksum, for example)."""
        self.counts[kind] += 1
        self.digest = hash((self.digest, len(kind), len(text), number)) & _DIGEST_MASK
        if self.on_trace is not None:
            self.on_trace(f"{self.now_us / SECOND_US:12.6f} {kind:<24} {text}")
