"""A value that is not there yet, for code that never awaits.

Broker code below `host` is written as plain functions: it does no I/O of its own and so has nothing to await.
Where an answer has to wait (an fsync, a replica, a timer), it returns a `Deferred`; whoever holds it is called
back, on the event loop's thread, as soon as the value is known. There is no cancellation and no queueing: a
callback added to a finished `Deferred` runs at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

__all__ = ["Deferred", "gather"]

T = TypeVar("T")
U = TypeVar("U")

_PENDING = object()


class Deferred(Generic[T]):
    """Resolved or failed exactly once; the second attempt is a programmer's error."""

    __slots__ = ("_callbacks", "_error", "_value")

    def __init__(self) -> None:
        self._value: object = _PENDING
        self._error: BaseException | None = None
        self._callbacks: list[Callable[[Deferred[T]], object]] | None = None

    @classmethod
    def resolved(cls, value: T) -> Deferred[T]:
        deferred: Deferred[T] = cls()
        deferred._value = value
        return deferred

    @classmethod
    def failed(cls, error: BaseException) -> Deferred[T]:
        deferred: Deferred[T] = cls()
        deferred._error = error
        return deferred

    @property
    def done(self) -> bool:
        return self._value is not _PENDING or self._error is not None

    @property
    def error(self) -> BaseException | None:
        return self._error

    def result(self) -> T:
        """The value, or raises what it failed with; asking before it is done is a programmer's error."""
        if self._error is not None:
            raise self._error
        assert self._value is not _PENDING, "asked for a result that is not there yet"
        return self._value  # type: ignore[return-value]

    def resolve(self, value: T) -> None:
        assert not self.done, "resolved twice"
        self._value = value
        self._run_callbacks()

    def fail(self, error: BaseException) -> None:
        assert not self.done, "resolved twice"
        self._error = error
        self._run_callbacks()

    def when_done(self, callback: Callable[[Deferred[T]], object]) -> None:
        if self.done:
            callback(self)
        elif self._callbacks is None:
            self._callbacks = [callback]
        else:
            self._callbacks.append(callback)

    def then(self, function: Callable[[T], U]) -> Deferred[U]:
        """What `function` makes of the value, once it is there; a failure passes through, as does what it raises."""
        made: Deferred[U] = Deferred()

        def on_done(done: Deferred[T]) -> None:
            try:
                value = function(done.result())
            except Exception as error:  # noqa: BLE001 (whoever holds `made` gets it)
                made.fail(error)
            else:
                made.resolve(value)

        self.when_done(on_done)
        return made

    def _run_callbacks(self) -> None:
        callbacks, self._callbacks = self._callbacks, None
        for callback in callbacks or ():
            callback(self)


def gather(deferreds: Sequence[Deferred[T]]) -> Deferred[list[T]]:
    """All values in order, once all are there; fails with the first failure in that order."""
    gathered: Deferred[list[T]] = Deferred()
    missing = len(deferreds)

    def on_done(_done: Deferred[T]) -> None:
        nonlocal missing
        missing -= 1
        if missing == 0:
            finish()

    def finish() -> None:
        failed = next((each.error for each in deferreds if each.error is not None), None)
        if failed is not None:
            gathered.fail(failed)
        else:
            gathered.resolve([each.result() for each in deferreds])

    if not deferreds:
        finish()
    for each in deferreds:
        each.when_done(on_done)
    return gathered
