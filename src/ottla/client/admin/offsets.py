"""Offsets of partitions: first, last, by timestamp; and deletion of records up to an offset."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from ottla.client.cluster import Cluster
from ottla.client.errors import error_of
from ottla.client.leaders import ask_leaders, by_topic
from ottla.model.errors import KafkaError
from ottla.model.ids import TopicPartition
from ottla.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from ottla.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from ottla.wire.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)

__all__ = ["EARLIEST", "EARLIEST_LOCAL", "LATEST", "LATEST_TIERED", "MAX_TIMESTAMP", "FoundOffset", "Offsets"]

LATEST = -1
EARLIEST = -2
MAX_TIMESTAMP = -3
EARLIEST_LOCAL = -4
LATEST_TIERED = -5


class FoundOffset(NamedTuple):
    # -1 if there is no record from the timestamp on.
    offset: int
    timestamp: int
    leader_epoch: int


class Offsets:
    """`admin.offsets`."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    async def find(
        self, times: Mapping[TopicPartition, int], *, committed: bool = False, timeout_ms: int | None = None
    ) -> dict[TopicPartition, FoundOffset | KafkaError]:
        """The first offset from a timestamp on, or one of the special offsets above."""

        async def ask(
            node_id: int, node_partitions: list[TopicPartition]
        ) -> dict[TopicPartition, FoundOffset | KafkaError]:
            request = ListOffsetsRequest(
                replica_id=-1,
                isolation_level=1 if committed else 0,
                topics=[
                    ListOffsetsTopic(
                        name=topic,
                        partitions=[
                            ListOffsetsPartition(
                                partition_index=partition,
                                # With the leader epoch a stale leader refuses instead of answering with an old end.
                                current_leader_epoch=self._cluster.metadata.leader_epoch_of(topic, partition),
                                timestamp=times[TopicPartition(topic, partition)],
                            )
                            for partition in partitions
                        ],
                    )
                    for topic, partitions in by_topic(node_partitions).items()
                ],
                timeout_ms=self._cluster.settings.request_timeout_ms,
            )
            response: ListOffsetsResponse = await self._cluster.ask_node(node_id, request)
            return {
                TopicPartition(topic.name, partition.partition_index): error_of(partition.error_code)
                or FoundOffset(partition.offset, partition.timestamp, partition.leader_epoch)
                for topic in response.topics
                for partition in topic.partitions
            }

        return await ask_leaders(self._cluster, times, ask, timeout_ms=timeout_ms)

    async def numbers(
        self, partitions: Iterable[TopicPartition], time: int, *, committed: bool = False
    ) -> dict[TopicPartition, int]:
        """The same kind of offset of many partitions. Raises the first error."""
        answers = await self.find(dict.fromkeys(partitions, time), committed=committed)
        result = {}
        for partition, answer in answers.items():
            if isinstance(answer, KafkaError):
                raise KafkaError(answer.code, f"{partition}: {answer.message}")
            result[partition] = answer.offset
        return result

    async def delete_records(self, before: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | KafkaError]:
        """Deletes records before an offset (-1: all records); returns the new first offsets."""

        async def ask(node_id: int, node_partitions: list[TopicPartition]) -> dict[TopicPartition, int | KafkaError]:
            request = DeleteRecordsRequest(
                topics=[
                    DeleteRecordsTopic(
                        name=topic,
                        partitions=[
                            DeleteRecordsPartition(
                                partition_index=partition, offset=before[TopicPartition(topic, partition)]
                            )
                            for partition in partitions
                        ],
                    )
                    for topic, partitions in by_topic(node_partitions).items()
                ],
                timeout_ms=self._cluster.settings.request_timeout_ms,
            )
            response: DeleteRecordsResponse = await self._cluster.ask_node(node_id, request)
            return {
                TopicPartition(topic.name, partition.partition_index): error_of(partition.error_code)
                or partition.low_watermark
                for topic in response.topics
                for partition in topic.partitions
            }

        return await ask_leaders(self._cluster, before, ask)

    async def end_of_epoch(
        self, epochs: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, tuple[int, int] | KafkaError]:
        """(epoch, end offset) of the largest epoch up to the given one."""

        async def ask(
            node_id: int, node_partitions: list[TopicPartition]
        ) -> dict[TopicPartition, tuple[int, int] | KafkaError]:
            request = OffsetForLeaderEpochRequest(
                replica_id=-1,
                topics=[
                    OffsetForLeaderTopic(
                        topic=topic,
                        partitions=[
                            OffsetForLeaderPartition(
                                partition=partition, leader_epoch=epochs[TopicPartition(topic, partition)]
                            )
                            for partition in partitions
                        ],
                    )
                    for topic, partitions in by_topic(node_partitions).items()
                ],
            )
            response: OffsetForLeaderEpochResponse = await self._cluster.ask_node(node_id, request)
            return {
                TopicPartition(topic.topic, partition.partition): error_of(partition.error_code)
                or (partition.leader_epoch, partition.end_offset)
                for topic in response.topics
                for partition in topic.partitions
            }

        return await ask_leaders(self._cluster, epochs, ask)
