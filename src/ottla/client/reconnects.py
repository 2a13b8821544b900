"""Failed connection attempts by address: the pause before the next attempt, and the time-out of the attempt."""

from __future__ import annotations

import asyncio

from ottla.client.settings import ClientSettings
from ottla.wire.peers import Endpoint

__all__ = ["Reconnects"]

# More doublings than this exceed every limit.
_DOUBLINGS_MAX = 20


class Reconnects:
    def __init__(self, settings: ClientSettings) -> None:
        self._settings = settings
        # Address -> number of failed attempts in a row, and the time of the next attempt.
        self._failures: dict[Endpoint, tuple[int, float]] = {}

    def pause_seconds(self, endpoint: Endpoint) -> float:
        """The time until the next attempt."""
        _, until = self._failures.get(endpoint, (0, 0.0))
        return max(until - asyncio.get_running_loop().time(), 0.0) if until else 0.0

    def timeout_ms(self, endpoint: Endpoint) -> int:
        settings = self._settings
        failures, _ = self._failures.get(endpoint, (0, 0.0))
        limit = max(settings.connect_timeout_max_ms, settings.connect_timeout_ms)
        return min(settings.connect_timeout_ms << min(failures, _DOUBLINGS_MAX), limit)

    def on_failure(self, endpoint: Endpoint) -> None:
        settings = self._settings
        failures, _ = self._failures.get(endpoint, (0, 0.0))
        limit = max(settings.reconnect_backoff_max_ms, settings.reconnect_backoff_ms)
        pause_ms = min(settings.reconnect_backoff_ms << min(failures, _DOUBLINGS_MAX), limit)
        self._failures[endpoint] = (failures + 1, asyncio.get_running_loop().time() + pause_ms / 1000)

    def on_success(self, endpoint: Endpoint) -> None:
        self._failures.pop(endpoint, None)
