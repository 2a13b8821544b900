"""A snapshot of the cluster's metadata, with a row for every topic, so that lists do not count again."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from ottla.client.admin import AdminClient
from ottla.client.metadata import BrokerNode, TopicInfo
from ottla.model.ids import TopicPartition

__all__ = ["ClusterState", "TopicRow", "read_state", "topic_row"]


class TopicRow(NamedTuple):
    """A topic in a list, from the metadata."""

    name: str
    topic_id: str
    partitions: int
    replication_factor: int
    under_replicated: int
    offline: int
    is_internal: bool


class ClusterState(NamedTuple):
    cluster_id: str
    controller_id: int
    brokers: dict[int, BrokerNode]
    topics: dict[str, TopicInfo]
    rows: tuple[TopicRow, ...]
    # Partitions with a leader.
    led: tuple[TopicPartition, ...]

    def partitions_of(self, names: Iterable[str]) -> list[TopicPartition]:
        return [
            TopicPartition(name, number)
            for name in names
            if name in self.topics
            for number in self.topics[name].partitions
        ]


async def read_state(admin: AdminClient) -> ClusterState:
    metadata = await admin.connections.refresh(None)
    topics = dict(metadata.topics)
    led = tuple(
        TopicPartition(name, number)
        for name, info in topics.items()
        for number, partition in info.partitions.items()
        if partition.leader >= 0
    )
    rows = tuple(topic_row(info) for info in topics.values())
    return ClusterState(metadata.cluster_id or "", metadata.controller_id, dict(metadata.brokers), topics, rows, led)


def topic_row(info: TopicInfo) -> TopicRow:
    partitions = info.partitions.values()
    return TopicRow(
        info.name,
        str(info.topic_id),
        len(info.partitions),
        max((len(partition.replicas) for partition in partitions), default=0),
        sum(1 for partition in partitions if len(partition.isr) < len(partition.replicas)),
        sum(1 for partition in partitions if partition.leader < 0),
        info.is_internal,
    )
