"""An event loop in a thread of its own, for clients of code without a loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Self, TypeVar

if TYPE_CHECKING:
    from concurrent.futures import Future

__all__ = ["Blocking", "LoopThread", "call_on_loop"]

T = TypeVar("T")


class LoopThread:
    """An event loop in a daemon thread."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="ottla-client", daemon=True)
        self._thread.start()

    def submit(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        future = self.submit(work)
        try:
            return future.result()
        except BaseException:
            # An interrupted caller (Ctrl-C) gets no result, so the call is cancelled: its records must not be lost.
            future.cancel()
            raise

    @property
    def is_current(self) -> bool:
        """True for code that runs on the thread of the loop: it must not wait for the loop."""
        return threading.current_thread() is self._thread

    @property
    def is_closed(self) -> bool:
        return self._loop.is_closed()

    def time(self) -> float:
        """The clock of the loop."""
        return self._loop.time()

    def call_soon(self, function: Callable[[], object]) -> None:
        self._loop.call_soon_threadsafe(function)

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


class Blocking:
    def __init__(self) -> None:
        self._thread = LoopThread()

    def _make_client(self, make: Callable[[], T]) -> T:
        """Makes the client on the thread of the loop, which ends if the settings are refused."""
        try:
            return self._thread.call(call_on_loop(make))
        except BaseException:
            self._thread.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Waits for calls in progress, then ends the thread."""
        if self._thread.is_closed:
            return
        try:
            self._thread.call(self._close())
        finally:
            self._thread.close()

    async def _close(self) -> None:
        raise NotImplementedError


async def call_on_loop(function: Callable[[], T]) -> T:
    """Calls a quick function on the thread of the loop, where clients must be made and used."""
    return function()
