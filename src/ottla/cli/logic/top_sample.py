"""The figures of `top`: two samples of a cluster and the rates between them."""

from __future__ import annotations

import time
from collections import defaultdict
from dataclasses import dataclass, field
from typing import NamedTuple

from ottla.cli.logic.group_lag import group_rows
from ottla.client.admin import AdminClient
from ottla.client.admin.groups import DescribedGroup
from ottla.client.admin.offsets import LATEST
from ottla.model.errors import KafkaError
from ottla.model.ids import TopicPartition

__all__ = ["BrokerRow", "GroupLag", "Sample", "TopicRow", "View", "compare", "take_sample"]


@dataclass(slots=True, kw_only=True)
class Sample:
    at: float
    addresses: dict[int, str] = field(default_factory=dict)
    leaders: dict[TopicPartition, int] = field(default_factory=dict)
    under_replicated: dict[int, int] = field(default_factory=dict)
    ends: dict[TopicPartition, int] = field(default_factory=dict)
    # (broker, partition) -> bytes
    sizes: dict[tuple[int, TopicPartition], int] = field(default_factory=dict)
    free: dict[int, int] = field(default_factory=dict)
    # group -> (lag, committed offsets together, members)
    groups: dict[str, tuple[int, int, int]] = field(default_factory=dict)


class BrokerRow(NamedTuple):
    broker: int
    address: str
    leads: int
    behind: int
    records_per_second: float
    bytes_per_second: float
    data_bytes: int
    free_bytes: int


class TopicRow(NamedTuple):
    topic: str
    partitions: int
    records_per_second: float
    bytes_per_second: float
    data_bytes: int


class GroupLag(NamedTuple):
    group: str
    members: int
    lag: int
    records_per_second: float


class View(NamedTuple):
    brokers: list[BrokerRow]
    topics: list[TopicRow]
    groups: list[GroupLag]


async def take_sample(admin: AdminClient) -> Sample:
    sample = Sample(at=time.monotonic())
    metadata = await admin.connections.refresh(None)
    sample.addresses = {broker.node_id: broker.address for broker in metadata.brokers.values()}
    for name, info in metadata.topics.items():
        for number, partition in info.partitions.items():
            sample.leaders[TopicPartition(name, number)] = partition.leader
            for broker in partition.replicas:
                if broker not in partition.isr:
                    sample.under_replicated[broker] = sample.under_replicated.get(broker, 0) + 1
    led = [partition for partition, leader in sample.leaders.items() if leader >= 0]
    for led_partition, end in (await admin.offsets.find(dict.fromkeys(led, LATEST), timeout_ms=2_000)).items():
        if not isinstance(end, KafkaError):
            sample.ends[led_partition] = end.offset
    for broker, directories in (await admin.partitions.log_directories()).items():
        for directory in directories if isinstance(directories, list) else ():
            sample.free[broker] = sample.free.get(broker, 0) + max(directory.usable_bytes, 0)
            for key, replica in directory.replicas.items():
                sample.sizes[broker, key] = replica.size_bytes
    ids = [group.group_id for group in await admin.groups.find()]
    for group_id, group in (await admin.groups.describe(ids)).items():
        if isinstance(group, DescribedGroup):
            rows = await group_rows(admin, group)
            sample.groups[group_id] = (
                sum(row.lag or 0 for row in rows),
                sum(row.current or 0 for row in rows),
                len(group.members),
            )
    return sample


def compare(before: Sample, after: Sample) -> View:
    """Rates between two samples; a new partition has none yet, and one that shrank (retention) counts as 0."""
    seconds = max(after.at - before.at, 1e-3)
    records: dict[TopicPartition, float] = {}
    grown: dict[TopicPartition, float] = {}
    for partition, leader in after.leaders.items():
        if partition in after.ends and partition in before.ends:
            records[partition] = max(after.ends[partition] - before.ends[partition], 0) / seconds
        key = (leader, partition)
        if key in after.sizes and key in before.sizes:
            grown[partition] = max(after.sizes[key] - before.sizes[key], 0) / seconds
    by_topic: dict[str, list[TopicPartition]] = defaultdict(list)
    for partition in after.leaders:
        by_topic[partition.topic].append(partition)
    brokers = [
        BrokerRow(
            broker,
            address,
            sum(leader == broker for leader in after.leaders.values()),
            after.under_replicated.get(broker, 0),
            sum(rate for partition, rate in records.items() if after.leaders[partition] == broker),
            sum(rate for partition, rate in grown.items() if after.leaders[partition] == broker),
            sum(count for (owner, _), count in after.sizes.items() if owner == broker),
            after.free.get(broker, -1),
        )
        for broker, address in sorted(after.addresses.items())
    ]
    topics = [
        TopicRow(
            name,
            len(partitions),
            sum(records.get(partition, 0.0) for partition in partitions),
            sum(grown.get(partition, 0.0) for partition in partitions),
            sum(after.sizes.get((after.leaders[partition], partition), 0) for partition in partitions),
        )
        for name, partitions in by_topic.items()
    ]
    groups = [
        GroupLag(
            name,
            members,
            lag,
            max(committed - before.groups.get(name, (0, committed, 0))[1], 0) / seconds,
        )
        for name, (lag, committed, members) in after.groups.items()
    ]
    return View(
        brokers,
        sorted(topics, key=lambda row: (-row.records_per_second, -row.data_bytes, row.topic)),
        sorted(groups, key=lambda row: (-row.lag, row.group)),
    )
