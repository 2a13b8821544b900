"""Checks the topics of an offset commit and hands the rest to the group coordinator."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ottla.broker.authorization import Operation, ResourceType
from ottla.broker.commit_topics import readable_topic
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
from ottla.wire.packed import PackedResponse
from ottla.wire.uniform import UniformArray

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

__all__ = ["error_response", "handle"]

FIRST_VERSION_WITH_TOPIC_IDS = 10
# The coordinator gives the answer without an error packed, since it is the same each time.
CommitAnswer = OffsetCommitResponse | PackedResponse
_TOO_LARGE = frozenset({ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE})


def handle(
    request: OffsetCommitRequest, context: RequestContext, broker: Broker
) -> CommitAnswer | Deferred[CommitAnswer] | Deferred[OffsetCommitResponse]:
    if not context.allows(Operation.READ, ResourceType.GROUP, request.group_id):
        raise KafkaError(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    topics = broker.metadata.image.topics
    valid: list[OffsetCommitRequestTopic] = []
    refused: list[OffsetCommitResponseTopic] = []
    for topic in request.topics:
        known = readable_topic(topic, topics, context, by_id=context.api_version >= FIRST_VERSION_WITH_TOPIC_IDS)
        if isinstance(known, ErrorCode):
            refused.append(_refused(topic, topic.partitions, known))
            continue
        partitions = known.partitions
        if not _are_among(topic.partitions, len(partitions)):
            unknown = [partition for partition in topic.partitions if partition.partition_index not in partitions]
            refused.append(_refused(topic, unknown, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
            topic.partitions = [part for part in topic.partitions if part.partition_index in partitions]
        if topic.partitions:
            valid.append(topic)
    if not valid:
        return OffsetCommitResponse(topics=refused)
    request.topics = valid
    committed = broker.groups.commit_offsets(request, context.api_version)
    if not refused:
        return committed
    version = context.api_version
    return committed.recover(KafkaError, lambda error: error_response(request, version, error)).then(
        lambda response: _merge(response, version, refused)
    )


def error_response(request: OffsetCommitRequest, version: int, error: KafkaError) -> OffsetCommitResponse:  # noqa: ARG001
    """Every partition gets the code: the response has no other field for it."""
    code = ErrorCode.INVALID_COMMIT_OFFSET_SIZE if error.code in _TOO_LARGE else error.code
    return OffsetCommitResponse(topics=[_refused(topic, topic.partitions, code) for topic in request.topics])


def _are_among(partitions: Sequence[OffsetCommitRequestPartition], count: int) -> bool:
    """True if a topic with `count` partitions has all of these: partitions are numbered without gaps."""
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


def _merge(
    response: OffsetCommitResponse | PackedResponse, version: int, refused: list[OffsetCommitResponseTopic]
) -> OffsetCommitResponse:
    """The coordinator's response and the refused partitions in one response, where a topic stands once."""
    if isinstance(response, PackedResponse):
        response = response.unpacked(OffsetCommitResponse, version)
    merged: dict[str | bytes, OffsetCommitResponseTopic] = {}
    for topic in (*response.topics, *refused):
        key = topic.topic_id.bytes if version >= FIRST_VERSION_WITH_TOPIC_IDS else topic.name
        same = merged.get(key)
        if same is None:
            same = merged[key] = OffsetCommitResponseTopic(name=topic.name, topic_id=topic.topic_id, partitions=[])
        same.partitions.extend(topic.partitions)
    return OffsetCommitResponse(topics=list(merged.values()))
