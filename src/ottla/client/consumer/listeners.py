"""Listeners of rebalances: partitions that a member is assigned, gives up, or has lost."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from ottla.model.ids import TopicPartition

__all__ = ["FunctionListener", "OnPartitions", "RebalanceListener"]

OnPartitions = Callable[[list[TopicPartition]], Awaitable[object] | None]
"""A function, or a coroutine function, of partitions."""


class RebalanceListener:
    """The base of listeners, which override what they need. The consumer calls them inside `poll` and `close`."""

    async def on_assigned(self, partitions: list[TopicPartition]) -> None:
        """Partitions were added, and are not fetched yet: this is the place to seek."""

    async def on_revoked(self, partitions: list[TopicPartition]) -> None:
        """Partitions are given up, and still belong to this member: this is the place to commit."""

    async def on_lost(self, partitions: list[TopicPartition]) -> None:
        """Partitions belong to other members already: nothing can be committed for them."""
        await self.on_revoked(partitions)


class FunctionListener(RebalanceListener):
    """A listener from functions. Without `on_lost`, lost partitions count as revoked."""

    def __init__(
        self, on_assigned: OnPartitions | None, on_revoked: OnPartitions | None, on_lost: OnPartitions | None
    ) -> None:
        self._on_assigned = on_assigned
        self._on_revoked = on_revoked
        self._on_lost = on_lost or on_revoked

    async def on_assigned(self, partitions: list[TopicPartition]) -> None:
        await _call(self._on_assigned, partitions)

    async def on_revoked(self, partitions: list[TopicPartition]) -> None:
        await _call(self._on_revoked, partitions)

    async def on_lost(self, partitions: list[TopicPartition]) -> None:
        await _call(self._on_lost, partitions)


async def _call(function: OnPartitions | None, partitions: list[TopicPartition]) -> None:
    result: Any = None if function is None else function(partitions)
    if hasattr(result, "__await__"):
        await result
