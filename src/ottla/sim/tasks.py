"""Coroutines for simulated clients: they await `Deferred`s, and the kernel is their event loop."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Generator
from typing import Any, Generic, TypeVar

from ottla.model.deferred import Deferred
from ottla.sim.kernel import SECOND_US
from ottla.sim.process import Process

__all__ = ["Task", "sleep", "wait"]

T = TypeVar("T")


class _Wait(Generic[T]):
    __slots__ = ("_deferred",)

    def __init__(self, deferred: Deferred[T]) -> None:
        self._deferred = deferred

    def __await__(self) -> Generator[Deferred[T], None, T]:
        if not self._deferred.done:
            yield self._deferred
        return self._deferred.result()


def wait(deferred: Deferred[T]) -> _Wait[T]:
    """`await wait(deferred)` returns its value, or raises its error."""
    return _Wait(deferred)


def sleep(process: Process, seconds: float) -> _Wait[None]:
    deferred: Deferred[None] = Deferred()
    process.plan(round(seconds * SECOND_US), deferred.resolve, None)
    return _Wait(deferred)


class Task:
    """Runs a coroutine in a process. An exception in the coroutine is a finding."""

    __slots__ = ("_coroutine", "_on_error", "_process", "is_done", "name")

    def __init__(
        self,
        process: Process,
        name: str,
        coroutine: Coroutine[Any, Any, None],
        on_error: Callable[[str, BaseException], object],
    ) -> None:
        self.name = name
        self.is_done = False
        self._process = process
        self._coroutine = coroutine
        self._on_error = on_error
        process.plan(0, self._step, None)

    def _step(self, _: Deferred[Any] | None) -> None:
        try:
            deferred = self._coroutine.send(None)
        except StopIteration:
            self.is_done = True
        except Exception as error:  # noqa: BLE001 - a workload that fails is a finding, not the end of the simulation
            self.is_done = True
            self._on_error(f"the workload {self.name} failed", error)
        else:
            deferred.when_done(self._wake)

    def _wake(self, deferred: Deferred[Any]) -> None:
        # Planned as an event, so that the workload does not run within the call that resolves the Deferred.
        self._process.plan(0, self._step, deferred)

    def close(self) -> None:
        """Closes the coroutine where it is suspended, at the end of the simulation."""
        self.is_done = True
        self._coroutine.close()
