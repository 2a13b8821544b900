"""A client's metadata: brokers, topics and leaders, as plain values. `Cluster` refreshes them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from ottla.client.errors import error_of
from ottla.model.errors import KafkaError
from ottla.model.ids import TopicPartition, Uuid
from ottla.wire.messages.describe_cluster import DescribeClusterResponse
from ottla.wire.messages.metadata import MetadataResponse, MetadataResponseTopic

__all__ = ["BrokerNode", "MetadataCache", "PartitionInfo", "TopicInfo"]


class BrokerNode(NamedTuple):
    node_id: int
    host: str
    port: int
    rack: str | None

    @property
    def address(self) -> str:
        return f"{self.host}:{self.port}"


class PartitionInfo(NamedTuple):
    partition: int
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    offline_replicas: tuple[int, ...]


class TopicInfo(NamedTuple):
    name: str
    topic_id: Uuid
    is_internal: bool
    partitions: dict[int, PartitionInfo]
    error: KafkaError | None


class MetadataCache:
    """The latest metadata of topics and brokers."""

    def __init__(self) -> None:
        self.brokers: dict[int, BrokerNode] = {}
        self.cluster_id: str | None = None
        self.controller_id = -1
        self.topics: dict[str, TopicInfo] = {}
        self.names: dict[Uuid, str] = {}

    def update(self, response: MetadataResponse, *, all_topics: bool) -> None:
        """Applies a response. A response about all topics also removes missing topics."""
        self.brokers = {
            broker.node_id: BrokerNode(broker.node_id, broker.host, broker.port, broker.rack)
            for broker in response.brokers
        }
        self.cluster_id = response.cluster_id
        self.controller_id = response.controller_id
        before = dict(self.topics) if all_topics else self.topics
        if all_topics:
            self.topics.clear()
            self.names.clear()
        for topic in response.topics:
            if topic.name is not None:
                self._update_topic(topic.name, topic, before.get(topic.name))

    def adopt(self, brokers: Mapping[int, BrokerNode], topics: Mapping[str, TopicInfo]) -> None:
        """Takes over the brokers and all topics from another client of the same cluster."""
        self.brokers = dict(brokers)
        self.topics = dict(topics)
        self.names = {info.topic_id: name for name, info in topics.items() if info.topic_id}

    def update_controllers(self, response: DescribeClusterResponse) -> None:
        """Applies a list of controllers, which take the place of brokers for clients of controllers."""
        self.brokers = {
            broker.broker_id: BrokerNode(broker.broker_id, broker.host, broker.port, broker.rack)
            for broker in response.brokers
        }
        self.cluster_id = response.cluster_id
        self.controller_id = response.controller_id

    def leader_of(self, topic: str, partition: int) -> int:
        """The leader's node id; -1 if it is unknown."""
        info = self.topics.get(topic)
        partition_info = None if info is None else info.partitions.get(partition)
        return -1 if partition_info is None else partition_info.leader

    def forget_leader(self, partition: TopicPartition) -> None:
        """Removes the leader of a partition, which does not lead it any more."""
        info = self.topics.get(partition.topic)
        if info is not None and partition.partition in info.partitions:
            info.partitions[partition.partition] = info.partitions[partition.partition]._replace(leader=-1)

    def leader_epoch_of(self, topic: str, partition: int) -> int:
        """The leader epoch; -1 if it is unknown."""
        info = self.topics.get(topic)
        partition_info = None if info is None else info.partitions.get(partition)
        return -1 if partition_info is None else partition_info.leader_epoch

    def _update_topic(self, name: str, topic: MetadataResponseTopic, before: TopicInfo | None) -> None:
        partitions = {
            partition.partition_index: PartitionInfo(
                partition.partition_index,
                partition.leader_id,
                partition.leader_epoch,
                tuple(partition.replica_nodes),
                tuple(partition.isr_nodes),
                tuple(partition.offline_replicas),
            )
            for partition in sorted(topic.partitions, key=lambda partition: partition.partition_index)
        }
        if before is not None and topic.topic_id and before.topic_id == topic.topic_id:
            for number, known in before.partitions.items():
                # A broker may have older metadata than the previous broker; the leader of the newer epoch is kept.
                if number in partitions and 0 <= partitions[number].leader_epoch < known.leader_epoch:
                    partitions[number] = known
        self.topics[name] = TopicInfo(name, topic.topic_id, topic.is_internal, partitions, error_of(topic.error_code))
        if topic.topic_id:
            self.names[topic.topic_id] = name
