"""SyncGroup (key 14), versions 0 to 5: gives the members of a classic group their parts of the leader's assignment.

- 1: throttle time; 3: static members (KIP-345); 4: flexible; 5: type and name of the protocol, which are mandatory
  (KIP-559)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.apis.api import Api
from ottla.broker.authorization import Operation, ResourceType
from ottla.broker.context import RequestContext
from ottla.model.deferred import Deferred
from ottla.model.errors import ErrorCode, KafkaError
from ottla.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

__all__ = ["API"]

FIRST_VERSION_WITH_PROTOCOL = 5


def handle(request: SyncGroupRequest, context: RequestContext, broker: Broker) -> Deferred[SyncGroupResponse]:
    has_protocol = request.protocol_type is not None and request.protocol_name is not None
    if context.api_version >= FIRST_VERSION_WITH_PROTOCOL and not has_protocol:
        raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    if not context.allows(Operation.READ, ResourceType.GROUP, request.group_id):
        raise KafkaError(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    return broker.groups.sync(request)


def error_response(request: SyncGroupRequest, version: int, error: KafkaError) -> SyncGroupResponse:  # noqa: ARG001
    return SyncGroupResponse(error_code=error.code)


API = Api(
    request=SyncGroupRequest,
    response=SyncGroupResponse,
    handle=handle,
    error_response=error_response,
    elements_max=20_000,
    refusal=ErrorCode.INVALID_REQUEST,
)
