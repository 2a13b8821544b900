"""DescribeAcls (key 29), versions 1 to 3: the access rules that match a filter (KIP-140).

- 2: flexible
- 3: rules for resources of type USER

The answer comes from this node's metadata. It needs DESCRIBE on the cluster.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable
from typing import TYPE_CHECKING

from ottla.broker.access.requests import check_kinds, ensure_allowed
from ottla.broker.apis.api import Api
from ottla.broker.authorization import Operation
from ottla.broker.long_answers import ENTRIES_PER_SLICE, answer_in_slices
from ottla.metadata.acls import AclFilter
from ottla.metadata.image import AclEntry
from ottla.wire.messages.describe_acls import (
    AclDescription,
    DescribeAclsRequest,
    DescribeAclsResource,
    DescribeAclsResponse,
)

if TYPE_CHECKING:
    from ottla.broker.broker import Broker
    from ottla.broker.context import RequestContext
    from ottla.model.deferred import Deferred
    from ottla.wire.packed import PackedResponse

__all__ = ["API"]


def handle(
    request: DescribeAclsRequest, context: RequestContext, broker: Broker
) -> Deferred[DescribeAclsResponse | PackedResponse]:
    check_kinds(request.resource_type_filter, request.pattern_type_filter, request.operation, request.permission_type)
    ensure_allowed(Operation.DESCRIBE, context)
    wanted = AclFilter(
        resource_type=request.resource_type_filter,
        resource_name=request.resource_name_filter,
        pattern_type=request.pattern_type_filter,
        principal=request.principal_filter,
        host=request.host_filter,
        operation=request.operation,
        permission_type=request.permission_type,
    )
    return answer_in_slices(_describe(broker.metadata.image.acls.by_id.values(), wanted), context, broker)


def _describe(entries: Iterable[AclEntry], wanted: AclFilter) -> Generator[None, None, DescribeAclsResponse]:
    resources: dict[tuple[int, str, int], DescribeAclsResource] = {}
    for number, entry in enumerate(entries, 1):
        if number % ENTRIES_PER_SLICE == 0:
            yield
        if not wanted.matches(entry):
            continue
        key = (entry.resource_type, entry.resource_name, entry.pattern_type)
        resource = resources.get(key)
        if resource is None:
            resource = resources[key] = DescribeAclsResource(
                resource_type=entry.resource_type, resource_name=entry.resource_name, pattern_type=entry.pattern_type
            )
        resource.acls.append(
            AclDescription(
                principal=entry.principal,
                host=entry.host,
                operation=entry.operation,
                permission_type=entry.permission_type,
            )
        )
    return DescribeAclsResponse(resources=list(resources.values()))


API = Api(request=DescribeAclsRequest, response=DescribeAclsResponse, handle=handle)
