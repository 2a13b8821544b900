"""A value that is not known yet, for code that never awaits.

Code below `host` consists of plain functions: it does no I/O of its own, so it has nothing to await. A function whose
result has to wait (for an fsync, a replica, a timer) returns a `Deferred`. Its holder is called back on the event
loop's thread as soon as the value is known. There is no cancellation and no queueing: a callback that is added to a
completed `Deferred` runs at once.

Most code needs no callback of its own. The combinators make the next `Deferred` from this one:

    then        maps the value
    and_then    continues with another Deferred
    recover     maps an error of one kind to a value
    finally_do  runs an action after either outcome
    pass_to     completes another Deferred with the outcome
    gather      waits for several Deferreds
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from ottla.model.errors import KafkaError

__all__ = ["Deferred", "gather"]

T = TypeVar("T")
U = TypeVar("U")
E = TypeVar("E", bound=BaseException)


class Deferred(Generic[T]):
    """Resolved or failed exactly once. A second completion is a programmer's error."""

    __slots__ = ("_callbacks", "_value", "done", "error")

    def __init__(self) -> None:
        # To be read only. Not properties, because they are read several times for every request.
        self.done = False
        self.error: BaseException | None = None
        self._value: object = None
        self._callbacks: list[Callable[[Deferred[T]], object]] | None = None

    @classmethod
    def resolved(cls, value: T) -> Deferred[T]:
        deferred: Deferred[T] = cls()
        deferred._value, deferred.done = value, True
        return deferred

    @staticmethod
    def of(value: U | Deferred[U]) -> Deferred[U]:
        """A value that may have to wait: itself if it is a `Deferred`, otherwise resolved."""
        return value if isinstance(value, Deferred) else Deferred.resolved(value)

    @classmethod
    def failed(cls, error: BaseException) -> Deferred[T]:
        deferred: Deferred[T] = cls()
        deferred.error, deferred.done = _storable(error), True
        return deferred

    def result(self) -> T:
        """The value, or raises the error. Asking before completion is a programmer's error."""
        if self.error is not None:
            raise self.error
        assert self.done, "asked for a result that is not there yet"
        return self._value  # type: ignore[return-value]

    # Completion.

    def resolve(self, value: T) -> None:
        assert not self.done, "resolved twice"
        self._value, self.done = value, True
        callbacks, self._callbacks = self._callbacks, None
        for callback in callbacks or ():
            callback(self)

    def fail(self, error: BaseException) -> None:
        assert not self.done, "resolved twice"
        self.error, self.done = _storable(error), True
        self._run_callbacks()

    def when_done(self, callback: Callable[[Deferred[T]], object]) -> None:
        if self.done:
            callback(self)
        elif self._callbacks is None:
            self._callbacks = [callback]
        else:
            self._callbacks.append(callback)

    # Combinators. A function that raises fails the Deferred that its combinator returns. Most Deferreds are complete
    # when they get here: then no callback is needed, and an outcome that passes through stays in this Deferred.

    def then(self, function: Callable[[T], U]) -> Deferred[U]:
        """`function(value)`. An error passes through."""
        if self.done:
            if self.error is not None:
                return self  # type: ignore[return-value]
            try:
                return Deferred.resolved(function(self._value))  # type: ignore[arg-type]
            except Exception as error:  # noqa: BLE001 (the holder of the Deferred gets it)
                return Deferred.failed(error)
        derived: Deferred[U] = Deferred()

        def on_done(done: Deferred[T]) -> None:
            if done.error is not None:
                derived.fail(done.error)
                return
            try:
                value = function(done._value)  # type: ignore[arg-type]
            except Exception as error:  # noqa: BLE001 (the holder of `derived` gets it)
                derived.fail(error)
            else:
                derived.resolve(value)

        self.when_done(on_done)
        return derived

    def and_then(self, function: Callable[[T], Deferred[U]]) -> Deferred[U]:
        """The outcome of the `Deferred` that `function(value)` returns. An error passes through."""
        if self.done:
            if self.error is not None:
                return self  # type: ignore[return-value]
            try:
                return function(self._value)  # type: ignore[arg-type]
            except Exception as error:  # noqa: BLE001 (the holder of the Deferred gets it)
                return Deferred.failed(error)
        derived: Deferred[U] = Deferred()

        def on_done(done: Deferred[T]) -> None:
            if done.error is not None:
                derived.fail(done.error)
                return
            try:
                following = function(done._value)  # type: ignore[arg-type]
            except Exception as error:  # noqa: BLE001 (the holder of `derived` gets it)
                derived.fail(error)
            else:
                following.pass_to(derived)

        self.when_done(on_done)
        return derived

    def recover(self, kind: type[E], function: Callable[[E], T]) -> Deferred[T]:
        """The value, or `function(error)` for an error of this kind. Other errors pass through."""
        if self.done:
            if not isinstance(self.error, kind):
                return self
            try:
                return Deferred.resolved(function(self.error))
            except Exception as raised:  # noqa: BLE001 (the holder of the Deferred gets it)
                return Deferred.failed(raised)
        derived: Deferred[T] = Deferred()

        def on_done(done: Deferred[T]) -> None:
            error = done.error
            if not isinstance(error, kind):
                done.pass_to(derived)
                return
            try:
                value = function(error)
            except Exception as raised:  # noqa: BLE001 (the holder of `derived` gets it)
                derived.fail(raised)
            else:
                derived.resolve(value)

        self.when_done(on_done)
        return derived

    def finally_do(self, action: Callable[[], object]) -> Deferred[T]:
        """Runs the action after the completion, and passes the outcome on."""
        derived: Deferred[T] = Deferred()

        def on_done(done: Deferred[T]) -> None:
            try:
                action()
            except Exception as error:  # noqa: BLE001 (the holder of `derived` gets it)
                derived.fail(error)
            else:
                done.pass_to(derived)

        self.when_done(on_done)
        return derived

    def pass_to(self, target: Deferred[T]) -> None:
        """Completes the target with this outcome."""
        if self.done:
            self._complete(target)
        else:
            self.when_done(lambda done: done._complete(target))

    def _complete(self, target: Deferred[T]) -> None:
        if self.error is not None:
            target.fail(self.error)
        else:
            target.resolve(self._value)  # type: ignore[arg-type]

    def _run_callbacks(self) -> None:
        callbacks, self._callbacks = self._callbacks, None
        for callback in callbacks or ():
            callback(self)


def _storable(error: BaseException) -> BaseException:
    """The error to store. An error that is an answer and not a defect loses its traceback."""
    if isinstance(error, KafkaError):
        error.forget_traceback()
    return error


def gather(deferreds: Sequence[Deferred[T]]) -> Deferred[list[T]]:
    """All values in order, after the last completion. Fails with the first error in that order."""
    gathered: Deferred[list[T]] = Deferred()
    pending = [deferred for deferred in deferreds if not deferred.done]
    missing = len(pending)

    def on_done(_done: Deferred[T]) -> None:
        nonlocal missing
        missing -= 1
        if missing == 0:
            finish()

    def finish() -> None:
        for deferred in deferreds:
            if deferred.error is not None:
                gathered.fail(deferred.error)
                return
        gathered.resolve([deferred._value for deferred in deferreds])  # type: ignore[misc]

    if not pending:
        finish()
    for deferred in pending:
        deferred.when_done(on_done)
    return gathered
