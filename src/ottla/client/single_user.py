"""Blocking clients that one thread at a time uses, as Java's consumer.

Listeners and callbacks run on the thread that calls the client, so they may call it again. For that, a call that waits
for the loop also runs the functions that the loop sends to it.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, TypeVar

from ottla.client.errors import ClientError
from ottla.client.loop_thread import Blocking

if TYPE_CHECKING:
    from concurrent.futures import Future

__all__ = ["SingleUser"]

T = TypeVar("T")
# A function for the calling thread; None when the call is done.
_Errand = Callable[[], None] | None


class SingleUser(Blocking):
    def __init__(self) -> None:
        super().__init__()
        self._errands: SimpleQueue[_Errand] = SimpleQueue()
        self._user: int | None = None
        # Calls on the loop, and True if the last one was interrupted.
        self._running: set[asyncio.Task[Any]] = set()
        self._is_interrupted = False
        # The error of a callback: raised where no result is lost by it.
        self._failure: Exception | None = None
        self._is_closing = False

    def _call(self, work: Coroutine[Any, Any, T]) -> T:
        """Waits for the loop, and runs listeners and callbacks meanwhile."""
        thread_id, user = threading.get_ident(), self._user
        if user not in (None, thread_id):
            work.close()
            raise ClientError("Another thread uses this consumer. Give every thread a consumer of its own.")
        if not self._is_closing:
            self._raise_failure(work)
        self._user = thread_id
        future: Future[T] | None = None
        try:
            if self._is_interrupted:
                # The interrupted call must have ended before the next one begins.
                self._thread.call(self._settle())
                self._is_interrupted = False
            future = self._thread.submit(self._tracked(work))
            future.add_done_callback(lambda _: self._errands.put(None))
            while True:
                errand = self._errands.get()
                if errand is not None:
                    errand()
                elif future.done():
                    result = future.result()
                    if not result:
                        self._raise_failure()
                    return result
        except BaseException as error:
            # An interrupted caller (Ctrl-C) gets no result, so the call is cancelled: its records must not be lost.
            if future is not None and not future.done():
                future.cancel()
            self._is_interrupted = not isinstance(error, Exception) or self._is_interrupted
            raise
        finally:
            self._user = user

    def _raise_failure(self, unstarted: Coroutine[Any, Any, object] | None = None) -> None:
        failure, self._failure = self._failure, None
        if failure is not None:
            if unstarted is not None:
                unstarted.close()
            raise failure

    async def _tracked(self, work: Coroutine[Any, Any, T]) -> T:
        task = asyncio.current_task()
        assert task is not None
        self._running.add(task)
        try:
            return await work
        finally:
            self._running.discard(task)

    async def _settle(self) -> None:
        """Waits for the end of interrupted calls; a call that was not cancelled yet is cancelled here."""
        running = list(self._running)
        for task in running:
            # A second cancellation would interrupt what the call does at its end.
            if not task.cancelling():
                task.cancel()
        await asyncio.gather(*running, return_exceptions=True)

    def _on_caller(self, function: Callable[[T], object] | None) -> Any:
        """A coroutine function for the loop that runs a function on the thread of the caller."""
        if function is None:
            return None

        async def run(argument: T) -> None:
            loop = asyncio.get_running_loop()
            done: asyncio.Future[None] = loop.create_future()

            def errand() -> None:
                try:
                    function(argument)
                except BaseException as error:
                    loop.call_soon_threadsafe(_fail, done, error)
                    if not isinstance(error, Exception):
                        raise
                else:
                    loop.call_soon_threadsafe(_finish, done)

            self._errands.put(errand)
            await done

        return run

    def _later(self, function: Callable[..., object] | None) -> Callable[..., None]:
        """A function for the loop that runs another function on the thread of the next call.

        Its error must not end the call that runs it: records that the call has polled would be lost, and would
        still be committed or accepted by the next call.
        """

        def later(*arguments: Any) -> None:
            def errand() -> None:
                assert function is not None
                try:
                    function(*arguments)
                except Exception as error:  # noqa: BLE001 (this or the next call raises it)
                    self._failure = self._failure or error

            if function is not None:
                self._errands.put(errand)

        return later


def _finish(done: asyncio.Future[None]) -> None:
    if not done.done():
        done.set_result(None)


def _fail(done: asyncio.Future[None], error: BaseException) -> None:
    if not done.done():
        done.set_exception(error if isinstance(error, Exception) else ClientError(f"interrupted: {error!r}"))
