"""OffsetDelete (key 47), version 0: deletes a group's offsets of topics that its members do not read (KIP-496)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.apis.api import Api, Portions
from ottla.broker.authorization import Operation, ResourceType
from ottla.broker.context import RequestContext
from ottla.model.deferred import Deferred
from ottla.model.errors import ErrorCode, KafkaError
from ottla.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

__all__ = ["API"]


def handle(request: OffsetDeleteRequest, context: RequestContext, broker: Broker) -> Deferred[OffsetDeleteResponse]:
    if not context.allows(Operation.DELETE, ResourceType.GROUP, request.group_id):
        raise KafkaError(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    valid: list[OffsetDeleteRequestTopic] = []
    refused: dict[str, list[OffsetDeleteResponsePartition]] = {}
    for topic in request.topics:
        partitions: list[OffsetDeleteRequestPartition] = []
        for partition in topic.partitions:
            code = _check(topic.name, partition.partition_index, context, broker)
            if code is ErrorCode.NONE:
                partitions.append(partition)
            else:
                refused.setdefault(topic.name, []).append(
                    OffsetDeleteResponsePartition(partition_index=partition.partition_index, error_code=code)
                )
        if partitions:
            valid.append(OffsetDeleteRequestTopic(name=topic.name, partitions=partitions))

    def respond(response: OffsetDeleteResponse) -> OffsetDeleteResponse:
        answered = {topic.name: topic for topic in response.topics}
        for name, partitions in refused.items():
            if name in answered:
                answered[name].partitions.extend(partitions)
            else:
                response.topics.append(OffsetDeleteResponseTopic(name=name, partitions=partitions))
        return response

    deleted = broker.groups.delete_offsets(OffsetDeleteRequest(group_id=request.group_id, topics=valid))
    return deleted.then(respond)


def error_response(request: OffsetDeleteRequest, version: int, error: KafkaError) -> OffsetDeleteResponse:  # noqa: ARG001
    return OffsetDeleteResponse(error_code=error.code)


def _check(topic: str, index: int, context: RequestContext, broker: Broker) -> ErrorCode:
    if not context.allows(Operation.READ, ResourceType.TOPIC, topic):
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED
    if broker.metadata.image.topics.partition(topic, index) is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return ErrorCode.NONE


API = Api(
    request=OffsetDeleteRequest,
    response=OffsetDeleteResponse,
    handle=handle,
    error_response=error_response,
    portions=(Portions(request=("topics", "partitions"), response=("topics", "partitions"), size=1_000),),
)
