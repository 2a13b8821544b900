"""CreateAcls (key 30), versions 1 to 3: adds access rules (KIP-140).

- 2: flexible
- 3: rules for resources of type USER

The controller decides about every rule separately. It needs ALTER on the cluster.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.access.requests import check_kinds, ensure_allowed
from ottla.broker.apis.api import Api, Portions
from ottla.broker.authorization import Operation
from ottla.model.errors import KafkaError
from ottla.wire.messages.create_acls import AclCreationResult, CreateAclsRequest, CreateAclsResponse

if TYPE_CHECKING:
    from ottla.broker.broker import Broker
    from ottla.broker.context import RequestContext
    from ottla.model.deferred import Deferred

__all__ = ["API"]


def handle(request: CreateAclsRequest, context: RequestContext, broker: Broker) -> Deferred[CreateAclsResponse]:
    for rule in request.creations:
        check_kinds(rule.resource_type, rule.resource_pattern_type, rule.operation, rule.permission_type)
    ensure_allowed(Operation.ALTER, context)
    return broker.controller.ask(request, context.for_controller())


def error_response(request: CreateAclsRequest, version: int, error: KafkaError) -> CreateAclsResponse:  # noqa: ARG001
    """The same error for every rule of the request."""
    result = AclCreationResult(error_code=error.code, error_message=error.message)
    return CreateAclsResponse(results=[result] * len(request.creations))


API = Api(
    request=CreateAclsRequest,
    response=CreateAclsResponse,
    handle=handle,
    error_response=error_response,
    portions=(Portions(request=("creations",), response=("results",), size=500),),
    elements_max=10_000,
)
