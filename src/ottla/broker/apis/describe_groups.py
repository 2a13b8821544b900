"""DescribeGroups (key 15), versions 0 to 6: state and members of classic groups.

- 1: throttle time; 3: authorized operations (KIP-430); 4: instance ids (KIP-345); 5: flexible
- 6: GROUP_ID_NOT_FOUND for an unknown group, which was only Dead before (KIP-1043)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.apis.api import Api, Portions
from ottla.broker.authorization import Operation, ResourceType
from ottla.broker.context import RequestContext
from ottla.model.deferred import Deferred
from ottla.model.errors import ErrorCode
from ottla.wire.messages.describe_groups import DescribedGroup, DescribeGroupsRequest, DescribeGroupsResponse

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

__all__ = ["API"]


def handle(request: DescribeGroupsRequest, context: RequestContext, broker: Broker) -> Deferred[DescribeGroupsResponse]:
    allowed: list[str] = []
    forbidden: list[DescribedGroup] = []
    for group_id in request.groups:
        if context.allows(Operation.DESCRIBE, ResourceType.GROUP, group_id):
            allowed.append(group_id)
        else:
            forbidden.append(DescribedGroup(group_id=group_id, error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED))

    def respond(groups: list[DescribedGroup]) -> DescribeGroupsResponse:
        if request.include_authorized_operations:
            for group in groups:
                if group.error_code == ErrorCode.NONE:
                    group.authorized_operations = context.authorizer.authorized_operations(
                        context, ResourceType.GROUP, group.group_id
                    )
        return DescribeGroupsResponse(groups=[*groups, *forbidden])

    return broker.groups.describe_groups(allowed, context.api_version).then(respond)


API = Api(
    request=DescribeGroupsRequest,
    response=DescribeGroupsResponse,
    handle=handle,
    portions=(Portions(request=("groups",), response=("groups",), size=50, is_heavy=True),),
)
