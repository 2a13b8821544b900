"""One run of a program: its events, its clock and its workers. It can be frozen and killed.

A killed process never runs another event, even if events are still planned for it. A frozen process (SIGSTOP, or the
migration of a virtual machine) keeps the events that come due and runs them when it is resumed, all at once and much
later by its clock.
"""

from __future__ import annotations

from collections.abc import Callable
from math import ceil
from random import Random
from typing import Any, TypeVar

from ottla.model.deferred import Deferred
from ottla.model.ports import Lane
from ottla.sim.kernel import SECOND_US, Event, Kernel

__all__ = [
    "EPOCH_MS",
    "Process",
    "ProcessClock",
    "ProcessKilled",
    "ProcessScheduler",
    "ProcessWorkers",
    "current_process",
]

T = TypeVar("T")

EPOCH_MS = 1_700_000_000_000


class ProcessKilled(BaseException):
    """The process ends within an event. Not an Exception, so that no handler in node code catches it."""


_current: Process | None = None


class Process:
    """Runs the events of one program."""

    def __init__(self, kernel: Kernel, name: str, *, on_defect: Callable[[str, BaseException], object]) -> None:
        self.kernel = kernel
        self.name = name
        self.is_alive = True
        self.is_frozen = False
        # Called after every event.
        self.after_event: Callable[[], object] | None = None
        # Called when the process has to end within an event.
        self.on_killed: Callable[[], object] | None = None
        self._on_defect = on_defect
        self._held: list[tuple[Callable[..., object], tuple[Any, ...]]] = []

    def plan(self, delay_us: int, callback: Callable[..., object], *arguments: Any) -> Event:
        return self.kernel.after(delay_us, self.run, callback, arguments)

    def run(self, callback: Callable[..., object], arguments: tuple[Any, ...]) -> None:
        """Runs a callback in this process, now. Every call from outside the process goes through this method."""
        if not self.is_alive:
            return
        if self.is_frozen:
            self._held.append((callback, arguments))
            return
        global _current
        previous, _current = _current, self
        try:
            callback(*arguments)
            if self.after_event is not None:
                self.after_event()
        except ProcessKilled:
            if self.on_killed is not None:
                self.on_killed()
        except Exception as error:  # noqa: BLE001 - an event loop logs it and continues; here it is a finding
            self._on_defect(f"a callback of {self.name} failed", error)
        finally:
            _current = previous

    def freeze(self) -> None:
        self.is_frozen = True

    def resume(self) -> None:
        self.is_frozen = False
        held, self._held = self._held, []
        for callback, arguments in held:
            self.kernel.after(0, self.run, callback, arguments)

    def end(self) -> None:
        self.is_alive = False
        self._held.clear()


def current_process() -> Process | None:
    """The process whose event runs now; for the log."""
    return _current


class _ProcessTimer:
    """A timer that can be cancelled even when it came due while its process was frozen."""

    __slots__ = ("_event", "arguments", "callback")

    def __init__(self, callback: Callable[..., object], arguments: tuple[Any, ...]) -> None:
        self.callback: Callable[..., object] | None = callback
        self.arguments = arguments
        self._event: Event | None = None

    def fire(self) -> None:
        callback, arguments = self.callback, self.arguments
        self.callback, self.arguments = None, ()
        if callback is not None:
            callback(*arguments)

    def cancel(self) -> None:
        self.callback, self.arguments = None, ()
        if self._event is not None:
            self._event.cancel()
            self._event = None


class ProcessScheduler:
    """The Scheduler port."""

    def __init__(self, process: Process) -> None:
        self._process = process

    def call_soon(self, callback: Callable[..., object], *arguments: Any) -> object:
        return self._process.plan(0, callback, *arguments)

    def call_later(self, delay_seconds: float, callback: Callable[..., object], *arguments: Any) -> _ProcessTimer:
        timer = _ProcessTimer(callback, arguments)
        # Rounded up, never early: code that compares times as fractions would find that it is not due yet, and would
        # then wait for a timer that has already fired.
        timer._event = self._process.plan(ceil(delay_seconds * SECOND_US), timer.fire)
        return timer


class ProcessClock:
    """The Clock port. The wall clock has an error that can change at any time; the monotonic clock has none."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self.error_ms = 0

    def now_ms(self) -> int:
        return EPOCH_MS + self._kernel.now_us // 1000 + self.error_ms

    def monotonic(self) -> float:
        return self._kernel.now_us / SECOND_US


class ProcessWorkers:
    """The Workers port: a task runs as one event some time after it was submitted, and its result arrives later.

    `busy_us` returns the virtual time that the task has spent on the disk.
    """

    def __init__(self, process: Process, random: Random, *, busy_us: Callable[[], int]) -> None:
        self._process = process
        self._random = random
        self._busy_us = busy_us

    def submit(self, function: Callable[..., T], *arguments: Any) -> Deferred[T]:
        deferred: Deferred[T] = Deferred()
        self._process.plan(self._random.randrange(20, 300), self._work, function, arguments, deferred)
        return deferred

    def lane(self, lane: Lane) -> ProcessWorkers:  # noqa: ARG002
        """Tasks never wait for a free thread here, so all lanes are the same."""
        return self

    def _work(self, function: Callable[..., T], arguments: tuple[Any, ...], deferred: Deferred[T]) -> None:
        value: Any = None
        failure: BaseException | None = None
        self._busy_us()
        try:
            value = function(*arguments)
        except Exception as error:  # noqa: BLE001 - the error is passed to the waiter of the result
            failure = error
        delay_us = self._busy_us() + self._random.randrange(5, 50)
        if failure is None:
            self._process.plan(delay_us, deferred.resolve, value)
        else:
            self._process.plan(delay_us, deferred.fail, failure)
