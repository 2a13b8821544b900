"""The topics of a commit request, OffsetCommit or TxnOffsetCommit: by name, and in newer versions by id."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.authorization import Operation, ResourceType
from ottla.model.errors import ErrorCode

if TYPE_CHECKING:
    from ottla.broker.context import RequestContext
    from ottla.metadata.image import TopicImage, TopicsImage
    from ottla.wire.messages.offset_commit import OffsetCommitRequestTopic
    from ottla.wire.messages.txn_offset_commit import TxnOffsetCommitRequestTopic

__all__ = ["readable_topic"]


def readable_topic(
    topic: OffsetCommitRequestTopic | TxnOffsetCommitRequestTopic,
    topics: TopicsImage,
    context: RequestContext,
    *,
    by_id: bool,
) -> TopicImage | ErrorCode:
    """The topic, or the error for it. Fills in the name where the request has an id."""
    if by_id:
        known = topics.by_id.get(topic.topic_id)
        if known is None:
            return ErrorCode.UNKNOWN_TOPIC_ID
        topic.name = known.name
    else:
        known = topics.by_name.get(topic.name)
    if not context.allows(Operation.READ, ResourceType.TOPIC, topic.name):
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED
    return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if known is None else known
