"""ListGroups (key 16), versions 0 to 5: the groups that this broker coordinates.

- 1: throttle time; 3: flexible; 4: filter by state (KIP-518); 5: filter by type (KIP-848)
"""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING

from ottla.broker.apis.api import Api
from ottla.broker.authorization import CLUSTER_NAME, Operation, ResourceType
from ottla.broker.context import RequestContext
from ottla.broker.long_answers import ENTRIES_PER_SLICE, answer_in_slices
from ottla.model.deferred import Deferred
from ottla.model.errors import ErrorCode
from ottla.wire.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse

if TYPE_CHECKING:
    from ottla.broker.broker import Broker
    from ottla.wire.packed import PackedResponse

__all__ = ["API"]


def handle(
    request: ListGroupsRequest, context: RequestContext, broker: Broker
) -> Deferred[ListGroupsResponse | PackedResponse]:
    listed = broker.groups.list_groups(states=request.states_filter, types=request.types_filter)
    return listed.and_then(lambda groups: answer_in_slices(_respond(groups, context), context, broker))


def _respond(groups: list[ListedGroup], context: RequestContext) -> Generator[None, None, ListGroupsResponse]:
    """The groups that the client may describe."""
    sees_all = context.would_allow(Operation.DESCRIBE, ResourceType.CLUSTER, CLUSTER_NAME)
    response = ListGroupsResponse()
    for number, group in enumerate(groups, 1):
        if number % ENTRIES_PER_SLICE == 0:
            yield
        if sees_all or context.would_allow(Operation.DESCRIBE, ResourceType.GROUP, group.group_id):
            response.groups.append(group)
    return response


API = Api(
    request=ListGroupsRequest,
    response=ListGroupsResponse,
    handle=handle,
    elements_max=10_000,
    refusal=ErrorCode.INVALID_REQUEST,
)
