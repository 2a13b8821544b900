"""DescribeTopicPartitions (key 75), version 0: topics page by page, with eligible leader replicas (KIP-966).

Topics come sorted by name. A page holds at most `response_partition_limit` partitions, bounded in turn by
`max.request.partition.size.limit`; the next page begins at the cursor of the answer. An empty list asks for all topics.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.apis.api import Api
from ottla.broker.authorization import Operation, ResourceType
from ottla.broker.cluster_view import NO_ID, endpoint_of, missing_topic_code, offline_replicas
from ottla.broker.context import RequestContext
from ottla.metadata.image import MetadataImage, PartitionImage
from ottla.metadata.topic_names import is_internal
from ottla.model.errors import ErrorCode, KafkaError
from ottla.wire.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

__all__ = ["API"]

# A page ends after this number of unknown topics. They do not count as partitions, and each takes some microseconds.
UNKNOWN_TOPICS_MAX = 5_000


def handle(
    request: DescribeTopicPartitionsRequest, context: RequestContext, broker: Broker
) -> DescribeTopicPartitionsResponse:
    image = broker.metadata.image
    cursor = request.cursor
    lists_all = not request.topics
    names = _names(request, image)
    limit = max(min(broker.config.max_request_partition_size_limit, request.response_partition_limit), 1)
    response = DescribeTopicPartitionsResponse()
    denied: list[DescribeTopicPartitionsResponseTopic] = []
    unknown_left = UNKNOWN_TOPICS_MAX
    may = context.would_allow if lists_all else context.allows
    for name in names:
        if not may(Operation.DESCRIBE, ResourceType.TOPIC, name):
            if not lists_all:
                # As in Apache Kafka, a denied topic is not marked internal, even under the name of an internal topic.
                code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
                denied.append(DescribeTopicPartitionsResponseTopic(error_code=code, name=name))
            continue
        if limit == 0:
            response.next_cursor = Cursor(topic_name=name, partition_index=0)
            break
        topic = image.topics.by_name.get(name)
        if topic is None:
            if not lists_all:
                if unknown_left == 0:
                    response.next_cursor = Cursor(topic_name=name, partition_index=0)
                    break
                unknown_left -= 1
                response.topics.append(_error(name, missing_topic_code(name)))
            continue
        first = cursor.partition_index if cursor is not None and cursor.topic_name == name else 0
        indexes = [index for index in sorted(topic.partitions) if index >= first]
        page = indexes[:limit]
        limit -= len(page)
        response.topics.append(
            DescribeTopicPartitionsResponseTopic(
                name=name,
                topic_id=topic.topic_id,
                is_internal=is_internal(name),
                partitions=[
                    _partition_answer(index, topic.partitions[index], image, context.listener_name) for index in page
                ],
            )
        )
        if len(page) < len(indexes):
            response.next_cursor = Cursor(topic_name=name, partition_index=indexes[len(page)])
            break
    for answer in response.topics:
        if answer.name is not None:
            answer.topic_authorized_operations = context.authorizer.authorized_operations(
                context, ResourceType.TOPIC, answer.name
            )
    response.topics += denied
    return response


def _names(request: DescribeTopicPartitionsRequest, image: MetadataImage) -> list[str]:
    cursor = request.cursor
    start = cursor.topic_name if cursor is not None else ""
    requested = image.topics.by_name if not request.topics else [topic.name for topic in request.topics]
    names = sorted({name for name in requested if name >= start})
    if cursor is not None:
        if request.topics and cursor.topic_name not in names:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST, f"the cursor names topic {cursor.topic_name!r}, which was not asked for"
            )
        if cursor.partition_index < 0:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"the cursor names partition {cursor.partition_index}")
    return names


def _error(name: str, code: ErrorCode) -> DescribeTopicPartitionsResponseTopic:
    return DescribeTopicPartitionsResponseTopic(error_code=code, name=name, is_internal=is_internal(name))


def _partition_answer(
    index: int, partition: PartitionImage, image: MetadataImage, listener: str
) -> DescribeTopicPartitionsResponsePartition:
    is_reachable = endpoint_of(image, partition.leader, listener) is not None
    return DescribeTopicPartitionsResponsePartition(
        partition_index=index,
        leader_id=partition.leader if is_reachable else NO_ID,
        leader_epoch=partition.leader_epoch,
        replica_nodes=list(partition.replicas),
        isr_nodes=list(partition.isr),
        eligible_leader_replicas=list(partition.elr),
        last_known_elr=list(partition.last_known_elr),
        offline_replicas=offline_replicas(image, partition, listener),
    )


API = Api(
    request=DescribeTopicPartitionsRequest,
    response=DescribeTopicPartitionsResponse,
    handle=handle,
    elements_max=50_000,
    refusal=ErrorCode.INVALID_REQUEST,
)
