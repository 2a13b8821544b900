"""JoinGroup (key 11), versions 0 to 9: joins a classic group.

- 1: a timeout for rebalances; 2: throttle time
- 4: a first attempt is answered with MEMBER_ID_REQUIRED and an id to come back with (KIP-394)
- 5: static members (KIP-345); 6: flexible; 7: the protocol's name may be null, its type is answered (KIP-559)
- 8: a reason for the join (KIP-800); 9: a leader that returns may skip the assignment (KIP-814)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.apis.api import Api
from ottla.broker.authorization import Operation, ResourceType
from ottla.broker.context import RequestContext
from ottla.model.deferred import Deferred
from ottla.model.errors import ErrorCode, KafkaError
from ottla.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

__all__ = ["API"]

FIRST_VERSION_WITHOUT_PROTOCOL = 7


def handle(
    request: JoinGroupRequest, context: RequestContext, broker: Broker
) -> JoinGroupResponse | Deferred[JoinGroupResponse]:
    if not context.allows(Operation.READ, ResourceType.GROUP, request.group_id):
        refused = error_response(request, context.api_version, KafkaError(ErrorCode.GROUP_AUTHORIZATION_FAILED))
        refused.member_id = ""
        return refused
    joined = broker.groups.join(
        request,
        api_version=context.api_version,
        client_id=context.client_id or "",
        client_host=f"/{context.connection.client_host}",
    )
    return joined.then(_without_protocol if context.api_version >= FIRST_VERSION_WITHOUT_PROTOCOL else _with_protocol)


def error_response(request: JoinGroupRequest, version: int, error: KafkaError) -> JoinGroupResponse:
    protocol = "" if version < FIRST_VERSION_WITHOUT_PROTOCOL else None
    return JoinGroupResponse(error_code=error.code, member_id=request.member_id, protocol_name=protocol)


def _with_protocol(response: JoinGroupResponse) -> JoinGroupResponse:
    if response.protocol_name is None:
        response.protocol_name = ""
    return response


def _without_protocol(response: JoinGroupResponse) -> JoinGroupResponse:
    """An empty protocol name becomes null in versions that allow it."""
    response.protocol_name = response.protocol_name or None
    return response


API = Api(
    request=JoinGroupRequest,
    response=JoinGroupResponse,
    handle=handle,
    error_response=error_response,
    elements_max=10_000,
    refusal=ErrorCode.INVALID_REQUEST,
)
