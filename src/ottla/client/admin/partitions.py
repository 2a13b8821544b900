"""Replicas and leaders: reassignment, elections, log directories."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from enum import IntEnum
from typing import NamedTuple

from ottla.client.cluster import Cluster
from ottla.client.errors import check, error_of
from ottla.client.leaders import by_topic
from ottla.model.errors import KafkaError
from ottla.model.ids import TopicPartition
from ottla.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
)
from ottla.wire.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopic,
)
from ottla.wire.messages.describe_log_dirs import (
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
)
from ottla.wire.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse, TopicPartitions
from ottla.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    ListPartitionReassignmentsTopics,
)

__all__ = ["ElectionType", "LogDirectory", "OngoingReassignment", "Partitions", "ReplicaInDirectory"]


class ElectionType(IntEnum):
    PREFERRED = 0
    UNCLEAN = 1


class OngoingReassignment(NamedTuple):
    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]

    @property
    def target(self) -> tuple[int, ...]:
        return tuple(replica for replica in self.replicas if replica not in self.removing)

    @property
    def settled(self) -> tuple[int, ...]:
        """The replicas without those that are being added."""
        return tuple(replica for replica in self.replicas if replica not in self.adding)


class ReplicaInDirectory(NamedTuple):
    size_bytes: int
    offset_lag: int
    is_future: bool


class LogDirectory(NamedTuple):
    path: str
    error: KafkaError | None
    total_bytes: int
    usable_bytes: int
    replicas: dict[TopicPartition, ReplicaInDirectory]


class Partitions:
    """`admin.partitions`."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    async def reassign(
        self, targets: Mapping[TopicPartition, Sequence[int] | None]
    ) -> dict[TopicPartition, KafkaError | None]:
        """Partition -> its wanted replicas; None cancels a reassignment in progress (KIP-455)."""
        request = AlterPartitionReassignmentsRequest(
            timeout_ms=self._cluster.settings.request_timeout_ms,
            topics=[
                ReassignableTopic(
                    name=topic,
                    partitions=[
                        ReassignablePartition(
                            partition_index=number, replicas=_listed(targets[TopicPartition(topic, number)])
                        )
                        for number in numbers
                    ],
                )
                for topic, numbers in by_topic(targets).items()
            ],
        )
        response: AlterPartitionReassignmentsResponse = await self._cluster.ask_controller(request)
        check(response.error_code, response.error_message)
        return {
            TopicPartition(topic.name, partition.partition_index): error_of(
                partition.error_code, partition.error_message
            )
            for topic in response.responses
            for partition in topic.partitions
        }

    async def reassignments(
        self, partitions: Iterable[TopicPartition] | None = None
    ) -> dict[TopicPartition, OngoingReassignment]:
        """The reassignments in progress."""
        topics = (
            None
            if partitions is None
            else [
                ListPartitionReassignmentsTopics(name=topic, partition_indexes=numbers)
                for topic, numbers in by_topic(partitions).items()
            ]
        )
        response: ListPartitionReassignmentsResponse = await self._cluster.ask_controller(
            ListPartitionReassignmentsRequest(timeout_ms=self._cluster.settings.request_timeout_ms, topics=topics)
        )
        check(response.error_code, response.error_message)
        return {
            TopicPartition(topic.name, partition.partition_index): OngoingReassignment(
                tuple(partition.replicas), tuple(partition.adding_replicas), tuple(partition.removing_replicas)
            )
            for topic in response.topics
            for partition in topic.partitions
        }

    async def elect(
        self, election: ElectionType, partitions: Iterable[TopicPartition] | None
    ) -> dict[TopicPartition, KafkaError | None]:
        """Elects leaders of these partitions, or of all partitions that need an election (None)."""
        request = ElectLeadersRequest(
            election_type=election,
            topic_partitions=None
            if partitions is None
            else [TopicPartitions(topic=topic, partitions=numbers) for topic, numbers in by_topic(partitions).items()],
            timeout_ms=self._cluster.settings.request_timeout_ms,
        )
        response: ElectLeadersResponse = await self._cluster.ask_controller(request)
        check(response.error_code)
        return {
            TopicPartition(topic.topic, partition.partition_id): error_of(partition.error_code, partition.error_message)
            for topic in response.replica_election_results
            for partition in topic.partition_result
        }

    async def log_directories(
        self, brokers: Iterable[int] | None = None, *, partitions: Iterable[TopicPartition] | None = None
    ) -> dict[int, list[LogDirectory] | KafkaError]:
        topics = (
            None
            if partitions is None
            else [
                DescribableLogDirTopic(topic=topic, partitions=numbers)
                for topic, numbers in by_topic(partitions).items()
            ]
        )
        request = DescribeLogDirsRequest(topics=topics)

        async def ask(node_id: int) -> list[LogDirectory] | KafkaError:
            try:
                response: DescribeLogDirsResponse = await self._cluster.ask_broker(node_id, request)
            except KafkaError as error:
                return error
            if response.error_code:
                return error_of(response.error_code) or []
            return [
                LogDirectory(
                    result.log_dir,
                    error_of(result.error_code),
                    result.total_bytes,
                    result.usable_bytes,
                    {
                        TopicPartition(topic.name, partition.partition_index): ReplicaInDirectory(
                            partition.partition_size, partition.offset_lag, partition.is_future_key
                        )
                        for topic in result.topics
                        for partition in topic.partitions
                    },
                )
                for result in response.results
            ]

        wanted = await self._cluster.all_brokers() if brokers is None else list(brokers)
        return dict(zip(wanted, await asyncio.gather(*[ask(node_id) for node_id in wanted]), strict=True))

    async def move_to_directories(
        self, moves: Mapping[int, Mapping[TopicPartition, str]]
    ) -> dict[tuple[int, TopicPartition], KafkaError | None]:
        """Broker -> replica -> directory."""

        async def ask(node_id: int, paths: Mapping[TopicPartition, str]) -> AlterReplicaLogDirsResponse:
            request = AlterReplicaLogDirsRequest(
                dirs=[
                    AlterReplicaLogDir(
                        path=path,
                        topics=[
                            AlterReplicaLogDirTopic(name=topic, partitions=numbers)
                            for topic, numbers in by_topic(
                                replica for replica in paths if paths[replica] == path
                            ).items()
                        ],
                    )
                    for path in dict.fromkeys(paths.values())
                ]
            )
            response: AlterReplicaLogDirsResponse = await self._cluster.ask_node(node_id, request)
            return response

        answers = await asyncio.gather(*[ask(node_id, paths) for node_id, paths in moves.items()])
        return {
            (node_id, TopicPartition(topic.topic_name, partition.partition_index)): error_of(partition.error_code)
            for node_id, answer in zip(moves, answers, strict=True)
            for topic in answer.results
            for partition in topic.partitions
        }


def _listed(replicas: Sequence[int] | None) -> list[int] | None:
    return None if replicas is None else list(replicas)
