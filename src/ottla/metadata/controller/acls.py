"""Decisions about ACLs (KIP-140, KIP-290).

An ACL is one record with an id of its own. Creating an ACL that exists changes nothing and succeeds. Every ACL and
every filter of a request succeeds or fails independently.
"""

from __future__ import annotations

from ottla.metadata.acls import AclFilter
from ottla.metadata.controller.decision import Decision, DecisionContext, ensure_bounded
from ottla.metadata.image import AclEntry
from ottla.model.access import CLUSTER_NAME, Operation, PatternType, Permission, ResourceType
from ottla.model.errors import ErrorCode, KafkaError
from ottla.model.ids import Uuid
from ottla.wire.messages.create_acls import (
    AclCreation,
    AclCreationResult,
    CreateAclsRequest,
    CreateAclsResponse,
)
from ottla.wire.messages.delete_acls import (
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsRequest,
    DeleteAclsResponse,
)
from ottla.wire.messages.metadata_records import AccessControlEntryRecord, RemoveAccessControlEntryRecord

__all__ = ["decide_create_acls", "decide_delete_acls"]

# Comparisons of an ACL with a filter in one request: other requests wait for less than 100 ms. A filter without open
# fields needs none.
COMPARISONS_MAX = 200_000


def decide_create_acls(request: CreateAclsRequest, context: DecisionContext) -> Decision[CreateAclsResponse]:
    ensure_bounded(len(request.creations))
    existing = context.image.acls.ids
    # Records by ACL: an ACL that the request contains twice is created once.
    records: dict[AclEntry, AccessControlEntryRecord] = {}
    results: list[AclCreationResult] = []
    for creation in request.creations:
        result = AclCreationResult()
        results.append(result)
        try:
            entry = _entry(creation)
        except KafkaError as error:
            result.error_code, result.error_message = error.code, error.message
            continue
        if entry not in existing and entry not in records:
            identity = Uuid(context.random.randbytes(16))
            records[entry] = AccessControlEntryRecord(id=identity, **entry._asdict())
    return Decision(list(records.values()), CreateAclsResponse(results=results))


def decide_delete_acls(request: DeleteAclsRequest, context: DecisionContext) -> Decision[DeleteAclsResponse]:
    ensure_bounded(len(request.filters))
    acls = context.image.acls
    deleted: dict[Uuid, None] = {}
    compared = 0
    results: list[DeleteAclsFilterResult] = []
    for wanted in request.filters:
        rule = AclFilter(
            resource_type=wanted.resource_type_filter,
            resource_name=wanted.resource_name_filter,
            pattern_type=wanted.pattern_type_filter,
            principal=wanted.principal_filter,
            host=wanted.host_filter,
            operation=wanted.operation,
            permission_type=wanted.permission_type,
        )
        result = DeleteAclsFilterResult(error_message=None)
        results.append(result)
        if rule.is_unknown:
            result.error_code = ErrorCode.INVALID_REQUEST
            result.error_message = "The filter has a field with an unknown value."
            continue
        exact = rule.exact
        if exact is None:
            compared += len(acls.by_id)
            if compared > COMPARISONS_MAX:
                raise KafkaError(
                    ErrorCode.POLICY_VIOLATION,
                    f"the request has too many filters for a cluster with {len(acls.by_id)} ACLs, so please split it",
                )
            matching = [(identity, entry) for identity, entry in acls.by_id.items() if rule.matches(entry)]
        else:
            identity = acls.ids.get(exact)
            matching = [] if identity is None else [(identity, exact)]
        for identity, entry in matching:
            deleted[identity] = None
            result.matching_acls.append(DeleteAclsMatchingAcl(error_message=None, **entry._asdict()))
    ensure_bounded(len(deleted))
    records = [RemoveAccessControlEntryRecord(id=identity) for identity in deleted]
    return Decision(records, DeleteAclsResponse(filter_results=results))


def _entry(creation: AclCreation) -> AclEntry:
    """The new ACL; raises KafkaError for an invalid one."""
    _require(ResourceType.TOPIC <= creation.resource_type <= max(ResourceType), "The resource type is not valid.")
    _require(
        creation.resource_pattern_type in (PatternType.LITERAL, PatternType.PREFIXED),
        "The pattern type of an ACL must be LITERAL or PREFIXED.",
    )
    _require(Operation.ALL <= creation.operation <= max(Operation), "The operation is not valid.")
    _require(
        creation.permission_type in (Permission.DENY, Permission.ALLOW),
        "The permission type of an ACL must be ALLOW or DENY.",
    )
    _require(bool(creation.resource_name), "The resource name must not be empty.")
    if creation.resource_type == ResourceType.CLUSTER:
        _require(
            creation.resource_name == CLUSTER_NAME,
            f"The only valid name of a resource of type CLUSTER is {CLUSTER_NAME}.",
        )
    principal_type, colon, _ = creation.principal.partition(":")
    _require(
        bool(colon and principal_type), f"The principal {creation.principal!r} does not have the form <type>:<name>."
    )
    return AclEntry(
        resource_type=creation.resource_type,
        resource_name=creation.resource_name,
        pattern_type=creation.resource_pattern_type,
        principal=creation.principal,
        host=creation.host,
        operation=creation.operation,
        permission_type=creation.permission_type,
    )


def _require(condition: bool, sentence: str) -> None:
    if not condition:
        raise KafkaError(ErrorCode.INVALID_REQUEST, sentence)
