"""ListGroups (key 16), versions 0 to 5: the groups that this broker coordinates.

- 1: throttle time; 3: flexible; 4: filter by state (KIP-518); 5: filter by type (KIP-848)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.apis.api import Api
from ottla.broker.authorization import CLUSTER_NAME, Operation, ResourceType
from ottla.broker.context import RequestContext
from ottla.model.deferred import Deferred
from ottla.model.errors import ErrorCode
from ottla.wire.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

__all__ = ["API"]


def handle(request: ListGroupsRequest, context: RequestContext, broker: Broker) -> Deferred[ListGroupsResponse]:
    sees_all = context.allows(Operation.DESCRIBE, ResourceType.CLUSTER, CLUSTER_NAME)

    def respond(groups: list[ListedGroup]) -> ListGroupsResponse:
        return ListGroupsResponse(
            groups=[
                group
                for group in groups
                if sees_all or context.allows(Operation.DESCRIBE, ResourceType.GROUP, group.group_id)
            ]
        )

    return broker.groups.list_groups(states=request.states_filter, types=request.types_filter).then(respond)


API = Api(
    request=ListGroupsRequest,
    response=ListGroupsResponse,
    handle=handle,
    elements_max=10_000,
    refusal=ErrorCode.INVALID_REQUEST,
)
