"""A worker's connections to a cluster, with an event loop in a thread, kept for later tasks.

The thread lets requests leave and responses arrive while a task waits for its rows.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

from ottla.client.admin import AdminClient
from ottla.client.blocking import LoopThread
from ottla.client.producer import Producer, ProducerSettings
from ottla.client.settings import ClientSettings
from ottla.spark.kept import KeptClients

__all__ = ["SinkClient", "sink_client"]

T = TypeVar("T")

_REMEMBERED_MAX = 1000


class SinkClient:
    """A blocking admin client and producers of a cluster."""

    def __init__(self, settings: ClientSettings) -> None:
        self._thread = LoopThread()
        self.admin = self.call(self._make_admin(settings))
        self.cluster = self.admin.connections
        self._shared: dict[ProducerSettings, Producer] = {}
        # The transactional ids of tasks that had rows when this process ran them last.
        self._with_rows: set[str] = set()

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        return self._thread.call(work)

    def submit(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Begins without waiting; a failure is raised by the result."""
        return self._thread.submit(work)

    def expects_rows(self, transactional_id: str) -> bool:
        return transactional_id in self._with_rows

    def remember(self, transactional_id: str, *, has_rows: bool) -> None:
        if not has_rows:
            self._with_rows.discard(transactional_id)
            return
        if len(self._with_rows) >= _REMEMBERED_MAX:
            self._with_rows.clear()
        self._with_rows.add(transactional_id)

    def producer(self, settings: ProducerSettings) -> Producer:
        """A new producer on the open connections."""

        async def make() -> Producer:
            return Producer(self.cluster, settings)

        return self.call(make())

    def shared_producer(self, settings: ProducerSettings) -> Producer:
        """The producer that tasks without transactions share in turn, so that it needs only one producer id."""
        producer = self._shared.get(settings)
        if producer is None:
            producer = self._shared[settings] = self.producer(settings)
        return producer

    def forget_producer(self, producer: Producer) -> None:
        """Drops a failed shared producer: the next task makes a new one."""
        for settings, shared in list(self._shared.items()):
            if shared is producer:
                del self._shared[settings]
        self.close_producer(producer)

    def close_producer(self, producer: Producer) -> None:
        """Closes a producer without sending its remaining batches."""

        async def closed() -> None:
            task = asyncio.ensure_future(producer.close())
            await asyncio.wait([task], timeout=1.0)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

        self.call(closed())

    def close(self) -> None:
        for producer in self._shared.values():
            self.close_producer(producer)
        self.call(self.admin.close(1_000))
        self._thread.close()

    async def _make_admin(self, settings: ClientSettings) -> AdminClient:
        return AdminClient(settings)


def sink_client(settings: ClientSettings) -> SinkClient:
    """The client of this process for a cluster."""
    return _kept.get(settings)


_kept = KeptClients(SinkClient)
