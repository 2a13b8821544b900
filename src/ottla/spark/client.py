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
import os
from collections.abc import Coroutine
from typing import Any, TypeVar

from ottla.client.admin import AdminClient
from ottla.client.cluster import Cluster
from ottla.client.settings import ClientSettings

__all__ = ["WaitingClient", "client_of"]

T = TypeVar("T")

_CLIENTS_MAX = 16

_clients: dict[tuple[int, ClientSettings], WaitingClient] = {}


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
    """This process's client of a cluster, made where there is none."""
    key = (os.getpid(), settings)
    found = _clients.get(key)
    if found is None:
        while len(_clients) >= _CLIENTS_MAX:
            oldest = next(iter(_clients))
            client = _clients.pop(oldest)
            if oldest[0] == os.getpid():
                client.close()
        found = _clients[key] = WaitingClient(settings)
    return found
