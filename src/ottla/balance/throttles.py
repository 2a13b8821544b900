"""Throttles of a reassignment (KIP-73): rates of brokers, and the throttled replicas."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from ottla.client.admin import AdminClient
from ottla.client.admin.configs import ConfigChange, ConfigOperation, ConfigResource, ResourceType
from ottla.model.ids import TopicPartition

__all__ = ["clear_throttles", "set_rates", "set_throttled_replicas", "set_throttles", "throttled_replicas"]

LEADER_RATE = "leader.replication.throttled.rate"
FOLLOWER_RATE = "follower.replication.throttled.rate"
DIRECTORY_RATE = "replica.alter.log.dirs.io.max.bytes.per.second"
LEADER_REPLICAS = "leader.replication.throttled.replicas"
FOLLOWER_REPLICAS = "follower.replication.throttled.replicas"


async def set_throttles(
    admin: AdminClient,
    current: Mapping[TopicPartition, Sequence[int]],
    target: Mapping[TopicPartition, Sequence[int]],
    *,
    between: int | None,
    within: int | None = None,
) -> None:
    """Sets the throttles before the first move: bytes per second between brokers, and within a broker."""
    if between is not None:
        await set_throttled_replicas(admin, current, target)
    involved = {broker for replicas in (*current.values(), *target.values()) for broker in replicas}
    await set_rates(admin, involved, between=between, within=within)


async def set_throttled_replicas(
    admin: AdminClient,
    current: Mapping[TopicPartition, Sequence[int]],
    target: Mapping[TopicPartition, Sequence[int]],
) -> None:
    """Names the replicas that are throttled, in the settings of their topics."""
    leaders, followers = throttled_replicas(current, target)
    await _alter(
        admin,
        {
            ConfigResource(ResourceType.TOPIC, topic): [
                ConfigChange(LEADER_REPLICAS, leaders[topic]),
                ConfigChange(FOLLOWER_REPLICAS, followers[topic]),
            ]
            for topic in leaders
        },
    )


async def set_rates(
    admin: AdminClient, brokers: Iterable[int], *, between: int | None, within: int | None = None
) -> set[int]:
    """Sets the rates of brokers, and returns the brokers that are in the cluster and have them now.

    The brokers are changed in sequence: a change pauses a broker for a moment, which producers notice.
    """
    rates = []
    if between is not None:
        rates += [ConfigChange(LEADER_RATE, str(between)), ConfigChange(FOLLOWER_RATE, str(between))]
    if within is not None:
        rates.append(ConfigChange(DIRECTORY_RATE, str(within)))
    if not rates:
        return set()
    await admin.connections.refresh([])
    # A broker that is gone sends nothing that could be throttled, and a request to it would fail.
    present = set(brokers) & set(admin.connections.metadata.brokers)
    for broker in sorted(present):
        await _alter(admin, {ConfigResource(ResourceType.BROKER, str(broker)): rates})
    return present


async def clear_throttles(admin: AdminClient, topics: Iterable[str]) -> bool:
    """Removes the throttles after the last move; returns whether there were any."""
    await admin.connections.refresh([])
    of_topics = [ConfigResource(ResourceType.TOPIC, topic) for topic in sorted(set(topics))]
    brokers = [
        ConfigResource(ResourceType.BROKER, str(broker_id)) for broker_id in sorted(admin.connections.metadata.brokers)
    ]
    keys = {
        ResourceType.TOPIC: (LEADER_REPLICAS, FOLLOWER_REPLICAS),
        ResourceType.BROKER: (LEADER_RATE, FOLLOWER_RATE, DIRECTORY_RATE),
    }
    had_throttles = False
    for resources in (of_topics, *([broker] for broker in brokers)):
        if not resources:
            continue
        described = await admin.configs.describe(resources, keys=keys[resources[0].type])
        changes: dict[ConfigResource, Sequence[ConfigChange]] = {}
        for resource, entries in described.items():
            if not isinstance(entries, list):
                continue
            own = [entry.name for entry in entries if entry.source.name.startswith("DYNAMIC")]
            if own:
                changes[resource] = [ConfigChange(name, None, ConfigOperation.DELETE) for name in own]
        await _alter(admin, changes)
        had_throttles = had_throttles or bool(changes)
    return had_throttles


async def _alter(admin: AdminClient, changes: dict[ConfigResource, Sequence[ConfigChange]]) -> None:
    for error in (await admin.configs.alter(changes)).values() if changes else ():
        if error is not None:
            raise error


def throttled_replicas(
    current: Mapping[TopicPartition, Sequence[int]], target: Mapping[TopicPartition, Sequence[int]]
) -> tuple[dict[str, str], dict[str, str]]:
    """(leader.replication.throttled.replicas, follower...) by topic, for partitions that move (KIP-73).

    Current replicas are throttled as leaders, new replicas as followers.
    """
    leaders: dict[str, list[str]] = {}
    followers: dict[str, list[str]] = {}
    for partition, wanted in sorted(target.items()):
        have = current.get(partition, ())
        new = [broker for broker in wanted if broker not in have]
        if not new:
            continue
        leaders.setdefault(partition.topic, []).extend(f"{partition.partition}:{broker}" for broker in have)
        followers.setdefault(partition.topic, []).extend(f"{partition.partition}:{broker}" for broker in new)
    return (
        {topic: ",".join(entries) for topic, entries in leaders.items()},
        {topic: ",".join(entries) for topic, entries in followers.items()},
    )
