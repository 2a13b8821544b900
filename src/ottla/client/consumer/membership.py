"""A consumer's membership in its group, the same for both protocols."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, NamedTuple

from ottla.client.errors import ClientError
from ottla.model.errors import KafkaError
from ottla.model.ids import TopicPartition

if TYPE_CHECKING:
    from ottla.client.cluster import Cluster
    from ottla.client.consumer.settings import ConsumerSettings
    from ottla.client.metadata import MetadataCache
    from ottla.wire.message import Message

__all__ = ["Identity", "Membership", "Rebalance", "Subscription"]

# A leaving member waits this long for the coordinator's answer.
LEAVE_MS_MAX = 5_000


class Subscription(NamedTuple):
    topics: tuple[str, ...]
    # A regular expression instead of topic names. Text is matched by the coordinator, if its protocol can do that.
    pattern: str | re.Pattern[str] | None = None

    def matching(self, metadata: MetadataCache, *, hides_internal: bool) -> list[str]:
        """The topics that the pattern matches, for coordinators that do not match it."""
        assert self.pattern is not None
        matches = re.compile(self.pattern).fullmatch
        return sorted(
            name
            for name, info in metadata.topics.items()
            if matches(name) and not (info.is_internal and hides_internal)
        )


class Identity(NamedTuple):
    """The member in a commit: the generation of a classic group, the member epoch of the new protocol."""

    member_id: str
    generation: int
    instance_id: str | None


# Called with the revoked partitions and the whole new assignment.
Rebalance = Callable[[list[TopicPartition], list[TopicPartition]], Awaitable[None]]


class Membership:
    """The base of both protocols: owned partitions, heartbeats, and the poll interval."""

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
        # Polls that wait for records at this moment.
        self._waiting_polls = 0

    @property
    def subscription(self) -> Subscription:
        return self._subscription

    @property
    def is_member(self) -> bool:
        """False if the coordinator has removed the member: other members may own its partitions."""
        return self.identity.generation > 0

    @property
    def identity(self) -> Identity:
        """The present identity of the member, for commits."""
        raise NotImplementedError

    async def wait(self) -> None:
        """Completes when a `poll` is due. An application that waits here counts as polling."""
        self._waiting_polls += 1
        try:
            await self._due.wait()
        finally:
            self._waiting_polls -= 1
            self._has_polled()

    async def poll(self, deadline: float | None = None) -> None:
        """Joins or applies a new assignment, if that is due, up to a deadline. Called by the consumer's poll."""
        raise NotImplementedError

    def enforce_rebalance(self) -> None:
        """Joins again at the next poll; in groups of the new protocol the coordinator decides about rebalances."""

    async def leave(self) -> None:
        """Leaves the group, if the coordinator is reachable."""
        await self._stop_heartbeats()
        await self._leave_group()

    async def _leave_group(self) -> None:
        raise NotImplementedError

    async def _send_leave(self, request: Message, *, purpose: str = "") -> bool:
        """Returns True if the coordinator has answered; otherwise the session times out later."""
        deadline = self._cluster.deadline(LEAVE_MS_MAX)
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
    def _is_poll_overdue(self) -> bool:
        """True if the application exceeds max.poll.interval: the member leaves, and the next poll joins again."""
        silent_seconds = 0.0 if self._waiting_polls else asyncio.get_running_loop().time() - self._polled
        return silent_seconds > self._settings.max_poll_interval_ms / 1000

    async def _stop_heartbeats(self) -> None:
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
