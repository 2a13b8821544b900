"""Clients that a process keeps for the tasks to come, one for each cluster.

Connections cannot be shared with a child: after a fork it makes its own, and leaves those of its parent alone.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

from ottla.client.settings import ClientSettings

__all__ = ["KeptClients"]

_CLIENTS_MAX = 16


class _Closable(Protocol):
    def close(self) -> None: ...


C = TypeVar("C", bound=_Closable)


class KeptClients(Generic[C]):
    def __init__(self, make: Callable[[ClientSettings], C]) -> None:
        self._make = make
        self._clients: dict[tuple[int, ClientSettings], C] = {}

    def get(self, settings: ClientSettings) -> C:
        """This process's client of a cluster, made where there is none."""
        key = (os.getpid(), settings)
        found = self._clients.get(key)
        if found is None:
            while len(self._clients) >= _CLIENTS_MAX:
                oldest = next(iter(self._clients))
                client = self._clients.pop(oldest)
                if oldest[0] == os.getpid():
                    client.close()
            found = self._clients[key] = self._make(settings)
        return found
