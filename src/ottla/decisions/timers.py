"""Timers by key, at most one for each key, and duties at intervals; both end with their owner.

A timer that fires submits its decision like any other decision. A decision that cannot be written is submitted again a
little later: a session that has timed out stays timed out.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from ottla.decisions.decision import Decide
from ottla.model.deferred import Deferred
from ottla.model.errors import KafkaError
from ottla.model.ports import Scheduler, Timer

__all__ = ["Repeater", "Timers"]

logger = logging.getLogger("ottla.decisions.timers")

S = TypeVar("S")

RETRY_MS = 500


class Timers(Generic[S]):
    """The owner sets `submit`."""

    __slots__ = ("_is_closed", "_scheduler", "_timers", "submit")

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._timers: dict[object, Timer] = {}
        self.submit: Callable[[Decide[S, None]], Deferred[None]] | None = None
        self._is_closed = False

    def schedule(self, key: object, delay_ms: int, decide: Decide[S, None]) -> None:
        """Submits the decision after the delay. Replaces a timer with the same key."""
        if self._is_closed:
            return
        timer = self._timers.pop(key, None)
        if timer is not None:
            timer.cancel()
        self._timers[key] = self._scheduler.call_later(delay_ms / 1000, self._fire, key, decide)

    def schedule_if_absent(self, key: object, delay_ms: int, decide: Decide[S, None]) -> None:
        if key not in self._timers:
            self.schedule(key, delay_ms, decide)

    def cancel(self, key: object) -> None:
        timer = self._timers.pop(key, None)
        if timer is not None:
            timer.cancel()

    def close(self) -> None:
        """The owner drops its state. Timers that are scheduled after this are ignored."""
        self._is_closed = True
        self.submit = None
        self.cancel_all()

    def cancel_all(self) -> None:
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()

    def __contains__(self, key: object) -> bool:
        return key in self._timers

    def __len__(self) -> int:
        return len(self._timers)

    def _fire(self, key: object, decide: Decide[S, None]) -> None:
        del self._timers[key]
        assert self.submit is not None, "timers have an owner"
        self.submit(decide).when_done(lambda done: self._on_decided(key, decide, done))

    def _on_decided(self, key: object, decide: Decide[S, None], done: Deferred[Any]) -> None:
        if done.error is None:
            return
        if not isinstance(done.error, KafkaError):
            logger.error("timer %r failed", key, exc_info=done.error)
        elif self.submit is not None:
            logger.info("timer %r could not be written and is tried again in %d ms: %s", key, RETRY_MS, done.error)
            self.schedule_if_absent(key, RETRY_MS, decide)


class Repeater:
    """Runs duties at intervals until it is stopped, each after its last run has ended."""

    __slots__ = ("_scheduler", "_timers")

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._timers: dict[str, Timer] = {}

    def every(
        self, interval_seconds: Callable[[], float], name: str, duty: Callable[[], Deferred[bool] | None]
    ) -> None:
        """The interval is read before each wait. A duty that resolves with True has more to do and runs at once."""
        assert name not in self._timers, f"{name} runs already"
        self._wait(interval_seconds(), interval_seconds, name, duty)

    def stop(self) -> None:
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()

    def _wait(
        self,
        delay_seconds: float,
        interval_seconds: Callable[[], float],
        name: str,
        duty: Callable[[], Deferred[bool] | None],
    ) -> None:
        def on_time() -> None:
            outcome = duty()
            if outcome is None:
                wait_again(has_more=False)
            else:
                # A duty that failed waits for its interval.
                outcome.when_done(lambda done: wait_again(has_more=done.error is None and done.result()))

        def wait_again(*, has_more: bool) -> None:
            if name in self._timers:
                self._wait(0.0 if has_more else interval_seconds(), interval_seconds, name, duty)

        self._timers[name] = self._scheduler.call_later(delay_seconds, on_time)
