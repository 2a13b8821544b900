"""Produce requests, and the results of partitions in their responses."""

from __future__ import annotations

from collections.abc import Iterable

from ottla.client.metadata import MetadataCache
from ottla.client.producer.batch import ProducerBatch
from ottla.client.producer.settings import ProducerSettings
from ottla.model.ids import TopicPartition, Uuid
from ottla.wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)

__all__ = ["answers_by_partition", "produce_request"]

# The last version with topic names, for topics without a known topic id.
_NAMES_VERSION_MAX = 12


def produce_request(
    batches: Iterable[ProducerBatch], settings: ProducerSettings, metadata: MetadataCache
) -> tuple[ProduceRequest, int]:
    """A request with all these batches, and its highest possible version."""
    topics: dict[str, list[PartitionProduceData]] = {}
    for batch in batches:
        records = batch.encode(is_transactional=settings.transactional_id is not None)
        topics.setdefault(batch.partition.topic, []).append(
            PartitionProduceData(index=batch.partition.partition, records=memoryview(records))
        )
    known = metadata.topics
    ids = {name: known[name].topic_id if name in known else Uuid.ZERO for name in topics}
    request = ProduceRequest(
        transactional_id=settings.transactional_id,
        acks=settings.acks,
        timeout_ms=settings.request_timeout_ms,
        topic_data=[
            TopicProduceData(name=name, topic_id=ids[name], partition_data=data) for name, data in topics.items()
        ],
    )
    return request, 32767 if all(ids.values()) else _NAMES_VERSION_MAX


def answers_by_partition(
    response: ProduceResponse, names: dict[Uuid, str]
) -> dict[TopicPartition, PartitionProduceResponse]:
    return {
        TopicPartition(topic.name or names.get(topic.topic_id, ""), answer.index): answer
        for topic in response.responses
        for answer in topic.partition_responses
    }
