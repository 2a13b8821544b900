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
    """The current cluster. Traffic is the growth of the logs during the sample; without a sample it is unknown."""
    state = await _look(admin)
    if not sample_seconds:
        return state
    before = {partition: current.size_bytes for partition, current in state.partitions.items()}
    await asyncio.sleep(sample_seconds)
    state = await _look(admin)
    partitions = {
        partition: replace(
            current, in_rate=max(current.size_bytes - before.get(partition, current.size_bytes), 0.0) / sample_seconds
        )
        for partition, current in state.partitions.items()
    }
    return ClusterState(brokers=state.brokers, partitions=partitions)


async def _look(admin: AdminClient) -> ClusterState:
    described = (await admin.cluster.describe()).brokers
    directories = await admin.partitions.log_directories([node.node_id for node in described])
    sizes: dict[TopicPartition, float] = {}
    brokers = {}
    for node in described:
        broker_directories = directories.get(node.node_id)
        total = 0.0
        for directory in broker_directories if isinstance(broker_directories, list) else ():
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
                # The broker is alive, but its replica is offline: the directory has failed.
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
    """The cluster as if brokers were added, emptied or lost."""
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
    """The cluster as if a topic had more partitions, which share the traffic of the topic."""
    existing = {partition: current for partition, current in state.partitions.items() if partition.topic == topic}
    if not existing:
        raise ValueError(f"There is no topic {topic!r}.")
    if count <= len(existing):
        raise ValueError(f"{topic} has {len(existing)} partitions; --partitions {topic}={count} adds none.")
    brokers = sorted(broker_id for broker_id, broker in state.brokers.items() if broker.takes_replicas)
    factor = min(len(next(iter(existing.values())).replicas), len(brokers))
    share = len(existing) / count
    partitions = dict(state.partitions)
    for partition, current in existing.items():
        partitions[partition] = replace(current, in_rate=current.in_rate * share, out_rate=current.out_rate * share)
    average = sum(current.in_rate for current in existing.values()) / count
    for number in range(len(existing), count):
        replicas = tuple(brokers[(number + step) % len(brokers)] for step in range(factor))
        partitions[TopicPartition(topic, number)] = PartitionState(
            replicas=replicas, leader=replicas[0], in_rate=average
        )
    return ClusterState(brokers=state.brokers, partitions=partitions)
