"""DescribeAcls (key 29), versions 1 to 3: the access rules that match a filter.

- 1: patterns of names (KIP-290); 2: flexible; 3: rules about users (KIP-373)

There is no authorizer, so there are no rules. A filter of an unknown kind costs the connection, as in Apache Kafka.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.access_rules import NO_AUTHORIZER, check_known
from ottla.model.errors import ErrorCode, KafkaError
from ottla.wire.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse

if TYPE_CHECKING:
    from ottla.broker.broker import Broker
    from ottla.broker.context import RequestContext

__all__ = ["handle"]


def handle(
    request: DescribeAclsRequest,
    context: RequestContext,  # noqa: ARG001
    broker: Broker,  # noqa: ARG001
) -> DescribeAclsResponse:
    check_known(
        resource_type=request.resource_type_filter,
        pattern_type=request.pattern_type_filter,
        operation=request.operation,
        permission_type=request.permission_type,
    )
    raise KafkaError(ErrorCode.SECURITY_DISABLED, NO_AUTHORIZER)
