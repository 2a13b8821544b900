"""DeleteGroups (key 42), versions 0 to 3: deletes groups without members, and their offsets (KIP-229).

- 2: flexible; 3: error messages (KIP-1331), null where a message would only repeat the code
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.apis.api import Api, Portions
from ottla.broker.authorization import Operation, ResourceType
from ottla.broker.context import RequestContext
from ottla.model.deferred import Deferred
from ottla.model.errors import ErrorCode, KafkaError
from ottla.wire.messages.delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

__all__ = ["API"]


def handle(request: DeleteGroupsRequest, context: RequestContext, broker: Broker) -> Deferred[DeleteGroupsResponse]:
    allowed: list[str] = []
    forbidden: list[DeletableGroupResult] = []
    for name in dict.fromkeys(request.groups_names):
        if context.allows(Operation.DELETE, ResourceType.GROUP, name):
            allowed.append(name)
        else:
            forbidden.append(DeletableGroupResult(group_id=name, error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED))
    return broker.groups.delete_groups(allowed).then(
        lambda results: DeleteGroupsResponse(results=[*results, *forbidden])
    )


def error_response(request: DeleteGroupsRequest, version: int, error: KafkaError) -> DeleteGroupsResponse:  # noqa: ARG001
    return DeleteGroupsResponse(
        results=[DeletableGroupResult(group_id=name, error_code=error.code) for name in request.groups_names]
    )


API = Api(
    request=DeleteGroupsRequest,
    response=DeleteGroupsResponse,
    handle=handle,
    error_response=error_response,
    portions=(Portions(request=("groups_names",), response=("results",), size=100, is_heavy=True, drops_repeats=True),),
)
