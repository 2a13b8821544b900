"""Clients for code without an event loop: a thread runs the loop, and every call waits for its result.

    with BlockingProducer(settings) as producer:
        producer.send("topic", b"value").result()

They are thin wrappers: every method calls the method of the same name of an asyncio client.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractContextManager
from typing import Any, TypeVar

from ottla.client.admin import AdminClient
from ottla.client.blocking_consumer import BlockingConsumer
from ottla.client.blocking_producer import BlockingProducer
from ottla.client.blocking_share import BlockingShareConsumer
from ottla.client.loop_thread import Blocking, LoopThread
from ottla.client.settings import ClientSettings

__all__ = ["BlockingAdmin", "BlockingConsumer", "BlockingProducer", "BlockingShareConsumer", "LoopThread"]

T = TypeVar("T")


class BlockingAdmin(Blocking):
    """`admin.topics.names()` waits for the call of the same name of `AdminClient`; so does every other call.

    `admin.call(lambda admin: admin.topics.names())` does the same with the types of `AdminClient`.
    """

    def __init__(self, settings: ClientSettings | Mapping[str, Any]) -> None:
        super().__init__()
        self._admin = self._make_client(lambda: AdminClient(settings))

    def __getattr__(self, name: str) -> Any:
        return _BlockingArea(self._thread, getattr(self._admin, name))

    def within(self, timeout_ms: int) -> AbstractContextManager[None]:
        """`with admin.within(5_000): ...`: the time-out of the calls in the block."""
        return self._admin.within(timeout_ms)

    def call(self, work: Callable[[AdminClient], Awaitable[T]]) -> T:
        async def whole() -> T:
            return await work(self._admin)

        return self._thread.call(whole())

    async def _close(self) -> None:
        await self._admin.close()


class _BlockingArea:
    """An area of an admin client, whose methods wait for their results."""

    def __init__(self, thread: LoopThread, area: Any) -> None:
        self._thread = thread
        self._area = area

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._area, name)

        def call(*arguments: Any, **options: Any) -> Any:
            return self._thread.call(method(*arguments, **options))

        return call
