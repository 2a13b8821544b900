"""A short-lived cache of the cluster: metadata and sizes, read when a page needs them.

A value is served from memory while it is fresh. A value that is stale but usable is served as well, while a new one is
read in the background, so that no page of a large cluster waits for the whole of its metadata. A change through the
console drops the values that it may have changed.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import replace
from typing import Generic, TypeVar

from ottla.client.admin import AdminClient
from ottla.client.admin.groups import ListedGroup
from ottla.client.admin.partitions import LogDirectory
from ottla.client.cluster import calls_within
from ottla.client.errors import ClientError
from ottla.client.settings import ClientSettings
from ottla.console.aside import Aside
from ottla.console.cluster_state import ClusterState, read_state
from ottla.console.features import features_of
from ottla.console.lag_history import LagHistory
from ottla.model.errors import KafkaError
from ottla.model.ids import TopicPartition
from ottla.wire.peers import Endpoint

__all__ = ["Cached", "ClusterView", "leader_sizes", "or_none"]

logger = logging.getLogger(__name__)

T = TypeVar("T")

# Of every request, so that a page soon shows that the cluster does not answer.
READ_TIMEOUT_MS = 8_000
METADATA_FRESH_SECONDS = 1.0
METADATA_USABLE_SECONDS = 30.0
SIZES_FRESH_SECONDS = 10.0
SIZES_USABLE_SECONDS = 120.0
GROUPS_FRESH_SECONDS = 1.0
GROUPS_USABLE_SECONDS = 30.0
# Reads of a value take at most 1/COST_FACTOR of the time.
COST_FACTOR = 20.0
FEATURES_FRESH_SECONDS = 30.0
FEATURES_USABLE_SECONDS = 3600.0
# A stale value is usable until its age is the duration of its read times this factor.
STALE_FACTOR = 100.0
WATCH_SECONDS = 60.0
WATCHED_MAX = 50
# With this many partitions or more, work on all of them does not run on the loop of the console.
LARGE_PARTITIONS = 2_000
# How long the session of a browser waits for the state.
STATE_SECONDS_MAX = 0.1
# How long a page waits for figures that it can do without.
FIGURES_SECONDS_MAX = 2.0


async def or_none(work: Awaitable[T], seconds: float = FIGURES_SECONDS_MAX) -> T | None:
    """The result, or None after a failure: a page is shown without a figure that a lost node does not send."""
    try:
        async with asyncio.timeout(seconds):
            return await work
    except (KafkaError, ClientError, TimeoutError, OSError) as error:
        logger.debug("A figure is missing: %s", error)
        return None


class Cached(Generic[T]):
    """A value that at most one task reads at a time."""

    def __init__(
        self,
        read: Callable[[], Awaitable[T]],
        *,
        fresh_seconds: float,
        usable_seconds: float,
        timeout_ms: int = READ_TIMEOUT_MS,
    ) -> None:
        self._read = read
        self._timeout_ms = timeout_ms
        self._fresh_seconds = fresh_seconds
        self._usable_seconds = usable_seconds
        self._value: T | None = None
        self._read_at = float("-inf")
        # The duration of the last read. An expensive value is read less often.
        self._cost_seconds = 0.0
        self._reading: asyncio.Task[T] | None = None

    async def get(self, *, cost_factor: float = COST_FACTOR) -> T:
        """The value; waits only if no value is usable. Reads take at most 1/`cost_factor` of the time."""
        age = asyncio.get_running_loop().time() - self._read_at
        if self._value is not None and age < max(self._fresh_seconds, cost_factor * self._cost_seconds):
            return self._value
        if self._reading is None:
            self._reading = asyncio.ensure_future(self._refresh())
            self._reading.add_done_callback(self._on_read)
        # A quick read is worth waiting for; during a slow read the last value is shown.
        if self._value is not None and age < min(self._usable_seconds, STALE_FACTOR * self._cost_seconds):
            return self._value
        return await asyncio.shield(self._reading)

    @property
    def value(self) -> T | None:
        """The last value, of any age."""
        return self._value

    def drop(self) -> None:
        """The next caller waits for a new value. A read that has begun may miss the change, so it is not used."""
        self._read_at = float("-inf")
        self._reading = None

    async def close(self) -> None:
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.gather(self._reading, return_exceptions=True)

    async def _refresh(self) -> T:
        began = asyncio.get_running_loop().time()
        # The caller that begins the read may be a stream without a deadline; other callers wait for the same read.
        with calls_within(self._timeout_ms):
            value = await self._read()
        if self._reading is asyncio.current_task():
            self._value, self._read_at = value, began
            self._cost_seconds = asyncio.get_running_loop().time() - began
        return value

    def _on_read(self, task: asyncio.Task[T]) -> None:
        if self._reading is task:
            self._reading = None
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.debug("The cluster cannot be read: %s", error)


class ClusterView:
    """The cluster as an account may see it."""

    def __init__(self, admin: AdminClient) -> None:
        self._admin = admin
        self._aside = Aside()
        timeout_ms = min(READ_TIMEOUT_MS, admin.connections.settings.api_timeout_ms)
        self.state = Cached(
            self._read_state,
            fresh_seconds=METADATA_FRESH_SECONDS,
            usable_seconds=METADATA_USABLE_SECONDS,
            timeout_ms=timeout_ms,
        )
        self.sizes = Cached(
            self._read_sizes,
            fresh_seconds=SIZES_FRESH_SECONDS,
            usable_seconds=SIZES_USABLE_SECONDS,
            timeout_ms=timeout_ms,
        )
        self.features = Cached(
            self._read_features,
            fresh_seconds=FEATURES_FRESH_SECONDS,
            usable_seconds=FEATURES_USABLE_SECONDS,
            timeout_ms=timeout_ms,
        )
        self._active_controller = Cached(
            self._read_active_controller,
            fresh_seconds=METADATA_FRESH_SECONDS,
            usable_seconds=METADATA_USABLE_SECONDS,
            timeout_ms=timeout_ms,
        )
        self.lags = LagHistory()
        # Groups that a page shows -> the time until which the live figures follow them.
        self._watched: dict[str, float] = {}
        self.groups = Cached(
            self._read_groups,
            fresh_seconds=GROUPS_FRESH_SECONDS,
            usable_seconds=GROUPS_USABLE_SECONDS,
            timeout_ms=timeout_ms,
        )

    def drop(self) -> None:
        for cached in (self.state, self.sizes, self.groups):
            cached.drop()

    @property
    def settings(self) -> ClientSettings:
        """For a new client: it begins with the brokers that are known now. The configured brokers may be lost."""
        first, state = self._admin.connections.settings, self.state.value
        if state is None:
            return first
        known = [Endpoint(broker.host, broker.port) for broker in state.brokers.values()]
        return replace(first, bootstrap_servers=tuple(dict.fromkeys([*known, *first.bootstrap_servers])))

    async def run(self, work: Callable[[AdminClient], Awaitable[T]], settings: ClientSettings | None = None) -> T:
        """Runs work on all partitions; in a large cluster on its own thread. With settings it gets its own client."""
        state = self.state.value
        if state is not None and len(state.led) >= LARGE_PARTITIONS:
            return await self._aside.run(settings or self.settings, work)
        if settings is None:
            return await work(self._admin)
        async with AdminClient(settings) as admin:
            return await work(admin)

    def watch(self, group_id: str) -> None:
        """The live figures follow this group for a while."""
        self._watched[group_id] = asyncio.get_running_loop().time() + WATCH_SECONDS

    def watched(self) -> list[str]:
        now = asyncio.get_running_loop().time()
        self._watched = {group_id: until for group_id, until in self._watched.items() if until > now}
        return list(self._watched)[-WATCHED_MAX:]

    async def controller_id(self) -> int:
        """The active controller. Metadata names any broker, so it counts only if the quorum cannot be read."""
        leader = await or_none(self._active_controller.get())
        return (await self.state.get()).controller_id if leader is None or leader < 0 else leader

    async def close(self) -> None:
        for cached in (self.state, self.sizes, self.groups, self.features, self._active_controller):
            await cached.close()
        await self._aside.close()

    async def sizes_of(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The sizes of the leaders' logs; partitions whose leader does not answer are missing."""
        state = await self.state.get()
        by_leader: dict[int, list[TopicPartition]] = {}
        for partition in partitions:
            info = state.topics.get(partition.topic)
            leader = (
                -1
                if info is None or partition.partition not in info.partitions
                else info.partitions[partition.partition].leader
            )
            if leader in state.brokers:
                by_leader.setdefault(leader, []).append(partition)

        async def ask(leader: int, led: list[TopicPartition]) -> dict[TopicPartition, int]:
            answer = await or_none(self._admin.partitions.log_directories([leader], partitions=led))
            return {} if answer is None else leader_sizes(answer)

        sizes: dict[TopicPartition, int] = {}
        for sizes_of_leader in await asyncio.gather(*[ask(leader, led) for leader, led in by_leader.items()]):
            sizes |= sizes_of_leader
        return sizes

    async def _read_state(self) -> ClusterState:
        state = await self.run(read_state)
        # The client of this loop sends requests to the current leaders, even if another client has read the state.
        self._admin.connections.metadata.adopt(state.brokers, state.topics)
        return state

    async def _read_sizes(self) -> dict[int, list[LogDirectory] | KafkaError]:
        state = await self.state.get()

        async def ask(broker: int) -> list[LogDirectory] | KafkaError | None:
            answer = await or_none(self.run(lambda admin: admin.partitions.log_directories([broker])), 10.0)
            return None if answer is None else answer[broker]

        answers = await asyncio.gather(*map(ask, state.brokers))
        return {
            broker: directories
            for broker, directories in zip(state.brokers, answers, strict=True)
            if directories is not None
        }

    async def _read_features(self) -> dict[str, bool | None]:
        # Only one feature needs the whole state, which takes long to read in a large cluster.
        return await features_of(self._admin, await or_none(self.state.get(), STATE_SECONDS_MAX) or self.state.value)

    async def _read_active_controller(self) -> int:
        return (await self._admin.cluster.quorum()).leader_id

    async def _read_groups(self) -> list[ListedGroup]:
        return await self._admin.groups.find()


def leader_sizes(answer: dict[int, list[LogDirectory] | KafkaError]) -> dict[TopicPartition, int]:
    """The sizes in an answer of leaders about partitions that they lead."""
    return {
        partition: replica.size_bytes
        for directories in answer.values()
        if not isinstance(directories, KafkaError)
        for directory in directories
        for partition, replica in directory.replicas.items()
        if not replica.is_future
    }
