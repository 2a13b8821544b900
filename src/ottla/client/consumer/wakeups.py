"""Wakeups: from any thread, they interrupt the present or the next call of a consumer that waits."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from ottla.client.errors import WokenUp

__all__ = ["Wakeups"]

T = TypeVar("T")


class Wakeups:
    def __init__(self, notify: Callable[[], object]) -> None:
        # Ends the wait of a poll.
        self._notify = notify
        self._loop: asyncio.AbstractEventLoop | None = None
        self._is_woken = False
        self._event = asyncio.Event()

    def wakeup(self) -> None:
        """May be called from any thread and from signal handlers."""
        self._is_woken = True
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._wake)

    def _wake(self) -> None:
        # A check may have raised WokenUp before the loop came here: nothing is left to interrupt.
        if self._is_woken:
            self._event.set()
        self._notify()

    def check(self) -> None:
        """Raises WokenUp, once for any number of wakeups."""
        self._loop = asyncio.get_running_loop()
        if self._is_woken:
            self._is_woken = False
            self._event.clear()
            raise WokenUp("wakeup() was called.")

    async def interruptible(self, work: Coroutine[Any, Any, T]) -> T:
        """Does work that a wakeup interrupts. As in Kafka's consumer, its effect is unknown then."""
        try:
            self.check()
        except WokenUp:
            work.close()
            raise
        self._event.clear()
        task = asyncio.ensure_future(work)
        woken = asyncio.ensure_future(self._event.wait())
        try:
            await asyncio.wait({task, woken}, return_when=asyncio.FIRST_COMPLETED)
            if not task.done():
                self.check()
            return await task
        finally:
            woken.cancel()
            if not task.done():
                task.cancel()
