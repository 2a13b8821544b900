"""The facts that the doctor checks: gathered once, so that every check is a small function over plain values."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ottla.cli.logic.doctor_metrics import NodeMetrics, read_node_metrics
from ottla.cli.logic.doctor_schemas import BreakingVersion, find_breaking_versions
from ottla.cli.logic.group_lag import GroupRow, group_rows
from ottla.cli.logic.hanging import HangingTransaction, find_hanging_transactions
from ottla.client.admin import AdminClient
from ottla.client.admin.configs import ConfigResource, ResourceType
from ottla.client.admin.groups import DescribedGroup
from ottla.client.admin.nodes import ClusterNode, Quorum
from ottla.client.admin.partitions import LogDirectory, OngoingReassignment
from ottla.client.admin.topics import DescribedTopic
from ottla.client.errors import ClientError
from ottla.mirror.heartbeat_times import find_heartbeats
from ottla.model.errors import KafkaError
from ottla.model.ids import TopicPartition
from ottla.serdes.registry_client import RegistryClient, RegistryClientError
from ottla.wire.peers import Endpoint

if TYPE_CHECKING:
    from ottla.mirror.flow import FlowLag
    from ottla.mirror.settings import FlowSettings

__all__ = ["ClusterFacts", "FlowFacts", "GroupFacts", "gather"]

# A transaction counts as hanging if its producer has been silent for longer than transactions may take.
TRANSACTION_SILENCE_MS = 15 * 60_000

# Heartbeats are written every second. A flow whose newest one is older has fallen behind.
MIRROR_SECONDS_MAX = 60.0

# Hosts of a listener on any address.
_ANY_ADDRESS = ("", "0.0.0.0", "[::]", "::")


@dataclass(slots=True, kw_only=True)
class GroupFacts:
    group: DescribedGroup
    before: list[GroupRow]
    after: list[GroupRow]


@dataclass(slots=True, kw_only=True)
class FlowFacts:
    """The lag of a mirroring flow at two points in time."""

    name: str
    before: FlowLag
    after: FlowLag


@dataclass(slots=True, kw_only=True)
class ClusterFacts:
    brokers: list[ClusterNode] = field(default_factory=list)
    # Brokers that are registered and not fenced, but do not answer.
    silent: list[int] = field(default_factory=list)
    topics: list[DescribedTopic] = field(default_factory=list)
    # Topic -> setting -> value.
    topic_settings: dict[str, dict[str, str]] = field(default_factory=dict)
    broker_settings: dict[int, dict[str, str]] = field(default_factory=dict)
    directories: dict[int, list[LogDirectory]] = field(default_factory=dict)
    groups: list[GroupFacts] = field(default_factory=list)
    quorum: Quorum | None = None
    # The controller's clock minus ours.
    clock_skew_ms: int = 0
    moving: dict[TopicPartition, OngoingReassignment] = field(default_factory=dict)
    hanging: list[HangingTransaction] = field(default_factory=list)
    # Broker -> its metrics, where they can be read.
    metrics: dict[int, NodeMetrics] = field(default_factory=dict)
    # Broker -> failed logins per second, between two samples of its metrics.
    failed_logins_per_second: dict[int, float] = field(default_factory=dict)
    breaking_versions: list[BreakingVersion] = field(default_factory=list)
    # Source and target of a mirroring flow -> the time of its newest heartbeat, in ms.
    heartbeats: dict[tuple[str, str], int] = field(default_factory=dict)
    mirror_seconds_max: float = MIRROR_SECONDS_MAX
    flows: list[FlowFacts] = field(default_factory=list)
    now_seconds: float = field(default_factory=time.time)
    # Facts that could not be gathered, and why.
    unknown: list[str] = field(default_factory=list)


async def gather(
    admin: AdminClient,
    *,
    seconds: float,
    transaction_silence_ms: int = TRANSACTION_SILENCE_MS,
    mirror_seconds_max: float = MIRROR_SECONDS_MAX,
    registry: Callable[[], RegistryClient] | None = None,
    flows: Sequence[FlowSettings] = (),
) -> ClusterFacts:
    """Gathers all facts; groups, logins and mirrors twice, `seconds` apart, to see what moves.

    `registry` makes a client of the Schema Registry, which is used in one thread and closed there.
    """
    facts = ClusterFacts(mirror_seconds_max=mirror_seconds_max)
    facts.brokers = list((await admin.cluster.describe(fenced=True)).brokers)
    answering = await _answering(admin, facts)
    names = await admin.topics.names()
    described = await admin.topics.describe(names)
    facts.topics = [topic for topic in described.values() if isinstance(topic, DescribedTopic)]
    await _settings(admin, facts, answering)
    for broker, directories in (await admin.partitions.log_directories(answering)).items():
        if isinstance(directories, KafkaError):
            facts.unknown.append(f"log directories of broker {broker}: {directories.message}")
        else:
            facts.directories[broker] = directories
    looked_at = time.monotonic()
    facts.metrics = await _metrics(facts, facts.unknown)
    await _optional(facts, "the quorum", _quorum(admin, facts))
    await _optional(facts, "reassignments", _moving(admin, facts))
    await _optional(facts, "transactions", _hanging(admin, facts, transaction_silence_ms))
    await _optional(facts, "mirrors", _heartbeats(admin, facts))
    if registry is not None:
        await _schemas(registry, facts)
    await _optional(facts, "the records of mirrors", _flows(facts, flows))
    await _optional(facts, "groups", _groups(admin, facts, seconds, answering))
    await _look_again(facts, flows, looked_at, seconds)
    return facts


async def _answering(admin: AdminClient, facts: ClusterFacts) -> list[int]:
    """The brokers that accept connections; requests to the other brokers would only time out."""

    async def reach(node: ClusterNode) -> bool:
        try:
            await admin.connections.connection(Endpoint(node.host, node.port))
        except ClientError:
            return False
        return True

    live = [node for node in facts.brokers if not node.is_fenced]
    reached = await asyncio.gather(*[reach(node) for node in live])
    facts.silent = [node.node_id for node, answers in zip(live, reached, strict=True) if not answers]
    return [node.node_id for node, answers in zip(live, reached, strict=True) if answers]


async def _optional(facts: ClusterFacts, label: str, work: object) -> None:
    """Awaits a request. An error, such as an older cluster's that does not support it, is noted in `unknown`."""
    try:
        await work  # type: ignore[misc]
    except (KafkaError, ClientError) as error:
        facts.unknown.append(f"{label}: {error}")


