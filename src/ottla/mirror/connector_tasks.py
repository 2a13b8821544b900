"""The tasks of MirrorMaker 2's three connectors, for Connect.

MirrorMaker 2 can run as three connectors in any Connect cluster, for records, for checkpoints and for heartbeats. A
task runs until it is stopped. Connect decides where a task runs, so there is no state of the flow.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace

from ottla.client.admin.topics import NewTopic, Topics
from ottla.client.cluster import Cluster
from ottla.client.producer import Producer, ProducerSettings
from ottla.mirror.copying.exact import ExactCopier
from ottla.mirror.copying.translated import TranslatedCopier
from ottla.mirror.groups import TRIM_SECONDS, GroupSync
from ottla.mirror.heartbeats import Heartbeats
from ottla.mirror.messages import OffsetSync
from ottla.mirror.names import HEARTBEATS_TOPIC
from ottla.mirror.offset_map import Run, map_topic
from ottla.mirror.settings import FlowSettings, MirrorError, OffsetMode, read_settings
from ottla.mirror.topics import TopicSync
from ottla.model.errors import ErrorCode, KafkaError
from ottla.model.ids import TopicPartition

__all__ = ["copy_records", "flow_of_connector", "write_checkpoints", "write_heartbeats"]

logger = logging.getLogger("ottla.mirror.connector_tasks")

ShouldStop = Callable[[], bool]

_REFRESH_SECONDS_MAX = 5.0
_TICK_SECONDS = 0.2
_COMPACTED = {"cleanup.policy": "compact"}
# Keys of Connect that are not settings of the flow.
_KEYS_OF_CONNECT = (
    *("connector.class", "task.class", "tasks.max.enforce", "tasks.restart.", "errors.", "transforms", "predicates"),
    *("topic.creation.", "config.action.reload", "exactly.once.support", "transaction.boundary", "trigger.interval.ms"),
    *("offsets.storage.topic", "batch.max.", "checkpoint.location"),
)


def flow_of_connector(config: Mapping[str, str]) -> FlowSettings:
    """The flow of a connector's configuration. Raises MirrorError."""
    aliases = {}
    for role in ("source", "target"):
        alias = config.get(f"{role}.cluster.alias", "").strip() or (role if role == "target" else "")
        if not alias:
            raise MirrorError(f"{role}.cluster.alias is missing: the name of the cluster.")
        aliases[role] = alias
    source, target = aliases["source"], aliases["target"]
    if source == target:
        raise MirrorError(f"source.cluster.alias and target.cluster.alias are both {source}.")
    properties = {"clusters": f"{source}, {target}", f"{source}->{target}.enabled": "true"}
    for key, value in config.items():
        for role, alias in aliases.items():
            prefix = f"{role}.cluster."
            if key.startswith(prefix):
                if key != f"{prefix}alias":
                    properties[f"{alias}.{key.removeprefix(prefix)}"] = value
                break
        else:
            if not key.startswith(_KEYS_OF_CONNECT) and key != "enabled":
                properties[key] = value
    (flow,) = read_settings(properties).flows
    return flow


async def copy_records(
    flow: FlowSettings, number: int, count: int, transactional_id: str, *, syncs_at: str, should_stop: ShouldStop
) -> None:
    """MirrorSourceConnector: task `number` of `count` copies its part; the first task also follows the topics."""
    flow = replace(flow, tasks=count)
    source, target = Cluster(flow.source_client), Cluster(flow.target_client)
    syncs = OffsetSyncs(flow, source, target, syncs_at)
    topics = TopicSync(flow, source, target)
    try:
        await _create(target, [map_topic(flow.source)], flow)
        if flow.offset_mode is OffsetMode.TRANSLATED:
            await syncs.create_topic()
        if number == 0:
            await topics.refresh()
        copier = (
            ExactCopier(flow, number)
            if flow.offset_mode is OffsetMode.EXACT
            else TranslatedCopier(flow, number, transactional_id=transactional_id, on_copied=syncs.write)
        )
        parts: list[tuple[float, Callable[[], Awaitable[object]]]] = []
        if number == 0:
            parts = [
                (min(flow.refresh_topics_s, _REFRESH_SECONDS_MAX), topics.refresh),
                (flow.sync_configs_s, topics.sync_configs),
                (flow.sync_acls_s, topics.sync_acls),
            ]
            if flow.offset_mode is OffsetMode.EXACT:
                parts.append((_REFRESH_SECONDS_MAX, topics.sync_starts))
        await _run_together(copier.run, lambda stop: _repeat(parts, stop), should_stop)
    finally:
        await syncs.close()
        await asyncio.gather(source.close(), target.close())


