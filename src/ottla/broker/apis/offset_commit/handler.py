"""Checks the topics of an offset commit and hands the rest to the group coordinator."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ottla.broker.authorization import Operation, ResourceType
from ottla.broker.context import RequestContext
from ottla.model.deferred import Deferred
from ottla.model.errors import ErrorCode, KafkaError
from ottla.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from ottla.wire.uniform import UniformArray

if TYPE_CHECKING:
    from ottla.broker.broker import Broker
    from ottla.metadata.image import TopicImage, TopicsImage

__all__ = ["error_response", "handle"]

FIRST_VERSION_WITH_TOPIC_IDS = 10
_TOO_LARGE = frozenset({ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE})


def handle(
    request: OffsetCommitRequest, context: RequestContext, broker: Broker
) -> OffsetCommitResponse | Deferred[OffsetCommitResponse]:
    if not context.allows(Operation.READ, ResourceType.GROUP, request.group_id):
        raise KafkaError(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    topics = broker.metadata.image.topics
    valid: list[OffsetCommitRequestTopic] = []
    refused: list[OffsetCommitResponseTopic] = []
    for topic in request.topics:
        known = _known_topic(topic, topics, context)
        if isinstance(known, ErrorCode):
            refused.append(_refused(topic, topic.partitions, known))
            continue
        partitions = known.partitions
        if not _are_among(topic.partitions, len(partitions)):
            strangers = [partition for partition in topic.partitions if partition.partition_index not in partitions]
            refused.append(_refused(topic, strangers, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
            topic.partitions = [part for part in topic.partitions if part.partition_index in partitions]
        if topic.partitions:
            valid.append(topic)
    if not valid:
        return OffsetCommitResponse(topics=refused)
    request.topics = valid
    committed = broker.groups.commit_offsets(request, context.api_version)
    if context.connection.quota.is_set:
        committed = committed.then(_own_response)
    if not refused:
        return committed
    return committed.recover(KafkaError, lambda error: error_response(request, context.api_version, error)).then(
        lambda response: _merge(response, refused)
    )


def error_response(request: OffsetCommitRequest, version: int, error: KafkaError) -> OffsetCommitResponse:  # noqa: ARG001
    """Every partition gets the code: the answer has no other place for it."""
    code = ErrorCode.INVALID_COMMIT_OFFSET_SIZE if error.code in _TOO_LARGE else error.code
    return OffsetCommitResponse(topics=[_refused(topic, topic.partitions, code) for topic in request.topics])


def _known_topic(
    topic: OffsetCommitRequestTopic, topics: TopicsImage, context: RequestContext
) -> TopicImage | ErrorCode:
    """The topic, or why nothing can be committed for it; fills in the name where the request has an id."""
    if context.api_version >= FIRST_VERSION_WITH_TOPIC_IDS:
        known = topics.by_id.get(topic.topic_id)
        if known is None:
            return ErrorCode.UNKNOWN_TOPIC_ID
        topic.name = known.name
    else:
        known = topics.by_name.get(topic.name)
    if not context.allows(Operation.READ, ResourceType.TOPIC, topic.name):
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED
    return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if known is None else known


def _are_among(partitions: Sequence[OffsetCommitRequestPartition], count: int) -> bool:
    """Whether a topic of so many partitions has them all: they are numbered without gaps."""
    if type(partitions) is UniformArray:
        indexes: tuple[int, ...] = partitions.column("partition_index")
    else:
        indexes = tuple([partition.partition_index for partition in partitions])
    return not indexes or (min(indexes) >= 0 and max(indexes) < count)


def _refused(
    topic: OffsetCommitRequestTopic, partitions: list[OffsetCommitRequestPartition], code: ErrorCode
) -> OffsetCommitResponseTopic:
    return OffsetCommitResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        partitions=[
            OffsetCommitResponsePartition(partition_index=partition.partition_index, error_code=code)
            for partition in partitions
        ],
    )


def _own_response(response: OffsetCommitResponse) -> OffsetCommitResponse:
    """One that may be told a throttle time: the one that was given may be shared, and holds for everybody."""
    return OffsetCommitResponse(topics=response.topics)


def _merge(response: OffsetCommitResponse, refused: list[OffsetCommitResponseTopic]) -> OffsetCommitResponse:
    """A response of its own: the one that was given may be shared."""
    answered: dict[tuple[str, bytes], OffsetCommitResponseTopic] = {}
    for topic in (*response.topics, *refused):
        same = answered.get((topic.name, topic.topic_id.bytes))
        partitions = topic.partitions if same is None else [*same.partitions, *topic.partitions]
        answered[topic.name, topic.topic_id.bytes] = OffsetCommitResponseTopic(
            name=topic.name, topic_id=topic.topic_id, partitions=partitions
        )
    return OffsetCommitResponse(topics=list(answered.values()))
