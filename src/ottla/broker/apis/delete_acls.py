"""DeleteAcls (key 31), versions 1 to 3: removes the access rules that match filters (KIP-140).

- 2: flexible
- 3: rules for resources of type USER

The controller decides about every filter separately. It needs ALTER on the cluster.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.access.requests import check_kinds, ensure_allowed
from ottla.broker.apis.api import Api, Portions
from ottla.broker.authorization import Operation
from ottla.model.errors import KafkaError
from ottla.wire.messages.delete_acls import DeleteAclsFilterResult, DeleteAclsRequest, DeleteAclsResponse

if TYPE_CHECKING:
    from ottla.broker.broker import Broker
    from ottla.broker.context import RequestContext
    from ottla.model.deferred import Deferred

__all__ = ["API"]


def handle(request: DeleteAclsRequest, context: RequestContext, broker: Broker) -> Deferred[DeleteAclsResponse]:
    for rule in request.filters:
        check_kinds(rule.resource_type_filter, rule.pattern_type_filter, rule.operation, rule.permission_type)
    ensure_allowed(Operation.ALTER, context)
    return broker.controller.ask(request, context.for_controller())


def error_response(request: DeleteAclsRequest, version: int, error: KafkaError) -> DeleteAclsResponse:  # noqa: ARG001
    """The same error for every filter of the request."""
    result = DeleteAclsFilterResult(error_code=error.code, error_message=error.message)
    return DeleteAclsResponse(filter_results=[result] * len(request.filters))


API = Api(
    request=DeleteAclsRequest,
    response=DeleteAclsResponse,
    handle=handle,
    error_response=error_response,
    portions=(Portions(request=("filters",), response=("filter_results",), size=100),),
    elements_max=10_000,
)
