"""Throttles of a reassignment (KIP-73): rates of brokers, and the throttled replicas."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ottla.cli.logic.reassignment import Plan, throttled_replicas
from ottla.client.admin import AdminClient
from ottla.client.admin.configs import ConfigChange, ConfigOperation, ConfigResource, ResourceType
from ottla.model.ids import TopicPartition

__all__ = ["clear_throttles", "set_throttles"]

LEADER_RATE = "leader.replication.throttled.rate"
FOLLOWER_RATE = "follower.replication.throttled.rate"
DIRECTORY_RATE = "replica.alter.log.dirs.io.max.bytes.per.second"
LEADER_REPLICAS = "leader.replication.throttled.replicas"
FOLLOWER_REPLICAS = "follower.replication.throttled.replicas"


async def set_throttles(
    admin: AdminClient,
    current: Mapping[TopicPartition, Sequence[int]],
    plan: Plan,
    *,
    between: int | None,
    within: int | None,
) -> None:
    """Sets the throttles before the first move."""
    changes: dict[ConfigResource, Sequence[ConfigChange]] = {}
    if between is not None:
        leaders, followers = throttled_replicas(current, plan.replicas)
        for topic in leaders:
            changes[ConfigResource(ResourceType.TOPIC, topic)] = [
                ConfigChange(LEADER_REPLICAS, leaders[topic]),
                ConfigChange(FOLLOWER_REPLICAS, followers[topic]),
            ]
    rates = []
    if between is not None:
        rates += [ConfigChange(LEADER_RATE, str(between)), ConfigChange(FOLLOWER_RATE, str(between))]
    if within is not None:
        rates.append(ConfigChange(DIRECTORY_RATE, str(within)))
    for broker in _brokers(current, plan):
        changes[ConfigResource(ResourceType.BROKER, str(broker))] = rates
    for error in (await admin.configs.alter(changes)).values():
        if error is not None:
            raise error


async def clear_throttles(admin: AdminClient, plan: Plan) -> bool:
    """Removes the throttles after the last move; returns whether there were any."""
    await admin.connections.refresh([])
    topics = [
        ConfigResource(ResourceType.TOPIC, topic) for topic in sorted({partition.topic for partition in plan.replicas})
    ]
    brokers = [
        ConfigResource(ResourceType.BROKER, str(broker_id)) for broker_id in sorted(admin.connections.metadata.brokers)
    ]
    keys = {
        ResourceType.TOPIC: (LEADER_REPLICAS, FOLLOWER_REPLICAS),
        ResourceType.BROKER: (LEADER_RATE, FOLLOWER_RATE, DIRECTORY_RATE),
    }
    described = await admin.configs.describe([*topics, *brokers])
    changes: dict[ConfigResource, Sequence[ConfigChange]] = {}
    for resource, entries in described.items():
        if not isinstance(entries, list):
            continue
        own = [
            entry.name
            for entry in entries
            if entry.name in keys[resource.type] and entry.source.name.startswith("DYNAMIC")
        ]
        if own:
            changes[resource] = [ConfigChange(name, None, ConfigOperation.DELETE) for name in own]
    for error in (await admin.configs.alter(changes)).values() if changes else ():
        if error is not None:
            raise error
    return bool(changes)


def _brokers(current: Mapping[TopicPartition, Sequence[int]], plan: Plan) -> list[int]:
    involved = {broker for replicas in current.values() for broker in replicas}
    involved |= {broker for replicas in plan.replicas.values() for broker in replicas}
    return sorted(involved)
