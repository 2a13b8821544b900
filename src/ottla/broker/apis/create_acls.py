"""CreateAcls (key 30), versions 1 to 3: adds access rules.

- 1: patterns of names (KIP-290); 2: flexible; 3: rules about users (KIP-373)

There is no authorizer, so none is taken. A rule of an unknown kind costs the connection, as in Apache Kafka.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.access_rules import NO_AUTHORIZER, check_known
from ottla.model.errors import ErrorCode, KafkaError
from ottla.wire.messages.create_acls import AclCreationResult, CreateAclsRequest, CreateAclsResponse

if TYPE_CHECKING:
    from ottla.broker.broker import Broker
    from ottla.broker.context import RequestContext

__all__ = ["error_response", "handle"]


def handle(
    request: CreateAclsRequest,
    context: RequestContext,  # noqa: ARG001
    broker: Broker,  # noqa: ARG001
) -> CreateAclsResponse:
    for rule in request.creations:
        check_known(
            resource_type=rule.resource_type,
            pattern_type=rule.resource_pattern_type,
            operation=rule.operation,
            permission_type=rule.permission_type,
        )
    raise KafkaError(ErrorCode.SECURITY_DISABLED, NO_AUTHORIZER)


def error_response(
    request: CreateAclsRequest,
    version: int,  # noqa: ARG001
    error: KafkaError,
) -> CreateAclsResponse:
    refused = AclCreationResult(error_code=error.code, error_message=error.message)
    return CreateAclsResponse(results=[refused] * len(request.creations))
