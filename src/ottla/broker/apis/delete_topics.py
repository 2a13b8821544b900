"""DeleteTopics (key 20), versions 1 to 6.

- 3: TOPIC_DELETION_DISABLED has a code of its own; 4: flexible; 5: error messages; 6: topics by name or by id

A client that may describe a topic but not delete it gets its name in the answer. A client that may not describe it
does not learn whether it exists. The timeout of the request is not used: the answer is sent after the commit.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from ottla.broker.apis.api import Api, Portions
from ottla.broker.authorization import CLUSTER_NAME, Operation, ResourceType
from ottla.broker.context import RequestContext
from ottla.metadata.image import MetadataImage
from ottla.model.deferred import Deferred
from ottla.model.errors import ErrorCode, KafkaError
from ottla.model.ids import Uuid
from ottla.wire.messages.delete_topics import DeletableTopicResult, DeleteTopicsRequest, DeleteTopicsResponse

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

__all__ = ["API"]

# From this version on, clients know THROTTLING_QUOTA_EXCEEDED (KIP-599).
_STRICT_SINCE = 5


def handle(request: DeleteTopicsRequest, context: RequestContext, broker: Broker) -> Deferred[DeleteTopicsResponse]:
    denied: list[DeletableTopicResult] = []
    if not context.would_allow(Operation.DELETE, ResourceType.CLUSTER, CLUSTER_NAME):
        denied = _take_denied(request, context, broker.metadata.image)
    mutations = context.mutations(strict_since=_STRICT_SINCE)
    deleted = broker.controller.ask(request, context.for_controller(mutations=mutations))

    def finish(response: DeleteTopicsResponse) -> DeleteTopicsResponse:
        if mutations is not None:
            response.throttle_time_ms = max(response.throttle_time_ms, mutations.throttle_ms())
        response.responses += denied
        return response

    return deleted.then(finish)


def error_response(request: DeleteTopicsRequest, version: int, error: KafkaError) -> DeleteTopicsResponse:  # noqa: ARG001
    def result(name: str | None, topic_id: Uuid = Uuid.ZERO) -> DeletableTopicResult:
        return DeletableTopicResult(name=name, topic_id=topic_id, error_code=error.code, error_message=error.message)

    return DeleteTopicsResponse(
        responses=[
            *(result(name) for name in request.topic_names),
            *(result(topic.name, topic.topic_id) for topic in request.topics),
        ]
    )


def _take_denied(
    request: DeleteTopicsRequest, context: RequestContext, image: MetadataImage
) -> list[DeletableTopicResult]:
    """Removes the topics that the principal may not delete from the request. Returns their results.

    Malformed entries stay in the request, because the controller refuses them: a topic named twice, or by name and id.
    """
    denied: list[DeletableTopicResult] = []
    times = Counter(request.topic_names)
    # A topic with a name and an id is refused. Its name does not count as a repetition of another topic's name.
    times.update(topic.name for topic in request.topics if topic.name is not None and not topic.topic_id)

    def may(operation: Operation, name: str) -> bool:
        return context.allows(operation, ResourceType.TOPIC, name)

    def deny(name: str | None, topic_id: Uuid, code: ErrorCode = ErrorCode.TOPIC_AUTHORIZATION_FAILED) -> bool:
        denied.append(DeletableTopicResult(name=name, topic_id=topic_id, error_code=code, error_message=code.message))
        return True

    def is_denied(name: str | None, topic_id: Uuid) -> bool:
        if name is None:
            topic = image.topics.by_id.get(topic_id)
            if topic is None or may(Operation.DELETE, topic.name):
                return False
            return deny(
                topic.name if context.would_allow(Operation.DESCRIBE, ResourceType.TOPIC, topic.name) else None,
                topic_id,
            )
        if topic_id or times[name] > 1:
            return False
        if not may(Operation.DESCRIBE, name):
            return deny(name, topic_id)
        if name in image.topics.by_name:
            return not may(Operation.DELETE, name) and deny(name, topic_id)
        # A principal that may describe a topic is told that it does not exist. The controller is not asked: it may know
        # the topic already, while its creation is not committed, and would delete it.
        is_allowed = context.would_allow(Operation.DELETE, ResourceType.TOPIC, name)
        return not is_allowed and deny(name, topic_id, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)

    request.topic_names = [name for name in request.topic_names if not is_denied(name, Uuid.ZERO)]
    request.topics = [topic for topic in request.topics if not is_denied(topic.name, topic.topic_id)]
    return denied


API = Api(
    request=DeleteTopicsRequest,
    response=DeleteTopicsResponse,
    handle=handle,
    error_response=error_response,
    portions=(
        Portions(request=("topics",), response=("responses",), size=500),
        Portions(request=("topic_names",), response=("responses",), size=500),
    ),
    elements_max=100_000,
)
