"""Access rules of the cluster (KIP-140, KIP-290)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from ottla.client.cluster import Cluster
from ottla.client.errors import check, error_of
from ottla.model.access import WILDCARD, Operation, PatternType, Permission, ResourceType
from ottla.model.errors import KafkaError
from ottla.wire.messages.create_acls import AclCreation, CreateAclsRequest, CreateAclsResponse
from ottla.wire.messages.delete_acls import (
    DeleteAclsFilter,
    DeleteAclsMatchingAcl,
    DeleteAclsRequest,
    DeleteAclsResponse,
)
from ottla.wire.messages.describe_acls import (
    AclDescription,
    DescribeAclsRequest,
    DescribeAclsResource,
    DescribeAclsResponse,
)

__all__ = ["Acl", "Acls", "AclSelection"]


class Acl(NamedTuple):
    resource_type: ResourceType
    resource_name: str
    principal: str
    operation: Operation
    permission: Permission = Permission.ALLOW
    host: str = WILDCARD
    pattern_type: PatternType = PatternType.LITERAL


class AclSelection(NamedTuple):
    """A filter. None and ANY select everything."""

    resource_type: ResourceType = ResourceType.ANY
    resource_name: str | None = None
    pattern_type: PatternType = PatternType.ANY
    principal: str | None = None
    host: str | None = None
    operation: Operation = Operation.ANY
    permission: Permission = Permission.ANY


class Acls:
    """`admin.acls`."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    async def describe(self, selection: AclSelection | None = None) -> list[Acl]:
        response: DescribeAclsResponse = await self._cluster.ask_any(
            DescribeAclsRequest(**_filter_fields(selection or AclSelection()))
        )
        check(response.error_code, response.error_message)
        return sorted(_acl(resource, rule) for resource in response.resources for rule in resource.acls)

    async def create(self, acls: Iterable[Acl]) -> None:
        """Rules that exist already stay as they are. Raises the error of the first rule that was refused."""
        for error in (await self.create_each(acls)).values():
            if error is not None:
                raise error

    async def create_each(self, acls: Iterable[Acl]) -> dict[Acl, KafkaError | None]:
        """The error of every rule, or None."""
        wanted = list(acls)
        creations = [
            AclCreation(
                resource_type=acl.resource_type,
                resource_name=acl.resource_name,
                resource_pattern_type=acl.pattern_type,
                principal=acl.principal,
                host=acl.host,
                operation=acl.operation,
                permission_type=acl.permission,
            )
            for acl in wanted
        ]
        response: CreateAclsResponse = await self._cluster.ask_controller(
            CreateAclsRequest(creations=creations), lambda answer: [result.error_code for result in answer.results]
        )
        return {
            acl: error_of(result.error_code, result.error_message)
            for acl, result in zip(wanted, response.results, strict=True)
        }

    async def delete(self, selections: Iterable[AclSelection]) -> list[Acl]:
        """The rules that were deleted. Raises the error of the first selection or rule that was refused."""
        deleted: set[Acl] = set()
        for result in await self.delete_each(selections):
            if isinstance(result, KafkaError):
                raise result
            for acl, error in result.items():
                if error is not None:
                    raise error
                deleted.add(acl)
        return sorted(deleted)

    async def delete_each(self, selections: Iterable[AclSelection]) -> list[dict[Acl, KafkaError | None] | KafkaError]:
        """For every selection its error, or the rules that it matches, each with None if it was deleted."""
        filters = [DeleteAclsFilter(**_filter_fields(selection)) for selection in selections]
        response: DeleteAclsResponse = await self._cluster.ask_controller(
            DeleteAclsRequest(filters=filters), lambda answer: [result.error_code for result in answer.filter_results]
        )
        return [
            error_of(result.error_code, result.error_message)
            or {_acl(acl, acl): error_of(acl.error_code, acl.error_message) for acl in result.matching_acls}
            for result in response.filter_results
        ]


def _filter_fields(selection: AclSelection) -> dict[str, Any]:
    """A filter has the same fields in DescribeAcls and in DeleteAcls."""
    return {
        "resource_type_filter": selection.resource_type,
        "resource_name_filter": selection.resource_name,
        "pattern_type_filter": selection.pattern_type,
        "principal_filter": selection.principal,
        "host_filter": selection.host,
        "operation": selection.operation,
        "permission_type": selection.permission,
    }


def _acl(resource: DescribeAclsResource | DeleteAclsMatchingAcl, rule: AclDescription | DeleteAclsMatchingAcl) -> Acl:
    """DescribeAcls answers with rules by resource, DeleteAcls with both in one message."""
    return Acl(
        resource_type=ResourceType(resource.resource_type),
        resource_name=resource.resource_name,
        principal=rule.principal,
        operation=Operation(rule.operation),
        permission=Permission(rule.permission_type),
        host=rule.host,
        pattern_type=PatternType(resource.pattern_type),
    )
