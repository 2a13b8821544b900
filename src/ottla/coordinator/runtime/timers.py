"""Timers of one shard: by key, one each, gone with the shard.

When a timer fires, its decision goes the way of every other one. If it cannot be written down, it is tried again a
little later: a session that has timed out stays timed out.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from ottla.coordinator.runtime.decision import Decide
from ottla.model.deferred import Deferred
from ottla.model.errors import KafkaError
from ottla.model.ports import Scheduler, Timer

__all__ = ["Timers"]

logger = logging.getLogger("ottla.coordinator.timers")

S = TypeVar("S")

RETRY_MS = 500


class Timers(Generic[S]):
    """`submit` is set by the shard that owns them."""

    __slots__ = ("_is_closed", "_scheduler", "_timers", "submit")

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._timers: dict[object, Timer] = {}
        self.submit: Callable[[Decide[S, None]], Deferred[None]] | None = None
        self._is_closed = False

    def schedule(self, key: object, delay_ms: int, decide: Decide[S, None]) -> None:
        """Has `decide` submitted after the delay; a timer with the same key is replaced."""
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
        """The shard gives its state up. What is settled on the way may still want a timer, and gets none."""
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
        assert self.submit is not None, "timers belong to a shard"
        self.submit(decide).when_done(lambda done: self._on_decided(key, decide, done))

    def _on_decided(self, key: object, decide: Decide[S, None], done: Deferred[Any]) -> None:
        if done.error is None:
            return
        if not isinstance(done.error, KafkaError):
            logger.error("the timer %r failed", key, exc_info=done.error)
        elif self.submit is not None:
            logger.info("the timer %r is tried again: %s", key, done.error)
            self.schedule_if_absent(key, RETRY_MS, decide)
