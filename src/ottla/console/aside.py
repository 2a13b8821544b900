"""Work on all partitions of a large cluster, on a thread of its own.

Tens of thousands of partitions take tenths of a second to decode, and all pages would wait for that on the loop of the
console. A thread of its own shares the interpreter's lock with that loop, which gets the lock every few milliseconds.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from ottla.client.admin import AdminClient
from ottla.client.loop_thread import LoopThread
from ottla.client.settings import ClientSettings

__all__ = ["Aside"]

T = TypeVar("T")


class Aside:
    """A thread with an event loop. The thread starts with the first work."""

    def __init__(self) -> None:
        self._thread: LoopThread | None = None

    async def run(self, settings: ClientSettings, work: Callable[[AdminClient], Awaitable[T]]) -> T:
        """The result of the work, which gets a client of its own. Time-outs of the caller's context apply."""

        async def with_client() -> T:
            async with AdminClient(settings) as admin:
                return await work(admin)

        if self._thread is None:
            self._thread = LoopThread()
        return await asyncio.wrap_future(self._thread.submit(with_client()))

    async def close(self) -> None:
        thread, self._thread = self._thread, None
        if thread is not None:
            await asyncio.wrap_future(thread.submit(_end_tasks()))
            await asyncio.to_thread(thread.close)


async def _end_tasks() -> None:
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
