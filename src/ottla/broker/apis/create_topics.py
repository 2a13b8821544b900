"""CreateTopics (key 19), versions 2 to 7.

- 4: partitions and replication factor may be -1 for the default; 5: flexible, and the answer describes the topic
- 7: the answer has the topic's id

CREATE on the cluster allows every topic; without it CREATE is needed on every topic. The answer shows configurations
to clients with DESCRIBE_CONFIGS on the topic. The timeout of the request is not used: the answer is sent after the
commit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.apis.api import Api, Portions
from ottla.broker.authorization import CLUSTER_NAME, Operation, ResourceType
from ottla.broker.context import RequestContext
from ottla.metadata.topic_names import CLUSTER_METADATA_TOPIC
from ottla.model.deferred import Deferred
from ottla.model.errors import ErrorCode, KafkaError
from ottla.wire.messages.create_topics import CreatableTopicResult, CreateTopicsRequest, CreateTopicsResponse

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

__all__ = ["API"]

# From this version on, clients know THROTTLING_QUOTA_EXCEEDED (KIP-599).
_STRICT_SINCE = 6


def handle(request: CreateTopicsRequest, context: RequestContext, broker: Broker) -> Deferred[CreateTopicsResponse]:
    denied: list[CreatableTopicResult] = []
    if not context.would_allow(Operation.CREATE, ResourceType.CLUSTER, CLUSTER_NAME):
        refused = {
            topic.name
            for topic in request.topics
            # The topic of the metadata log cannot be created: the controller refuses it.
            if topic.name != CLUSTER_METADATA_TOPIC
            and not context.allows(Operation.CREATE, ResourceType.TOPIC, topic.name)
        }
        denied = [
            CreatableTopicResult(
                name=name,
                error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED,
                error_message=ErrorCode.TOPIC_AUTHORIZATION_FAILED.message,
                configs=[],
            )
            for name in sorted(refused)
        ]
        request.topics = [topic for topic in request.topics if topic.name not in refused]

    def may_describe_configs(name: str) -> bool:
        return context.would_allow(Operation.DESCRIBE_CONFIGS, ResourceType.TOPIC, name)

    mutations = context.mutations(strict_since=_STRICT_SINCE)
    created = broker.controller.ask(
        request, context.for_controller(may_describe_configs=may_describe_configs, mutations=mutations)
    )

    def finish(response: CreateTopicsResponse) -> CreateTopicsResponse:
        if mutations is not None:
            response.throttle_time_ms = max(response.throttle_time_ms, mutations.throttle_ms())
        response.topics += denied
        return response

    return created.then(finish)


def error_response(request: CreateTopicsRequest, version: int, error: KafkaError) -> CreateTopicsResponse:  # noqa: ARG001
    """The same error for every topic of the request."""
    return CreateTopicsResponse(
        topics=[
            CreatableTopicResult(name=topic.name, error_code=error.code, error_message=error.message, configs=[])
            for topic in request.topics
        ]
    )


API = Api(
    request=CreateTopicsRequest,
    response=CreateTopicsResponse,
    handle=handle,
    error_response=error_response,
    portions=(Portions(request=("topics",), response=("topics",), size=100),),
    elements_max=50_000,
)