async def _settings(admin: AdminClient, facts: ClusterFacts, answering: list[int]) -> None:
    resources = [ConfigResource(ResourceType.TOPIC, topic.name) for topic in facts.topics]
    resources += [ConfigResource(ResourceType.BROKER, str(broker)) for broker in answering]
    for resource, entries in (await admin.configs.describe(resources)).items():
        if isinstance(entries, KafkaError):
            facts.unknown.append(f"settings of {resource.name}: {entries.message}")
            continue
        values = {entry.name: entry.value for entry in entries if entry.value is not None}
        if resource.type is ResourceType.TOPIC:
            facts.topic_settings[resource.name] = values
        else:
            facts.broker_settings[int(resource.name)] = values


async def _metrics(facts: ClusterFacts, unknown: list[str]) -> dict[int, NodeMetrics]:
    """The metrics of brokers where `ottla.metrics.listener` is set and reachable."""
    metrics = {}
    for node in facts.brokers:
        address = facts.broker_settings.get(node.node_id, {}).get("ottla.metrics.listener", "")
        host, _, port = address.rpartition(":")
        if not port or port == "0":
            continue
        reachable = node.host if host in _ANY_ADDRESS else host
        try:
            metrics[node.node_id] = await read_node_metrics(reachable, int(port))
        except OSError as error:
            reason = f"the metrics at {reachable}:{port} cannot be read: {error}"
            unknown.append(f"damaged segments, certificates and logins of broker {node.node_id}, because {reason}")
    return metrics


