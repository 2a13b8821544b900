"""Checks the topics of an offset commit and hands the rest to the group coordinator."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ottla.broker.authorization import Operation, ResourceType
from ottla.broker.commit_topics import CheckedTopics
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

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

__all__ = ["error_response", "handle", "handle_in_slices"]

FIRST_VERSION_WITH_TOPIC_IDS = 10
# The coordinator gives the answer without an error packed, since it is the same each time.
CommitAnswer = OffsetCommitResponse | PackedResponse
Checked = CheckedTopics[OffsetCommitRequestTopic, OffsetCommitResponseTopic]
_TOO_LARGE = frozenset({ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE})


def handle(request: OffsetCommitRequest, context: RequestContext, broker: Broker) -> CommitAnswer | Deferred[Any]:
    checked = _checked_topics(request, context, broker)
    checked.check(request.topics)
    return _commit(request, checked, context, broker)


def handle_in_slices(request: OffsetCommitRequest, context: RequestContext, broker: Broker) -> Deferred[Any]:
    """Checks some topics in each turn of the loop. The offsets of all topics are then committed together."""
    checked = _checked_topics(request, context, broker)
    work = broker.replicas.slices.run(checked.check_in_slices(request.topics))
    return work.and_then(lambda _: Deferred.of(_commit(request, checked, context, broker)))


def _checked_topics(request: OffsetCommitRequest, context: RequestContext, broker: Broker) -> Checked:
    if not context.allows(Operation.READ, ResourceType.GROUP, request.group_id):
        raise KafkaError(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    by_id = context.api_version >= FIRST_VERSION_WITH_TOPIC_IDS
    return CheckedTopics(broker.metadata.image.topics, context, _refused, by_id=by_id)


def _commit(
    request: OffsetCommitRequest, checked: Checked, context: RequestContext, broker: Broker
) -> CommitAnswer | Deferred[Any]:
    refused, version = checked.refused, context.api_version
    if not checked.valid:
        return OffsetCommitResponse(topics=refused)
    request.topics = checked.valid
    committed = broker.groups.commit_offsets(request, version)
    if not refused:
        return committed
    return committed.recover(KafkaError, lambda error: error_response(request, version, error)).then(
        lambda response: _merge(response, version, refused)
    )


def error_response(request: OffsetCommitRequest, version: int, error: KafkaError) -> OffsetCommitResponse:  # noqa: ARG001
    """Every partition gets the code: the response has no other field for it."""
    code = ErrorCode.INVALID_COMMIT_OFFSET_SIZE if error.code in _TOO_LARGE else error.code
    return OffsetCommitResponse(topics=[_refused(topic, topic.partitions, code) for topic in request.topics])


def _refused(
    topic: OffsetCommitRequestTopic, partitions: Sequence[OffsetCommitRequestPartition], code: ErrorCode
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
        merged_topic = merged.get(key)
        if merged_topic is None:
            merged_topic = merged[key] = OffsetCommitResponseTopic(
                name=topic.name, topic_id=topic.topic_id, partitions=[]
            )
        merged_topic.partitions.extend(topic.partitions)
    return OffsetCommitResponse(topics=list(merged.values()))
