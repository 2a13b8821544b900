"""The driver of a flow: topics, settings, rights, groups and heartbeats, each at its interval.

Workers copy the records (`copying`). The driver prepares the topics for them, and reports their progress.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from ottla.client.admin.topics import NewTopic, Topics
from ottla.client.cluster import Cluster
from ottla.client.errors import ClientError
from ottla.client.producer import Producer, ProducerSettings
from ottla.mirror.copying.fencing import fence_workers
from ottla.mirror.copying.ownership import Ownership
from ottla.mirror.groups import TRIM_SECONDS, GroupSync
from ottla.mirror.heartbeats import Heartbeats
from ottla.mirror.names import HEARTBEATS_TOPIC
from ottla.mirror.offset_map import map_topic
from ottla.mirror.progress import find_progress
from ottla.mirror.settings import FlowSettings, MirrorError, OffsetMode
from ottla.mirror.state import FlowState, FlowStates
from ottla.mirror.topics import TopicSync
from ottla.model.errors import ErrorCode, KafkaError

__all__ = ["FlowDriver", "FlowLag", "find_lag"]

logger = logging.getLogger("ottla.mirror.flow")

# New topics are looked for at least this often, whatever the interval: MirrorMaker's ten minutes are long.
_REFRESH_SECONDS_MAX = 5.0
_OWNERSHIP_SECONDS = 5.0
_COMPACTED = {"cleanup.policy": "compact"}


@dataclass(frozen=True, slots=True)
class FlowLag:
    """How far the target is behind the source."""

    partitions: int
    records: int
    worst_partition: str
    worst_records: int


class FlowDriver:
    """`start` prepares the target; `run` follows the source until it is cancelled."""

    def __init__(self, flow: FlowSettings) -> None:
        self.flow = flow
        self._source = Cluster(flow.source_client)
        self._target = Cluster(flow.target_client)
        self._topics = TopicSync(flow, self._source, self._target)
        self.groups = GroupSync(flow, self._source, self._target)
        self._trim_at = 0.0
        self.run_id = str(uuid.uuid4())
        self._ownership = Ownership(flow, self._target, self.run_id)
        self._heartbeats = Heartbeats(flow, self._source)
        self._announced: frozenset[tuple[object, ...]] = frozenset()
        self._news = Producer(self._target, ProducerSettings(linger_ms=0))

    async def start(self) -> None:
        """Creates the internal topics and the copies. Raises MirrorError, KafkaError or ClientError."""
        await self._check_clusters()
        await self._create_internal_topics()
        await self._take_over()
        await self._topics.refresh()

    async def state(self) -> FlowState:
        states = FlowStates(self.flow, self._target)
        try:
            return await states.read()
        finally:
            await states.close()

    async def _take_over(self) -> None:
        """Ends workers of an earlier run, also those whose numbers are not used any more. Raises FlowEnded."""
        states = FlowStates(self.flow, self._target)
        try:
            await states.claim(self.run_id)
        finally:
            await states.close()
        await fence_workers(self.flow, self._target)

    async def run(self) -> None:
        """Raises FlowEnded when the flow belongs to another run or was failed over."""
        flow = self.flow
        parts: list[tuple[float, Callable[[], Awaitable[object]]]] = [
            (min(flow.refresh_topics_s, _REFRESH_SECONDS_MAX), self.refresh_topics),
            (flow.sync_configs_s, self._topics.sync_configs),
            (flow.sync_acls_s, self._topics.sync_acls),
            (flow.heartbeats_s, self._heartbeats.beat),
            (flow.refresh_groups_s, self.groups.refresh),
            (flow.checkpoints_s, self.sync_groups),
        ]
        if flow.offset_mode is OffsetMode.EXACT:
            parts.append((min(flow.refresh_topics_s, _REFRESH_SECONDS_MAX), self._topics.sync_starts))
        await self.groups.refresh()
        async with asyncio.TaskGroup() as tasks:
            for seconds, part in parts:
                if seconds > 0:
                    tasks.create_task(self._repeat(part, seconds))
            tasks.create_task(self._repeat(self._ownership.check, _OWNERSHIP_SECONDS))

    async def refresh_topics(self) -> None:
        """Prepares new topics, and announces them to the workers."""
        topics = await self._topics.refresh()
        if topics != self._announced:
            await FlowStates(self.flow, self._target).announce_topics(self._news)
            self._announced = topics

    async def sync_groups(self) -> None:
        # A flow that was failed over must not move groups that run at the target.
        await self._ownership.check()
        checkpoints = await self.groups.checkpoint()
        if self.flow.sync_groups_s > 0:
            await self.groups.commit(checkpoints)
        now = asyncio.get_running_loop().time()
        if now >= self._trim_at:
            await self.groups.trim_map()
            self._trim_at = now + TRIM_SECONDS

    async def lag(self) -> FlowLag:
        """Records at the source that are not at the target yet."""
        behind = await find_progress(self.flow, self._source, self._target)
        worst = max(behind, key=lambda progress: progress.missing, default=None)
        return FlowLag(
            len(behind),
            sum(progress.missing for progress in behind),
            str(worst.pair.source) if worst else "",
            worst.missing if worst else 0,
        )

    async def close(self) -> None:
        await self._heartbeats.close()
        await self._news.close()
        await self._ownership.close()
        await self.groups.close()
        await asyncio.gather(self._source.close(), self._target.close())

    # Internals.

    async def _repeat(self, part: Callable[[], Awaitable[object]], seconds: float) -> None:
        logged = ""
        while True:
            try:
                await part()
                logged = ""
            except (KafkaError, ClientError) as error:
                # A cluster that cannot be reached comes back; workers wait for it in the same way.
                if str(error) != logged:
                    logged = str(error)
                    logger.warning("%s: %s", self.flow.name, error)
            await asyncio.sleep(seconds)

    async def _check_clusters(self) -> None:
        """Refuses a mirror from a cluster to itself, which would never end."""
        ids = await asyncio.gather(_cluster_id(self._source), _cluster_id(self._target))
        if ids[0] and ids[0] == ids[1]:
            raise MirrorError(f"{self.flow.name}: both names stand for the same cluster ({ids[0]}).")

    async def _create_internal_topics(self) -> None:
        flow = self.flow
        await self._create(self._target, [flow.policy.checkpoints_topic(flow.source), map_topic(flow.source)])
        if flow.heartbeats_s > 0:
            try:
                await self._create(self._source, [HEARTBEATS_TOPIC])
            except KafkaError as error:
                # A mirror may have no right to write to its source.
                logger.warning("%s: no heartbeats, %s cannot be created: %s", flow.name, HEARTBEATS_TOPIC, error)

    async def _create(self, cluster: Cluster, names: list[str]) -> None:
        brokers = len((await cluster.refresh([])).brokers)
        replicas = min(self.flow.internal_replication_factor, max(1, brokers))
        new = [NewTopic(name=name, partitions=1, replication_factor=replicas, configs=_COMPACTED) for name in names]
        for result in (await Topics(cluster).create(new)).values():
            if isinstance(result, KafkaError) and result.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
                raise result


async def _cluster_id(cluster: Cluster) -> str | None:
    return (await cluster.refresh([])).cluster_id


async def find_lag(flow: FlowSettings) -> FlowLag:
    """How far the target is behind now, for programs that do not run the flow."""
    driver = FlowDriver(flow)
    try:
        return await driver.lag()
    finally:
        await driver.close()
