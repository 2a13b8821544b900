"""A blocking client of a cluster, whose event loop runs in the caller's thread while the caller waits.

Python workers and the helper processes of a query do one thing at a time. An event loop in another thread would pass
every response between threads; here `run` runs the loop until one coroutine is done. Requests that were sent before
proceed in the kernel meanwhile.

Clients live as long as the process, which Spark reuses for later tasks: connections, versions and metadata are ready
for the next batch. A client belongs to the process that made it: a forked child makes its own.
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
    """A cluster and the event loop of its connections."""

    def __init__(self, settings: ClientSettings) -> None:
        self.settings = settings
        self.loop = asyncio.new_event_loop()
        self.admin = self.run(self._make_admin(settings))
        self.cluster: Cluster = self.admin.connections

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Runs a coroutine on this client's loop and returns its result."""
        return self.loop.run_until_complete(work)

    def close(self) -> None:
        if not self.loop.is_closed():
            self.run(self.admin.close())
            self.loop.close()

    async def _make_admin(self, settings: ClientSettings) -> AdminClient:
        return AdminClient(settings)


def client_of(settings: ClientSettings) -> WaitingClient:
    """The client of this process for a cluster."""
    return _kept.get(settings)


_kept = KeptClients(WaitingClient)
