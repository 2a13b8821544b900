"""`ottla console`: the console in the foreground."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from typing import Self

from ottla.console.server import ConsoleServer
from ottla.console.services import Services
from ottla.console.settings import ConsoleSettings
from ottla.console.view import or_none

__all__ = ["Console", "run_console"]

# After this time the console is ready, even if the cluster has not answered.
FIRST_STATE_SECONDS_MAX = 2.0


class Console:
    """An async context manager: the server with everything that it needs."""

    def __init__(self, settings: ConsoleSettings) -> None:
        self._settings = settings
        self._services: Services | None = None
        self._server: ConsoleServer | None = None
        self.url = ""

    async def __aenter__(self) -> Self:
        self._services = Services(self._settings)
        self._server = ConsoleServer(self._services)
        try:
            await self._server.start()
        except BaseException:
            await self.stop()
            raise
        host = self._settings.host
        scheme = "http" if self._settings.tls is None else "https"
        self.url = f"{scheme}://{f'[{host}]' if ':' in host else host}:{self._server.port}"
        if not self._settings.needs_login:
            # The state is read ahead, so that the first page does not wait for all metadata of a large cluster.
            await or_none(self._services.own.view.state.get(), FIRST_STATE_SECONDS_MAX)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def stop(self) -> None:
        if self._server is not None:
            await self._server.stop()
        if self._services is not None:
            await self._services.close()


async def run_console(
    settings: ConsoleSettings, *, on_ready: Callable[[str], object], lifeline: int | None = None
) -> None:
    """Runs until the process gets SIGINT or SIGTERM, or the other end of the lifeline is closed."""
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    if lifeline is not None:
        loop.add_reader(lifeline, stopped.set)
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stopped.set)
    async with Console(settings) as console:
        on_ready(console.url)
        await stopped.wait()
        if lifeline is not None:
            loop.remove_reader(lifeline)
