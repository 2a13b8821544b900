"""Async context managers in a separate thread, for tests that are not async."""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, contextmanager
from typing import Any

__all__ = ["in_background"]

WAIT_SECONDS = 60


@contextmanager
def in_background(*managers: AbstractAsyncContextManager[Any]) -> Iterator[list[Any]]:
    """Yields the values of the managers. A single task enters and leaves them, because some managers require it."""
    loop = asyncio.new_event_loop()
    entered: concurrent.futures.Future[list[Any]] = concurrent.futures.Future()
    is_over = asyncio.Event()

    async def live() -> None:
        async with AsyncExitStack() as stack:
            entered.set_result([await stack.enter_async_context(manager) for manager in managers])
            await is_over.wait()

    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    living = asyncio.run_coroutine_threadsafe(live(), loop)
    try:
        concurrent.futures.wait([entered, living], WAIT_SECONDS, concurrent.futures.FIRST_COMPLETED)
        if living.done():
            living.result()
        yield entered.result(0)
    finally:
        loop.call_soon_threadsafe(is_over.set)
        concurrent.futures.wait([living], WAIT_SECONDS)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
    living.result(0)
