"""Reads the state of a live cluster: brokers, racks, disks, sizes of partitions, and their traffic."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterable
from dataclasses import replace

from ottla.balance.state import BrokerState, ClusterState, PartitionState
from ottla.client.admin import AdminClient
from ottla.model.ids import TopicPartition

__all__ = ["observe", "with_brokers", "with_partitions"]


async def observe(admin: AdminClient, *, sample_seconds: float = 0.0) -> ClusterState:
    """The cluster as it is. Traffic is the growth of the logs during the sample; without a sample it is unknown."""
    state = await _look(admin)
    if not sample_seconds:
        return state
    before = {partition: one.size_bytes for partition, one in state.partitions.items()}
    await asyncio.sleep(sample_seconds)
    state = await _look(admin)
    partitions = {
        partition: replace(
            one, in_rate=max(one.size_bytes - before.get(partition, one.size_bytes), 0.0) / sample_seconds
        )
        for partition, one in state.partitions.items()
    }
    return ClusterState(brokers=state.brokers, partitions=partitions)


async def _look(admin: AdminClient) -> ClusterState:
    described = (await admin.cluster.describe()).brokers
    directories = await admin.partitions.log_directories([node.node_id for node in described])
    sizes: dict[TopicPartition, float] = {}
    brokers = {}
    for node in described:
        found = directories.get(node.node_id)
        total = 0.0
        for directory in found if isinstance(found, list) else ():
            if directory.error is not None:
                continue
            total += max(directory.total_bytes, 0)
            for partition, replica in directory.replicas.items():
                if not replica.is_future:
                    sizes[partition] = max(sizes.get(partition, 0.0), replica.size_bytes)
        brokers[node.node_id] = BrokerState(
            broker_id=node.node_id,
            rack=node.rack,
            host=node.host,
            disk_bytes=total or math.inf,
        )
    partitions = {}
    for name, topic in (await admin.topics.all()).items():
        for number, info in topic.partitions.items():
            partition = TopicPartition(name, number)
            partitions[partition] = PartitionState(
                replicas=info.replicas, leader=info.leader, size_bytes=sizes.get(partition, 0.0)
            )
            for broker_id in info.replicas:
                if broker_id not in brokers:
                    brokers[broker_id] = BrokerState(broker_id=broker_id, is_alive=False)
            for broker_id in info.offline_replicas:
                broker = brokers[broker_id]
                # The broker is there, and its replica is not: the directory has failed.
                if broker.is_alive:
                    brokers[broker_id] = replace(broker, failed_replicas=broker.failed_replicas | {partition})
    return ClusterState(brokers=brokers, partitions=partitions)


def with_brokers(
    state: ClusterState,
    *,
    added: Iterable[tuple[int, str | None]] = (),
    drained: Iterable[int] = (),
    dead: Iterable[int] = (),
) -> ClusterState:
    """What if brokers were added, emptied or lost?"""
    brokers = dict(state.brokers)
    sizes = [broker.disk_bytes for broker in brokers.values() if broker.is_alive]
    for broker_id, rack in added:
        if broker_id in brokers and brokers[broker_id].is_alive:
            raise ValueError(f"Broker {broker_id} is in the cluster already.")
        brokers[broker_id] = BrokerState(broker_id=broker_id, rack=rack, disk_bytes=min(sizes, default=math.inf))
    for broker_id in (*drained, *dead):
        if broker_id not in brokers:
            known = ", ".join(map(str, sorted(brokers)))
            raise ValueError(f"There is no broker {broker_id}; there are {known}.")
    for broker_id in drained:
        brokers[broker_id] = replace(brokers[broker_id], is_draining=True)
    for broker_id in dead:
        brokers[broker_id] = replace(brokers[broker_id], is_alive=False)
    return ClusterState(brokers=brokers, partitions=state.partitions)


def with_partitions(state: ClusterState, topic: str, count: int) -> ClusterState:
    """What if a topic had more partitions? The traffic of the topic is shared by all of them."""
    existing = {partition: one for partition, one in state.partitions.items() if partition.topic == topic}
    if not existing:
        raise ValueError(f"There is no topic {topic!r}.")
    if count <= len(existing):
        raise ValueError(f"{topic} has {len(existing)} partitions; --partitions {topic}={count} adds none.")
    brokers = sorted(one for one, broker in state.brokers.items() if broker.takes_replicas)
    factor = min(len(next(iter(existing.values())).replicas), len(brokers))
    share = len(existing) / count
    partitions = dict(state.partitions)
    for partition, one in existing.items():
        partitions[partition] = replace(one, in_rate=one.in_rate * share, out_rate=one.out_rate * share)
    average = sum(one.in_rate for one in existing.values()) / count
    for number in range(len(existing), count):
        replicas = tuple(brokers[(number + step) % len(brokers)] for step in range(factor))
        partitions[TopicPartition(topic, number)] = PartitionState(
            replicas=replicas, leader=replicas[0], in_rate=average
        )
    return ClusterState(brokers=state.brokers, partitions=partitions)
