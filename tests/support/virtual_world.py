"""A world for tests of machines: the test moves the time, runs callbacks, and runs the tasks of workers.

Files are the operating system's, below a temporary directory; the test controls everything else.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable
from random import Random
from typing import Any

from ottla.host.files import OsFiles
from ottla.model.deferred import Deferred
from ottla.model.ports import Files, Lane, World

__all__ = ["VirtualClock", "VirtualScheduler", "VirtualWorkers", "VirtualWorld"]


class VirtualClock:
    def __init__(self) -> None:
        self.ms = 1_700_000_000_000

    def now_ms(self) -> int:
        return self.ms

    def monotonic(self) -> float:
        return self.ms / 1000


class _Timer:
    def __init__(self, callback: Callable[..., object], arguments: tuple[Any, ...]) -> None:
        self.callback = callback
        self.arguments = arguments
        self.is_cancelled = False

    def cancel(self) -> None:
        self.is_cancelled = True


class VirtualScheduler:
    def __init__(self, clock: VirtualClock) -> None:
        self._clock = clock
        self._soon: deque[tuple[Callable[..., object], tuple[Any, ...]]] = deque()
        self._later: list[tuple[int, int, _Timer]] = []
        self._sequence = 0

    def call_soon(self, callback: Callable[..., object], *arguments: Any) -> object:
        self._soon.append((callback, arguments))
        return None

    def call_later(self, delay_seconds: float, callback: Callable[..., object], *arguments: Any) -> _Timer:
        timer = _Timer(callback, arguments)
        self._sequence += 1
        heapq.heappush(self._later, (self._clock.ms + round(delay_seconds * 1000), self._sequence, timer))
        return timer

    @property
    def timers(self) -> int:
        return sum(not timer.is_cancelled for _, _, timer in self._later)

    def run(self) -> None:
        """Runs all callbacks that are due now."""
        while self._soon:
            callback, arguments = self._soon.popleft()
            callback(*arguments)

    def run_turn(self) -> None:
        """Runs the callbacks that were due when the turn began; new callbacks run in the next turn."""
        for _ in range(len(self._soon)):
            callback, arguments = self._soon.popleft()
            callback(*arguments)

    def advance(self, ms: int) -> None:
        """Moves the clock, and runs every timer at its due time."""
        self.run()
        until = self._clock.ms + ms
        while self._later and self._later[0][0] <= until:
            due, _, timer = heapq.heappop(self._later)
            self._clock.ms = max(self._clock.ms, due)
            if not timer.is_cancelled:
                timer.callback(*timer.arguments)
            self.run()
        self._clock.ms = until


class VirtualWorkers:
    """Tasks wait for `run_one` or `run_all`; with `immediate` they run when they are submitted."""

    def __init__(self, *, immediate: bool = False) -> None:
        self.immediate = immediate
        self.tasks: deque[tuple[Callable[..., Any], tuple[Any, ...], Deferred[Any]]] = deque()

    def submit(self, function: Callable[..., Any], *arguments: Any) -> Deferred[Any]:
        deferred: Deferred[Any] = Deferred()
        self.tasks.append((function, arguments, deferred))
        if self.immediate:
            self.run_all()
        return deferred

    def lane(self, _lane: Lane) -> VirtualWorkers:
        return self

    def run_one(self) -> None:
        function, arguments, deferred = self.tasks.popleft()
        try:
            value = function(*arguments)
        except Exception as error:  # noqa: BLE001 - the waiter of the result gets it
            deferred.fail(error)
        else:
            deferred.resolve(value)

    def run_all(self) -> None:
        while self.tasks:
            self.run_one()


class VirtualWorld:
    """The parts, and the `World` made of them."""

    def __init__(self, *, seed: int = 1, immediate_workers: bool = False, files: Files | None = None) -> None:
        self.clock = VirtualClock()
        self.scheduler = VirtualScheduler(self.clock)
        self.workers = VirtualWorkers(immediate=immediate_workers)
        self.files: Files = OsFiles() if files is None else files
        self.random = Random(seed)
        self.world = World(
            clock=self.clock,
            scheduler=self.scheduler,
            workers=self.workers,
            files=self.files,
            random=self.random,
        )
