"""A cluster's client for code that waits: the event loop runs in the caller's own thread, while it waits.

Python workers and the helpers of a query's driver do one thing at a time. A loop of its own in another thread would
hand every answer from thread to thread; here `run` turns the loop until the one thing is done. What was posted before
goes on in the kernel meanwhile.

Clients are kept for the life of the process, which Spark uses again for the next task: connections, versions and
metadata are there when the next batch comes. They belong to the process that made them: after a fork the child makes
its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from ottla.client.admin import AdminClient
from ottla.client.cluster import Cluster
from ottla.client.settings import ClientSettings
from ottla.spark.kept import KeptClients

__all__ = ["WaitingClient", "client_of"]

T = TypeVar("T")


class WaitingClient:
    """One cluster, and the loop that its connections live on."""

    def __init__(self, settings: ClientSettings) -> None:
        self.settings = settings
        self.loop = asyncio.new_event_loop()
        self.admin = self.run(self._made(settings))
        self.cluster: Cluster = self.admin.connections

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Waits for something on this client's loop."""
        return self.loop.run_until_complete(work)

    def close(self) -> None:
        if not self.loop.is_closed():
            self.run(self.admin.close())
            self.loop.close()

    async def _made(self, settings: ClientSettings) -> AdminClient:
        return AdminClient(settings)


def client_of(settings: ClientSettings) -> WaitingClient:
    """This process's client of a cluster, kept for its life."""
    return _kept.get(settings)


_kept = KeptClients(WaitingClient)
