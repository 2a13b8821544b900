"""The clients of a process, one for each cluster, kept for later tasks.

Connections cannot be shared with a forked child: the child makes its own and does not touch those of its parent.
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
        """The client of this process for a cluster, made if necessary."""
        key = (os.getpid(), settings)
        kept_client = self._clients.get(key)
        if kept_client is None:
            while len(self._clients) >= _CLIENTS_MAX:
                oldest = next(iter(self._clients))
                client = self._clients.pop(oldest)
                if oldest[0] == os.getpid():
                    client.close()
            kept_client = self._clients[key] = self._make(settings)
        return kept_client