async def write_checkpoints(flow: FlowSettings, should_stop: ShouldStop) -> None:
    """MirrorCheckpointConnector: checkpoints of groups, and their offsets where `sync.group.offsets.enabled`."""
    source, target = Cluster(flow.source_client), Cluster(flow.target_client)
    groups = GroupSync(flow, source, target)

    async def checkpoint() -> None:
        checkpoints = await groups.checkpoint()
        if flow.sync_groups_s > 0:
            await groups.commit(checkpoints)

    async def trim() -> None:
        try:
            await groups.trim_map()
        except KafkaError as error:
            if error.code is not ErrorCode.TOPIC_AUTHORIZATION_FAILED:
                raise
            # Checkpoints do not depend on it. MirrorMaker 2 lets this connector write to the checkpoints topic only.
            topic = map_topic(flow.source)
            logger.warning("%s: topic %s grows, because this login may not write to it: %s", flow.name, topic, error)

    try:
        await _create(target, [flow.policy.checkpoints_topic(flow.source), map_topic(flow.source)], flow)
        await groups.refresh()
        parts: list[tuple[float, Callable[[], Awaitable[object]]]] = [
            (flow.refresh_groups_s, groups.refresh),
            (flow.checkpoints_s, checkpoint),
            (TRIM_SECONDS, trim),
        ]
        await _repeat(parts, should_stop)
    finally:
        await groups.close()
        await asyncio.gather(source.close(), target.close())


async def write_heartbeats(flow: FlowSettings, should_stop: ShouldStop) -> None:
    """MirrorHeartbeatConnector: writes to the target, as in Apache Kafka; flows to other clusters copy the topic."""
    target = Cluster(flow.target_client)
    beats = Heartbeats(flow, target)
    try:
        await _create(target, [HEARTBEATS_TOPIC], flow)
        await _repeat([(flow.heartbeats_s, beats.beat)], should_stop)
    finally:
        await beats.close()
        await target.close()


class OffsetSyncs:
    """Pairs of offsets in MirrorMaker's own topic, at the source or the target (`offset-syncs.topic.location`).

    Kafka's MirrorCheckpointConnector and tools read the topic; checkpoints here come from the exact map.
    """

    def __init__(self, flow: FlowSettings, source: Cluster, target: Cluster, location: str) -> None:
        if location not in ("source", "target"):
            raise MirrorError(f"offset-syncs.topic.location = {location} must be source or target.")
        is_at_source = location == "source"
        self._flow = flow
        self._cluster = source if is_at_source else target
        self._topic = flow.policy.offset_syncs_topic(flow.target if is_at_source else flow.source)
        self._producer = Producer(self._cluster, ProducerSettings(linger_ms=5))

    async def create_topic(self) -> None:
        await _create(self._cluster, [self._topic], self._flow)

    async def write(self, runs: list[tuple[TopicPartition, Run]]) -> None:
        """Writes the offsets of the last record of every partition of a transaction."""
        last = {
            place: OffsetSync(place, run.source_offset + run.length - 1, run.target_offset + run.length - 1)
            for place, run in runs
        }
        for sync in last.values():
            await self._producer.send(self._topic, sync.value(), key=sync.key(), partition=0)

    async def close(self) -> None:
        await self._producer.close()


async def _create(cluster: Cluster, names: list[str], flow: FlowSettings) -> None:
    brokers = len((await cluster.refresh([])).brokers)
    replicas = min(flow.internal_replication_factor, max(1, brokers))
    new = [NewTopic(name=name, partitions=1, replication_factor=replicas, configs=_COMPACTED) for name in names]
    for result in (await Topics(cluster).create(new)).values():
        if isinstance(result, KafkaError) and result.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
            raise result


async def _repeat(parts: list[tuple[float, Callable[[], Awaitable[object]]]], should_stop: ShouldStop) -> None:
    """Runs every part at once, and then at its interval, in a single loop. Interval 0 switches a part off."""
    now = asyncio.get_running_loop().time
    due = [0.0] * len(parts)
    while not should_stop():
        for number, (seconds, part) in enumerate(parts):
            if seconds > 0 and now() >= due[number]:
                await part()
                due[number] = now() + seconds
        await asyncio.sleep(_TICK_SECONDS)


async def _run_together(
    first: Callable[[ShouldStop], Awaitable[None]],
    second: Callable[[ShouldStop], Awaitable[None]],
    should_stop: ShouldStop,
) -> None:
    """Runs both functions until they are stopped. A failure of either ends the other, and is raised."""
    is_over = False

    def stops() -> bool:
        return is_over or should_stop()

    tasks = [asyncio.ensure_future(work(stops)) for work in (first, second)]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
    finally:
        is_over = True
        done = await asyncio.gather(*tasks, return_exceptions=True)
    for result in done:
        if isinstance(result, BaseException):
            raise result
