"""LeaveGroup (key 13), versions 0 to 5: removes members from a classic group.

- 1: throttle time; 3: several members, also by instance id alone (KIP-345); 4: flexible; 5: a reason (KIP-800)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.apis.api import Api
from ottla.broker.authorization import Operation, ResourceType
from ottla.broker.context import RequestContext
from ottla.model.deferred import Deferred
from ottla.model.errors import ErrorCode, KafkaError
from ottla.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

__all__ = ["API"]

FIRST_VERSION_WITH_SEVERAL_MEMBERS = 3


def handle(request: LeaveGroupRequest, context: RequestContext, broker: Broker) -> Deferred[LeaveGroupResponse]:
    if not context.allows(Operation.READ, ResourceType.GROUP, request.group_id):
        raise KafkaError(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    if context.api_version >= FIRST_VERSION_WITH_SEVERAL_MEMBERS:
        return broker.groups.leave(request)
    single = LeaveGroupRequest(group_id=request.group_id, members=[MemberIdentity(member_id=request.member_id)])
    return broker.groups.leave(single).then(_with_one_code)


def error_response(request: LeaveGroupRequest, version: int, error: KafkaError) -> LeaveGroupResponse:  # noqa: ARG001
    return LeaveGroupResponse(error_code=error.code)


def _with_one_code(response: LeaveGroupResponse) -> LeaveGroupResponse:
    """Before version 3 a request has one member, and its error is the error of the response."""
    return LeaveGroupResponse(error_code=response.error_code or response.members[0].error_code)


API = Api(
    request=LeaveGroupRequest,
    response=LeaveGroupResponse,
    handle=handle,
    error_response=error_response,
    elements_max=10_000,
    refusal=ErrorCode.INVALID_REQUEST,
)
