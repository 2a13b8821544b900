"""DeleteAcls (key 31), versions 1 to 3: removes the access rules that match filters.

- 1: patterns of names (KIP-290); 2: flexible; 3: rules about users (KIP-373)

There is no authorizer, so there are no rules. A filter of an unknown kind costs the connection, as in Apache Kafka.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.access_rules import NO_AUTHORIZER, check_known
from ottla.model.errors import ErrorCode, KafkaError
from ottla.wire.messages.delete_acls import DeleteAclsFilterResult, DeleteAclsRequest, DeleteAclsResponse

if TYPE_CHECKING:
    from ottla.broker.broker import Broker
    from ottla.broker.context import RequestContext

__all__ = ["error_response", "handle"]


def handle(
    request: DeleteAclsRequest,
    context: RequestContext,  # noqa: ARG001
    broker: Broker,  # noqa: ARG001
) -> DeleteAclsResponse:
    for each in request.filters:
        check_known(
            resource_type=each.resource_type_filter,
            pattern_type=each.pattern_type_filter,
            operation=each.operation,
            permission_type=each.permission_type,
        )
    raise KafkaError(ErrorCode.SECURITY_DISABLED, NO_AUTHORIZER)


def error_response(
    request: DeleteAclsRequest,
    version: int,  # noqa: ARG001
    error: KafkaError,
) -> DeleteAclsResponse:
    refused = DeleteAclsFilterResult(error_code=error.code, error_message=error.message)
    return DeleteAclsResponse(filter_results=[refused] * len(request.filters))
