"""ListOffsets (key 2), versions 1 to 11.

- 1: one offset per partition, with its timestamp; 2: isolation level; 4: leader epochs (KIP-320)
- 5: OFFSET_NOT_AVAILABLE right after an election (KIP-207); before it LEADER_NOT_AVAILABLE says the same
- 6: flexible
- 7: the record of the largest timestamp, -3 (KIP-734)
- 8: the earliest local offset, -4; 9: the last tiered offset, -5; 11: the earliest offset not yet uploaded, -6
- 10: a timeout for remote storage, of which we have none

A special timestamp that the request's version does not know yet is answered with UNSUPPORTED_VERSION.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from ottla.broker.authorization import Operation, ResourceType
from ottla.broker.context import RequestContext
from ottla.model.errors import ErrorCode, KafkaError
from ottla.replica.offsets import find_offset
from ottla.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

__all__ = ["handle"]

# The first version that knows each special timestamp.
_VERSION_OF_TIMESTAMP = {-1: 1, -2: 1, -3: 7, -4: 8, -5: 9, -6: 11}
_LEADER_EPOCH_VERSION = 4
_OFFSET_NOT_AVAILABLE_VERSION = 5


def handle(request: ListOffsetsRequest, context: RequestContext, broker: Broker) -> ListOffsetsResponse:
    asked = Counter(
        (topic.name, partition.partition_index) for topic in request.topics for partition in topic.partitions
    )
    topics: list[ListOffsetsTopicResponse] = []
    for topic in request.topics:
        is_allowed = context.allows(Operation.DESCRIBE, ResourceType.TOPIC, topic.name)
        answers: list[ListOffsetsPartitionResponse] = []
        for wanted in topic.partitions:
            if not is_allowed:
                answers.append(_failed(wanted, ErrorCode.TOPIC_AUTHORIZATION_FAILED))
            elif asked[topic.name, wanted.partition_index] > 1:
                answers.append(_failed(wanted, ErrorCode.INVALID_REQUEST))
            else:
                answers.append(_list(topic.name, wanted, request, context, broker))
        topics.append(ListOffsetsTopicResponse(name=topic.name, partitions=answers))
    return ListOffsetsResponse(topics=topics)


def _list(
    topic: str, wanted: ListOffsetsPartition, request: ListOffsetsRequest, context: RequestContext, broker: Broker
) -> ListOffsetsPartitionResponse:
    timestamp = wanted.timestamp
    if timestamp < 0 and context.api_version < _VERSION_OF_TIMESTAMP.get(timestamp, 0x7FFF):
        return _failed(wanted, ErrorCode.UNSUPPORTED_VERSION)
    try:
        found = find_offset(
            broker.replicas.find(topic, wanted.partition_index),
            timestamp,
            current_leader_epoch=wanted.current_leader_epoch,
            isolation_level=request.isolation_level,
            replica_id=request.replica_id,
        )
    except KafkaError as error:
        code = error.code
        if code is ErrorCode.OFFSET_NOT_AVAILABLE and context.api_version < _OFFSET_NOT_AVAILABLE_VERSION:
            code = ErrorCode.LEADER_NOT_AVAILABLE
        return _failed(wanted, code)
    return ListOffsetsPartitionResponse(
        partition_index=wanted.partition_index,
        timestamp=found.timestamp,
        offset=found.offset,
        leader_epoch=found.leader_epoch if context.api_version >= _LEADER_EPOCH_VERSION else -1,
    )


def _failed(wanted: ListOffsetsPartition, error: ErrorCode) -> ListOffsetsPartitionResponse:
    return ListOffsetsPartitionResponse(partition_index=wanted.partition_index, error_code=error)
