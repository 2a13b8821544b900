"""What a group is to its consumer: a way to learn its partitions, and who it is when it commits."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, NamedTuple

from ottla.client.errors import ClientError
from ottla.model.errors import KafkaError
from ottla.model.ids import TopicPartition

if TYPE_CHECKING:
    from ottla.client.cluster import Cluster
    from ottla.client.consumer.settings import ConsumerSettings
    from ottla.wire.message import Message

__all__ = ["Identity", "Membership", "Rebalance", "Subscription"]

# Whoever leaves does not wait longer than this for the coordinator to take notice.
GOODBYE_MS_MAX = 5_000


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


class Membership:
    """What both protocols share: who the member is, what it owns, and whether anybody still polls."""

    def __init__(
        self, cluster: Cluster, settings: ConsumerSettings, subscription: Subscription, on_rebalance: Rebalance
    ) -> None:
        assert settings.group_id is not None
        self._cluster = cluster
        self._settings = settings
        self._group_id = settings.group_id
        self._subscription = subscription
        self._on_rebalance = on_rebalance
        self._owned: list[TopicPartition] = []
        self._task: asyncio.Task[None] | None = None
        self._due = asyncio.Event()
        self._polled = 0.0

    @property
    def is_member(self) -> bool:
        """False if the coordinator has removed the member: other members may own its partitions."""
        return self.identity.generation > 0

    @property
    def identity(self) -> Identity:
        """The member as commits name it at this time."""
        raise NotImplementedError

    def wait(self) -> Awaitable[object]:
        """Done when `poll` has something to do."""
        return self._due.wait()

    async def poll(self) -> None:
        """Joins, rejoins or takes over a new assignment, where one of them is due. Called from the consumer's poll."""
        raise NotImplementedError

    async def leave(self) -> None:
        """Leaves the group, as far as it can be told."""
        await self._stop_heartbeats()
        await self._say_goodbye()

    async def _say_goodbye(self) -> None:
        raise NotImplementedError

    async def _tell_goodbye(self, request: Message, *, purpose: str = "") -> bool:
        """Whether the coordinator has heard it; if not, the session ends by itself, later."""
        deadline = self._cluster.deadline(GOODBYE_MS_MAX)
        try:
            await self._cluster.ask_coordinator(
                self._cluster.GROUP, self._group_id, request, deadline=deadline, purpose=purpose
            )
        except (ClientError, KafkaError):
            return False
        return True

    def _has_polled(self) -> None:
        self._polled = asyncio.get_running_loop().time()

    @property
    def _nobody_polls(self) -> bool:
        """Whether the application has stopped: others shall have the partitions, and its next poll joins again."""
        silent_seconds = asyncio.get_running_loop().time() - self._polled
        return silent_seconds > self._settings.max_poll_interval_ms / 1000

    async def _stop_heartbeats(self) -> None:
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
