"""OffsetFetch (key 9), versions 1 to 10: the committed offsets of groups.

- 2: null for all topics, an error for the group as a whole; 3: throttle time; 5: leader epochs (KIP-320); 6: flexible
- 7: UNSTABLE_OFFSET_COMMIT for offsets of an open transaction, on demand (KIP-447); 8: several groups at once (KIP-709)
- 9: members of the new protocol (KIP-848); 10: topics by id
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.apis.api import Api, Portions
from ottla.broker.authorization import Operation, ResourceType
from ottla.broker.context import RequestContext
from ottla.model.deferred import Deferred, gather
from ottla.model.errors import ErrorCode, KafkaError
from ottla.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)

if TYPE_CHECKING:
    from ottla.broker.broker import Broker
    from ottla.metadata.image import TopicsImage

__all__ = ["API"]

FIRST_VERSION_WITH_GROUP_ERROR = 2
FIRST_VERSION_WITH_SEVERAL_GROUPS = 8
FIRST_VERSION_WITH_TOPIC_IDS = 10
INVALID_OFFSET = -1


def handle(
    request: OffsetFetchRequest, context: RequestContext, broker: Broker
) -> OffsetFetchResponse | Deferred[OffsetFetchResponse]:
    if context.api_version >= FIRST_VERSION_WITH_SEVERAL_GROUPS:
        return _handle_groups(request, context, broker)
    topics = request.topics
    group = OffsetFetchRequestGroup(
        group_id=request.group_id,
        topics=None
        if topics is None
        else [OffsetFetchRequestTopics(name=topic.name, partition_indexes=topic.partition_indexes) for topic in topics],
    )
    fetched = _fetch_group(group, request.require_stable, context, broker)
    return fetched.then(lambda answer: _single(answer, group, context.api_version))


def error_response(request: OffsetFetchRequest, version: int, error: KafkaError) -> OffsetFetchResponse:
    if version >= FIRST_VERSION_WITH_SEVERAL_GROUPS:
        return OffsetFetchResponse(
            groups=[
                OffsetFetchResponseGroup(group_id=group.group_id, error_code=error.code) for group in request.groups
            ]
        )
    return OffsetFetchResponse(error_code=error.code)


def _handle_groups(
    request: OffsetFetchRequest, context: RequestContext, broker: Broker
) -> OffsetFetchResponse | Deferred[OffsetFetchResponse]:
    if sum(group.topics is None for group in request.groups) > 1:
        # Every group may have very many offsets, so it gets its own portion.
        from ottla.broker.portions import handle_in_portions

        return handle_in_portions(API, request, context, broker)
    fetched = [_fetch_group(group, request.require_stable, context, broker) for group in request.groups]
    return gather(fetched).then(lambda groups: OffsetFetchResponse(groups=groups))


def _fetch_group(
    group: OffsetFetchRequestGroup, require_stable: bool, context: RequestContext, broker: Broker
) -> Deferred[OffsetFetchResponseGroup]:
    """A KafkaError becomes the answer of the group."""
    if not context.allows(Operation.DESCRIBE, ResourceType.GROUP, group.group_id):
        return Deferred.resolved(_failed(group, ErrorCode.GROUP_AUTHORIZATION_FAILED))
    topics = broker.metadata.image.topics
    refused: list[OffsetFetchResponseTopics] = []
    by_id = context.api_version >= FIRST_VERSION_WITH_TOPIC_IDS
    if group.topics is not None:
        valid: list[OffsetFetchRequestTopics] = []
        for topic in group.topics:
            code = _check_topic(topic, topics, context)
            if code is ErrorCode.NONE:
                valid.append(topic)
            else:
                refused.append(_refused(topic, code))
        permitted = OffsetFetchRequestGroup(
            group_id=group.group_id, member_id=group.member_id, member_epoch=group.member_epoch, topics=valid
        )
    else:
        permitted = group

    def visible(response: OffsetFetchResponseGroup) -> OffsetFetchResponseGroup:
        if group.topics is None:
            response.topics = _visible(response.topics, topics, context, by_id=by_id)
        response.topics.extend(refused)
        return response

    def failed(error: KafkaError) -> OffsetFetchResponseGroup:
        # Older consumers do not expect COORDINATOR_NOT_AVAILABLE in this response.
        is_away = error.code is ErrorCode.COORDINATOR_NOT_AVAILABLE
        return _failed(group, ErrorCode.NOT_COORDINATOR if is_away else error.code)

    fetched = broker.groups.fetch_offsets(permitted, require_stable=require_stable)
    return fetched.then(visible).recover(KafkaError, failed)


def _check_topic(topic: OffsetFetchRequestTopics, topics: TopicsImage, context: RequestContext) -> ErrorCode:
    """The error for a topic, if there is one. Fills in the name where the request has an id."""
    if context.api_version >= FIRST_VERSION_WITH_TOPIC_IDS:
        topic_image = topics.by_id.get(topic.topic_id)
        if topic_image is None:
            return ErrorCode.UNKNOWN_TOPIC_ID
        topic.name = topic_image.name
    is_allowed = context.allows(Operation.DESCRIBE, ResourceType.TOPIC, topic.name)
    return ErrorCode.NONE if is_allowed else ErrorCode.TOPIC_AUTHORIZATION_FAILED


def _visible(
    fetched: list[OffsetFetchResponseTopics], topics: TopicsImage, context: RequestContext, *, by_id: bool
) -> list[OffsetFetchResponseTopics]:
    """The topics that the client may describe; with `by_id`, only topics that exist."""
    visible = [topic for topic in fetched if context.would_allow(Operation.DESCRIBE, ResourceType.TOPIC, topic.name)]
    if not by_id:
        return visible
    identified: list[OffsetFetchResponseTopics] = []
    for topic in visible:
        topic_image = topics.by_name.get(topic.name)
        if topic_image is not None:
            topic.topic_id = topic_image.topic_id
            identified.append(topic)
    return identified


def _refused(topic: OffsetFetchRequestTopics, code: ErrorCode) -> OffsetFetchResponseTopics:
    return OffsetFetchResponseTopics(
        name=topic.name,
        topic_id=topic.topic_id,
        partitions=[
            OffsetFetchResponsePartitions(
                partition_index=index, committed_offset=INVALID_OFFSET, metadata="", error_code=code
            )
            for index in topic.partition_indexes
        ],
    )


def _failed(group: OffsetFetchRequestGroup, code: ErrorCode) -> OffsetFetchResponseGroup:
    return OffsetFetchResponseGroup(group_id=group.group_id, error_code=code)


def _single(answer: OffsetFetchResponseGroup, group: OffsetFetchRequestGroup, version: int) -> OffsetFetchResponse:
    """The response before version 8. Version 1 has the error of the group in every partition."""
    topics = answer.topics
    if answer.error_code and version < FIRST_VERSION_WITH_GROUP_ERROR:
        topics = [_refused(topic, ErrorCode(answer.error_code)) for topic in group.topics or ()]
    return OffsetFetchResponse(
        error_code=answer.error_code,
        topics=[
            OffsetFetchResponseTopic(
                name=topic.name,
                partitions=[
                    OffsetFetchResponsePartition(
                        partition_index=partition.partition_index,
                        committed_offset=partition.committed_offset,
                        committed_leader_epoch=partition.committed_leader_epoch,
                        metadata=partition.metadata,
                        error_code=partition.error_code,
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in topics
        ],
    )


API = Api(
    request=OffsetFetchRequest,
    response=OffsetFetchResponse,
    handle=handle,
    error_response=error_response,
    portions=(
        Portions(
            request=("groups", "topics", "partition_indexes"), response=("groups", "topics", "partitions"), size=2_000
        ),
        Portions(request=("topics", "partition_indexes"), response=("topics", "partitions"), size=2_000),
    ),
)
