"""A bound on long requests: scans of topics, tails, and open streams. An owner cannot take all turns."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from ottla.console.answers import ApiError

__all__ = ["Turns"]


class Turns:
    """At most `most` requests at a time, and `most_each` of an owner. More are refused, because a person would wait."""

    def __init__(self, activity: str, most: int, *, most_each: int) -> None:
        self._activity = activity
        self._most = most
        self._most_each = most_each
        self._counts: dict[str, int] = {}

    @property
    def count(self) -> int:
        return sum(self._counts.values())

    @asynccontextmanager
    async def turn(self, owner: str) -> AsyncIterator[None]:
        own = self._counts.get(owner, 0)
        if own >= self._most_each:
            raise ApiError(
                429, "TOO_MANY", f"{own} {self._activity} of yours run already.", "Close a page, or try again."
            )
        if self.count >= self._most:
            raise ApiError(429, "TOO_MANY", f"{self._most} {self._activity} run already.", "Try again later.")
        self._counts[owner] = own + 1
        try:
            yield
        finally:
            self._counts[owner] -= 1
            if not self._counts[owner]:
                del self._counts[owner]
