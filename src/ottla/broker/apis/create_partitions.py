"""CreatePartitions (key 37), versions 0 to 3: adds partitions to topics. Versions 2 and later are flexible.

The timeout of the request is not used: the answer is sent after the commit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.apis.api import Api, Portions
from ottla.broker.authorization import Operation, ResourceType
from ottla.broker.context import RequestContext
from ottla.model.deferred import Deferred
from ottla.model.errors import ErrorCode, KafkaError
from ottla.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopicResult,
)

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

__all__ = ["API"]

# From this version on, clients know THROTTLING_QUOTA_EXCEEDED (KIP-599).
_STRICT_SINCE = 3


def handle(
    request: CreatePartitionsRequest, context: RequestContext, broker: Broker
) -> Deferred[CreatePartitionsResponse]:
    refused = {
        topic.name for topic in request.topics if not context.allows(Operation.ALTER, ResourceType.TOPIC, topic.name)
    }
    request.topics = [topic for topic in request.topics if topic.name not in refused]
    mutations = context.mutations(strict_since=_STRICT_SINCE)
    extended = broker.controller.ask(request, context.for_controller(mutations=mutations))

    def finish(response: CreatePartitionsResponse) -> CreatePartitionsResponse:
        if mutations is not None:
            response.throttle_time_ms = max(response.throttle_time_ms, mutations.throttle_ms())
        response.results += [
            CreatePartitionsTopicResult(name=name, error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED)
            for name in sorted(refused)
        ]
        return response

    return extended.then(finish)


def error_response(request: CreatePartitionsRequest, version: int, error: KafkaError) -> CreatePartitionsResponse:  # noqa: ARG001
    return CreatePartitionsResponse(
        results=[
            CreatePartitionsTopicResult(name=topic.name, error_code=error.code, error_message=error.message)
            for topic in request.topics
        ]
    )


API = Api(
    request=CreatePartitionsRequest,
    response=CreatePartitionsResponse,
    handle=handle,
    error_response=error_response,
    portions=(Portions(request=("topics",), response=("results",), size=200),),
    elements_max=50_000,
)
