"""`ottla registry`: one instance in the foreground."""

from __future__ import annotations

import asyncio
import signal
import socket
from collections.abc import Callable
from typing import Self

from ottla.client.settings import ClientSettings
from ottla.registry.node.cross_origin import CrossOrigin
from ottla.registry.node.election import Identity
from ottla.registry.node.guard import Guard
from ottla.registry.node.security import TlsFiles
from ottla.registry.node.server import RegistryServer
from ottla.registry.node.service import RegistryService, ServiceSettings

__all__ = ["RegistryInstance", "run_registry"]

_WILDCARDS = ("", "0.0.0.0", "::")


class RegistryInstance:
    """An async context manager: a service with its REST interface."""

    def __init__(
        self,
        client: ClientSettings,
        *,
        host: str = "127.0.0.1",
        port: int = 8081,
        advertised_host: str | None = None,
        settings: ServiceSettings | None = None,
        guard: Guard | None = None,
        tls: TlsFiles | None = None,
        cross_origin: CrossOrigin | None = None,
    ) -> None:
        self._scheme = "http" if tls is None else "https"
        self._settings = settings or ServiceSettings()
        self._advertised_host = advertised_host or (socket.gethostname() if host in _WILDCARDS else host)
        self.service = RegistryService(client, self._settings)
        self._server = RegistryServer(host, port, self.service, guard=guard, tls=tls, cross_origin=cross_origin)
        self.url = ""

    async def __aenter__(self) -> Self:
        try:
            await self._server.start()
            identity = Identity(
                self._advertised_host, self._server.port, self._scheme, is_eligible=self._settings.is_eligible
            )
            self.url = identity.url
            await self.service.start(identity)
        except BaseException:
            await self.stop()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def stop(self) -> None:
        await self._server.stop()
        await self.service.stop()


async def run_registry(
    instance: RegistryInstance, *, on_ready: Callable[[str], object], lifeline: int | None = None
) -> None:
    """Runs until the process gets SIGINT or SIGTERM, or the other end of the lifeline is closed."""
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    if lifeline is not None:
        loop.add_reader(lifeline, stopped.set)
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stopped.set)
    async with instance:
        on_ready(instance.url)
        await stopped.wait()
        if lifeline is not None:
            loop.remove_reader(lifeline)
