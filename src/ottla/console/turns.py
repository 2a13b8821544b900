"""A bound on what takes long: scans of topics, tails, and open streams."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from ottla.console.answers import ApiError

__all__ = ["Turns"]


class Turns:
    """At most `most` at a time; further ones are refused, because a person would wait in vain."""

    def __init__(self, what: str, most: int) -> None:
        self._what = what
        self._most = most
        self.count = 0

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        if self.count >= self._most:
            raise ApiError(429, "TOO_MANY", f"{self._most} {self._what} run already.", "Close a page, or try again.")
        self.count += 1
        try:
            yield
        finally:
            self.count -= 1
