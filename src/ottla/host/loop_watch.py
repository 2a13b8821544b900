"""The load of the event loop: the delay of its timers, and its idle time.

A timer fires twice a second. Its delay is the time that a request would have waited for the loop at that moment; the
CPU time of the thread over the last minute, divided by the elapsed time, is the load.
"""

from __future__ import annotations

import time
from collections import deque
from typing import TYPE_CHECKING

from ottla.broker.statistics import TIME_PLACES

if TYPE_CHECKING:
    from ottla.host.loop import EventLoop
    from ottla.model.ports import Timer

__all__ = ["LoopWatch"]

INTERVAL_SECONDS = 0.5
# The samples of a minute.
SAMPLES_MAX = 120


class LoopWatch:
    """Runs on the observed loop."""

    def __init__(self, loop: EventLoop) -> None:
        self._loop = loop
        self._timer: Timer | None = None
        self._due = 0.0
        # (clock, CPU time of this thread)
        self._samples: deque[tuple[float, float]] = deque(maxlen=SAMPLES_MAX)
        self.delays = [0] * TIME_PLACES
        self.delay_seconds = 0.0

    def start(self) -> None:
        self._samples.append((time.monotonic(), time.thread_time()))
        self._plan()

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def idle_ratio(self) -> float:
        """The idle share of the last minute, between 0 and 1; to be called on the loop's thread."""
        if not self._samples:
            return 1.0
        then, cpu_then = self._samples[0]
        elapsed = time.monotonic() - then
        if elapsed <= 0:
            return 1.0
        return min(max(1.0 - (time.thread_time() - cpu_then) / elapsed, 0.0), 1.0)

    def _plan(self) -> None:
        self._due = time.monotonic() + INTERVAL_SECONDS
        self._timer = self._loop.call_later(INTERVAL_SECONDS, self._on_time)

    def _on_time(self) -> None:
        now = time.monotonic()
        # Timers of the loop have a resolution of milliseconds and may fire slightly early.
        late = max(now - self._due, 0.0)
        self.delays[int(late * 1e6).bit_length()] += 1
        self.delay_seconds += late
        self._samples.append((now, time.thread_time()))
        self._plan()
