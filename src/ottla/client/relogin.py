"""Logs a connection in again before its login expires (KIP-368).

Requests that are made meanwhile wait, because a node takes no other request between the steps of a login. Requests that
were sent before are answered first.
"""

from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING

from ottla.client.login import Login, prove_identity

if TYPE_CHECKING:
    from ottla.client.connection import Connection

__all__ = ["Relogin"]

# The share of a session after which the next login begins, as in Kafka's clients: random, to spread many clients.
EARLIEST, LATEST = 0.85, 0.95


class Relogin:
    def __init__(self, connection: Connection, login: Login, *, timeout_ms: int) -> None:
        self._connection = connection
        self._login = login
        self._timeout_ms = timeout_ms
        self._timer: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[None] | None = None

    def plan(self, session_ms: int) -> None:
        """Schedules the next login, within a session of this length; 0 is a session without an end."""
        if session_ms > 0 and not self._connection.closed:
            seconds = session_ms / 1000 * random.uniform(EARLIEST, LATEST)
            self._timer = asyncio.get_running_loop().call_later(seconds, self._begin)

    def cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._task is not None:
            self._task.cancel()

    def _begin(self) -> None:
        self._task = asyncio.ensure_future(self._log_in())

    async def _log_in(self) -> None:
        connection = self._connection
        try:
            exchange = await self._login.exchange(connection.endpoint.host)
            connection.hold_requests()
            session_ms = await prove_identity(connection, self._login, exchange, timeout_ms=self._timeout_ms)
        except Exception as error:  # noqa: BLE001 - any error must end the connection: its requests wait for this login
            self._task = None
            connection.close(f"the login has expired, and the next one failed: {error}")
            return
        self._task = None
        connection.release_requests()
        self.plan(session_ms)
