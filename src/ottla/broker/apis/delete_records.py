"""DeleteRecords (key 21), versions 0 to 2: moves the start of partitions forward (KIP-107).

- 2: flexible

The answer gives the low watermark, the first offset that is left on every replica. With one replica nothing has to be
waited for, so the request's timeout has no use yet.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.authorization import Operation, ResourceType
from ottla.broker.context import RequestContext
from ottla.model.errors import ErrorCode, KafkaError
from ottla.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

__all__ = ["handle"]

_INTERNAL_TOPICS = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})


def handle(request: DeleteRecordsRequest, context: RequestContext, broker: Broker) -> DeleteRecordsResponse:
    topics: list[DeleteRecordsTopicResult] = []
    for topic in request.topics:
        error = ErrorCode.NONE
        if not context.allows(Operation.DELETE, ResourceType.TOPIC, topic.name):
            error = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        elif topic.name in _INTERNAL_TOPICS and topic.name in broker.replicas.by_name:
            error = ErrorCode.INVALID_TOPIC_EXCEPTION
        answers = [_delete(topic.name, wanted, error, broker) for wanted in topic.partitions]
        topics.append(DeleteRecordsTopicResult(name=topic.name, partitions=answers))
    return DeleteRecordsResponse(topics=topics)


def _delete(
    topic: str, wanted: DeleteRecordsPartition, error: ErrorCode, broker: Broker
) -> DeleteRecordsPartitionResult:
    answer = DeleteRecordsPartitionResult(partition_index=wanted.partition_index, low_watermark=-1, error_code=error)
    if error is ErrorCode.NONE:
        try:
            partition = broker.replicas.find(topic, wanted.partition_index)
            answer.low_watermark = partition.delete_records_before(wanted.offset)
        except KafkaError as refusal:
            answer.error_code = refusal.code
    return answer
