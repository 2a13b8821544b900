"""What a group is to its consumer: a way to learn its partitions, and who it is when it commits."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import NamedTuple, Protocol

from ottla.model.ids import TopicPartition

__all__ = ["Identity", "Membership", "Rebalance", "Subscription"]


class Subscription(NamedTuple):
    topics: tuple[str, ...]
    # A regular expression, instead of names.
    pattern: str | None = None


class Identity(NamedTuple):
    """What a commit says about its member: the generation of a classic group, the epoch of a new one."""

    member_id: str
    generation: int
    instance_id: str | None


# Called with what is taken away, then with the whole new assignment.
Rebalance = Callable[[list[TopicPartition], list[TopicPartition]], Awaitable[None]]


class Membership(Protocol):
    @property
    def identity(self) -> Identity:
        """Who a commit is from, as of now."""

    async def poll(self) -> None:
        """Joins, rejoins or takes over a new assignment, where one of them is due. Called from the consumer's poll."""

    async def leave(self) -> None:
        """Leaves the group, as far as it can be told."""

    def wait(self) -> Awaitable[object]:
        """Done when `poll` has something to do."""
