"""ConsumerGroupHeartbeat (key 68), versions 0 to 1: membership in a group whose assignment the broker makes (KIP-848).

- 1: the member chooses its own id (KIP-1082); subscription by regular expression
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.apis.api import Api
from ottla.broker.authorization import Operation, ResourceType
from ottla.broker.consumer_protocol import is_consumer_protocol_enabled
from ottla.broker.context import RequestContext
from ottla.model.deferred import Deferred
from ottla.model.errors import ErrorCode, KafkaError
from ottla.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

__all__ = ["API"]

# An assignment that is too large for a record of __consumer_offsets is not the member's fault.
_TOO_LARGE = frozenset({ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE})


def handle(
    request: ConsumerGroupHeartbeatRequest, context: RequestContext, broker: Broker
) -> Deferred[ConsumerGroupHeartbeatResponse]:
    if not is_consumer_protocol_enabled(broker):
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION)
    if not context.allows(Operation.READ, ResourceType.GROUP, request.group_id):
        raise KafkaError(ErrorCode.GROUP_AUTHORIZATION_FAILED)

    def may_see_topic(name: str) -> bool:
        return context.allows(Operation.DESCRIBE, ResourceType.TOPIC, name)

    if not all(may_see_topic(name) for name in request.subscribed_topic_names or ()):
        raise KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    return broker.groups.consumer_heartbeat(
        request,
        api_version=context.api_version,
        client_id=context.client_id or "",
        client_host=f"/{context.connection.client_host}",
        may_see_topic=may_see_topic,
    )


def error_response(
    request: ConsumerGroupHeartbeatRequest,  # noqa: ARG001
    version: int,  # noqa: ARG001
    error: KafkaError,
) -> ConsumerGroupHeartbeatResponse:
    # A message that only repeats the code is left out.
    message = None if error.message == error.code.message else error.message
    code = ErrorCode.UNKNOWN_SERVER_ERROR if error.code in _TOO_LARGE else error.code
    return ConsumerGroupHeartbeatResponse(error_code=code, error_message=message)


API = Api(
    request=ConsumerGroupHeartbeatRequest,
    response=ConsumerGroupHeartbeatResponse,
    handle=handle,
    error_response=error_response,
    elements_max=100_000,
    refusal=ErrorCode.INVALID_REQUEST,
)
