"""Reads the metadata and the sizes of a whole cluster in portions.

The answer about 40,000 partitions takes a third of a second to decode. Between portions, the console and the node serve
other requests.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence

from ottla.client.admin import AdminClient
from ottla.client.admin.partitions import LogDirectory
from ottla.client.errors import RequestUnsupported, error_of
from ottla.client.metadata import PartitionInfo, TopicInfo
from ottla.console.cluster_state import ClusterState, TopicRow, topic_row
from ottla.model.errors import KafkaError
from ottla.model.ids import TopicPartition
from ottla.wire.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponseTopic,
)

__all__ = ["read_sizes", "read_state"]

# Nodes of Apache Kafka answer about this many at most.
PARTITIONS_PER_REQUEST = 2_000


async def read_state(admin: AdminClient) -> ClusterState:
    try:
        topics, rows = await _read_topics(admin)
    except RequestUnsupported:
        # Older than KIP-966.
        topics = dict((await admin.connections.refresh(None)).topics)
        rows = {name: topic_row(info) for name, info in topics.items()}
    metadata = await admin.connections.refresh([])
    metadata.replace_topics(topics)
    led = tuple(
        TopicPartition(name, number)
        for name, info in topics.items()
        for number, one in info.partitions.items()
        if one.leader >= 0
    )
    return ClusterState(
        metadata.cluster_id or "", metadata.controller_id, dict(metadata.brokers), topics, tuple(rows.values()), led
    )


async def _read_topics(admin: AdminClient) -> tuple[dict[str, TopicInfo], dict[str, TopicRow]]:
    topics: dict[str, TopicInfo] = {}
    rows: dict[str, TopicRow] = {}
    cursor: Cursor | None = None
    while True:
        request = DescribeTopicPartitionsRequest(cursor=cursor, response_partition_limit=PARTITIONS_PER_REQUEST)
        response: DescribeTopicPartitionsResponse = await admin.connections.ask_any(request)
        for topic in response.topics:
            name = topic.name or ""
            # A topic with many partitions continues on the next page.
            topics[name] = info = _topic_info(name, topic, topics.get(name))
            rows[name] = topic_row(info)
        cursor = response.next_cursor
        if cursor is None:
            return topics, rows


def _topic_info(name: str, topic: DescribeTopicPartitionsResponseTopic, before: TopicInfo | None) -> TopicInfo:
    partitions = {} if before is None or before.topic_id != topic.topic_id else dict(before.partitions)
    for one in topic.partitions:
        partitions[one.partition_index] = PartitionInfo(
            one.partition_index,
            one.leader_id,
            one.leader_epoch,
            tuple(one.replica_nodes),
            tuple(one.isr_nodes),
            tuple(one.offline_replicas),
        )
    return TopicInfo(name, topic.topic_id, topic.is_internal, partitions, error_of(topic.error_code))


async def read_sizes(
    admin: AdminClient, state: ClusterState, *, seconds: float
) -> dict[int, list[LogDirectory] | KafkaError]:
    """The directories of all brokers with their replicas; brokers that do not answer in time are missing."""

    async def ask(broker: int) -> list[LogDirectory] | KafkaError | None:
        try:
            async with asyncio.timeout(seconds):
                return await _directories(admin, state, broker)
        except TimeoutError:
            return None

    answers = await asyncio.gather(*map(ask, state.brokers))
    return {broker: found for broker, found in zip(state.brokers, answers, strict=True) if found is not None}


async def _directories(admin: AdminClient, state: ClusterState, broker: int) -> list[LogDirectory] | KafkaError:
    if len(state.led) <= PARTITIONS_PER_REQUEST:
        return (await admin.partitions.log_directories([broker]))[broker]
    found: dict[str, LogDirectory] = {}
    for portion in _portions(state, broker):
        answer = (await admin.partitions.log_directories([broker], partitions=portion))[broker]
        if isinstance(answer, KafkaError):
            return answer
        for directory in answer:
            if directory.path in found:
                found[directory.path].replicas.update(directory.replicas)
            else:
                found[directory.path] = directory
    return list(found.values())


def _portions(state: ClusterState, broker: int) -> Iterator[Sequence[TopicPartition]]:
    """The partitions with a replica on the broker."""
    portion: list[TopicPartition] = []
    for name, info in state.topics.items():
        portion += [TopicPartition(name, number) for number, one in info.partitions.items() if broker in one.replicas]
        if len(portion) >= PARTITIONS_PER_REQUEST:
            yield portion
            portion = []
    if portion:
        yield portion