async def _flows(facts: ClusterFacts, flows: Sequence[FlowSettings]) -> None:
    for flow in flows:
        lag = await _lag(flow)
        facts.flows.append(FlowFacts(name=flow.name, before=lag, after=lag))


async def _lag(flow: FlowSettings) -> FlowLag:
    # Few clusters have mirrors.
    from ottla.mirror.flow import find_lag

    return await find_lag(flow)


async def _look_again(facts: ClusterFacts, flows: Sequence[FlowSettings], looked_at: float, seconds: float) -> None:
    """Samples failed logins and lags a second time, because a single total or lag does not show the trend."""
    has_failed_logins = any(metrics.failed_logins for metrics in facts.metrics.values())
    behind = [(entry, flow) for entry, flow in zip(facts.flows, flows, strict=False) if entry.before.records]
    if not has_failed_logins and not behind:
        return
    await asyncio.sleep(max(looked_at + seconds - time.monotonic(), 0.0))
    for entry, flow in behind:
        entry.after = await _lag(flow)
    if has_failed_logins:
        await _failing_logins(facts, looked_at)


async def _failing_logins(facts: ClusterFacts, looked_at: float) -> None:
    later = await _metrics(facts, [])
    elapsed = max(time.monotonic() - looked_at, 0.001)
    for broker, metrics in facts.metrics.items():
        if broker in later and later[broker].failed_logins >= metrics.failed_logins:
            failures = later[broker].failed_logins - metrics.failed_logins
            facts.failed_logins_per_second[broker] = failures / elapsed


async def _heartbeats(admin: AdminClient, facts: ClusterFacts) -> None:
    facts.heartbeats = await find_heartbeats(admin)
    facts.now_seconds = time.time()


async def _schemas(registry: Callable[[], RegistryClient], facts: ClusterFacts) -> None:
    def look() -> list[BreakingVersion]:
        with closing(registry()) as client:
            return find_breaking_versions(client)

    try:
        facts.breaking_versions = await asyncio.to_thread(look)
    except RegistryClientError as error:
        facts.unknown.append(f"schemas: {error}")


async def _quorum(admin: AdminClient, facts: ClusterFacts) -> None:
    before = time.time() * 1000
    facts.quorum = await admin.cluster.quorum()
    after = time.time() * 1000
    leader = next((voter for voter in facts.quorum.voters if voter.node_id == facts.quorum.leader_id), None)
    if leader is not None and leader.last_caught_up_timestamp > 0:
        # A leader is always caught up with itself, so this is its clock, give or take a round trip.
        now = leader.last_caught_up_timestamp
        facts.clock_skew_ms = int(now - after) if now > after else int(min(now - before, 0))


async def _moving(admin: AdminClient, facts: ClusterFacts) -> None:
    facts.moving = await admin.partitions.reassignments()


async def _hanging(admin: AdminClient, facts: ClusterFacts, silence_ms: int) -> None:
    partitions = [
        TopicPartition(topic.name, partition.partition)
        for topic in facts.topics
        if not topic.is_internal
        for partition in topic.partitions
        if partition.leader >= 0
    ]
    older = int(time.time() * 1000) - silence_ms
    facts.hanging = await find_hanging_transactions(admin, partitions, older_than_ms=older)


async def _groups(admin: AdminClient, facts: ClusterFacts, seconds: float, answering: list[int]) -> None:
    ids = [group.group_id for group in await admin.groups.find(brokers=answering)]
    described = [group for group in (await admin.groups.describe(ids)).values() if isinstance(group, DescribedGroup)]
    before = [await group_rows(admin, group) for group in described]
    if any(row.lag for rows in before for row in rows):
        await asyncio.sleep(seconds)
        after = [await group_rows(admin, group) for group in described]
    else:
        after = before
    facts.groups = [
        GroupFacts(group=group, before=first, after=second)
        for group, first, second in zip(described, before, after, strict=True)
    ]
