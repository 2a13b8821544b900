"""Looks up the identity provider's own description when the first user logs in.

Every client can begin a login, so at most a single lookup is in flight, and all logins wait for it. After a failure,
logins are refused immediately for a pause, which grows with every further failure.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

from ottla.console.answers import ApiError

__all__ = ["ProviderLookup"]

T = TypeVar("T")

LOOKUP_SECONDS_MAX = 15.0
PAUSE_SECONDS_FIRST = 1.0
PAUSE_SECONDS_MAX = 30.0


class ProviderLookup(Generic[T]):
    def __init__(self, read: Callable[[], Awaitable[T]], *, clock: Callable[[], float] = time.monotonic) -> None:
        self._read = read
        self._clock = clock
        self._value: T | None = None
        self._reading: asyncio.Task[T] | None = None
        self._failure: ApiError | None = None
        self._failures = 0
        self._pause_ends = float("-inf")

    async def get(self) -> T:
        """Raises ApiError 502 if the provider cannot be reached, or could not be reached a moment ago."""
        if self._value is not None:
            return self._value
        if self._reading is None:
            left = self._pause_ends - self._clock()
            if self._failure is not None and left > 0:
                hint = f"It is asked again in {math.ceil(left)} s."
                raise ApiError(self._failure.status, self._failure.code, self._failure.message, hint)
            self._reading = asyncio.ensure_future(self._run())
            self._reading.add_done_callback(self._on_read)
        # A browser that disconnects does not cancel the lookup for the other logins.
        return await asyncio.shield(self._reading)

    async def close(self) -> None:
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.gather(self._reading, return_exceptions=True)

    async def _run(self) -> T:
        try:
            async with asyncio.timeout(LOOKUP_SECONDS_MAX):
                return await self._read()
        except TimeoutError:
            raise ApiError(502, "UPSTREAM", "The identity provider does not answer in time.") from None

    def _on_read(self, task: asyncio.Task[T]) -> None:
        self._reading = None
        if task.cancelled():
            return
        error = task.exception()
        if error is None:
            self._value = task.result()
        else:
            # The bound keeps the power within the range of a float, however long the provider is down.
            pause = min(PAUSE_SECONDS_FIRST * 2 ** min(self._failures, 10), PAUSE_SECONDS_MAX)
            self._failures += 1
            unexpected = ApiError(502, "UPSTREAM", "The identity provider's answer cannot be used.")
            self._failure = error if isinstance(error, ApiError) else unexpected
            self._pause_ends = self._clock() + pause
