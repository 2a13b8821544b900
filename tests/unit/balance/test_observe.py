"""The state of a cluster, read from the answers of its brokers."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

from ottla.balance.observe import observe
from ottla.client.admin.partitions import LogDirectory, ReplicaInDirectory
from ottla.client.metadata import PartitionInfo, TopicInfo
from ottla.model.ids import TopicPartition, Uuid

HOSTS = {1: "kafka-1", 2: "kafka-1", 3: "kafka-2"}


async def described() -> Any:
    return SimpleNamespace(
        brokers=[
            SimpleNamespace(node_id=broker_id, rack=f"rack-{host}", host=host) for broker_id, host in HOSTS.items()
        ]
    )


async def log_directories(brokers: Sequence[int]) -> dict[int, list[LogDirectory]]:
    held = {TopicPartition("t", 0): ReplicaInDirectory(500, 0, is_future=False)}
    return {broker_id: [LogDirectory("/data", None, 10_000, 5_000, held)] for broker_id in brokers}


async def topics() -> dict[str, TopicInfo]:
    info = PartitionInfo(partition=0, leader=1, leader_epoch=0, replicas=(1, 3, 4), isr=(1,), offline_replicas=(3, 4))
    return {"t": TopicInfo("t", Uuid(bytes(16)), False, {0: info}, None)}


def test_racks_machines_disks_lost_brokers_and_failed_directories() -> None:
    admin: Any = SimpleNamespace(
        cluster=SimpleNamespace(describe=described),
        partitions=SimpleNamespace(log_directories=log_directories),
        topics=SimpleNamespace(all=topics),
    )
    state = asyncio.run(observe(admin))
    partition = TopicPartition("t", 0)
    assert {broker_id: broker.host for broker_id, broker in state.brokers.items()} == {**HOSTS, 4: None}
    assert {broker_id: broker.rack for broker_id, broker in state.brokers.items() if broker.is_alive} == {
        broker_id: f"rack-{host}" for broker_id, host in HOSTS.items()
    }
    assert not state.brokers[4].is_alive
    assert state.brokers[3].failed_replicas == {partition}
    assert state.brokers[1].disk_bytes == 10_000
    assert state.partitions[partition].size_bytes == 500
