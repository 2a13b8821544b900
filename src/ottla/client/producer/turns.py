"""Waiting sends of a topic complete in the order of their calls.

A send waits for the topic's first metadata, or for room in the buffer. Later sends, from other tasks or another thread,
must not overtake it, because records of a partition keep their order.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

__all__ = ["Turns"]


class _Line:
    __slots__ = ("length", "lock")

    def __init__(self) -> None:
        # Locks of asyncio are fair: waiters acquire them in order.
        self.lock = asyncio.Lock()
        self.length = 0


class Turns:
    def __init__(self) -> None:
        # Waiting sends by topic.
        self.lines: dict[str, _Line] = {}

    @asynccontextmanager
    async def turn(self, topic: str) -> AsyncIterator[None]:
        line = self.lines.setdefault(topic, _Line())
        line.length += 1
        try:
            async with line.lock:
                yield
        finally:
            line.length -= 1
            if not line.length:
                del self.lines[topic]

    async def passed(self) -> None:
        """Returns when all present waiters have had their turn."""
        for topic in tuple(self.lines):
            if topic in self.lines:
                async with self.turn(topic):
                    pass
