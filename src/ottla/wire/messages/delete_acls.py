# Written by tools/generate_messages.py from definitions/31_delete_acls.txt: change the definition, not this file.
"""DeleteAcls, API key 31.

Deletes the ACLs that match filters.
"""

from __future__ import annotations

from ottla.wire.message import EMPTY, Message, Request, Structure

__all__ = [
    "DeleteAclsFilter",
    "DeleteAclsFilterResult",
    "DeleteAclsMatchingAcl",
    "DeleteAclsRequest",
    "DeleteAclsResponse",
]


class DeleteAclsFilter(Structure):
    """An element of `DeleteAclsRequest.filters`."""

    __slots__ = (
        "resource_type_filter",
        "resource_name_filter",
        "pattern_type_filter",
        "principal_filter",
        "host_filter",
        "operation",
        "permission_type",
    )

    FIELDS = (
        ("resource_type_filter", "int8", (0, 32767), None, None, 0, False),
        ("resource_name_filter", "string", (0, 32767), (0, 32767), None, "", False),
        ("pattern_type_filter", "int8", (0, 32767), None, None, 3, False),
        ("principal_filter", "string", (0, 32767), (0, 32767), None, "", False),
        ("host_filter", "string", (0, 32767), (0, 32767), None, "", False),
        ("operation", "int8", (0, 32767), None, None, 0, False),
        ("permission_type", "int8", (0, 32767), None, None, 0, False),
    )

    def __init__(
        self,
        *,
        resource_type_filter: int = 0,
        resource_name_filter: str | None = "",
        pattern_type_filter: int = 3,
        principal_filter: str | None = "",
        host_filter: str | None = "",
        operation: int = 0,
        permission_type: int = 0,
    ) -> None:
        self.resource_type_filter = resource_type_filter
        self.resource_name_filter = resource_name_filter
        self.pattern_type_filter = pattern_type_filter
        self.principal_filter = principal_filter
        self.host_filter = host_filter
        self.operation = operation
        self.permission_type = permission_type


class DeleteAclsRequest(Request["DeleteAclsResponse"]):
    """Request, versions 1 to 3, flexible since 2."""

    __slots__ = ("filters",)

    API_KEY = 31
    VERSIONS = (1, 3)
    FLEXIBLE_SINCE = 2
    FIELDS = (("filters", "[DeleteAclsFilter]", (0, 32767), None, None, (), False),)

    def __init__(
        self,
        *,
        filters: list[DeleteAclsFilter] = EMPTY,
    ) -> None:
        self.filters = [] if filters is EMPTY else filters


class DeleteAclsMatchingAcl(Structure):
    """An element of `DeleteAclsFilterResult.matching_acls`."""

    __slots__ = (
        "error_code",
        "error_message",
        "resource_type",
        "resource_name",
        "pattern_type",
        "principal",
        "host",
        "operation",
        "permission_type",
    )

    FIELDS = (
        ("error_code", "int16", (0, 32767), None, None, 0, False),
        ("error_message", "string", (0, 32767), (0, 32767), None, "", False),
        ("resource_type", "int8", (0, 32767), None, None, 0, False),
        ("resource_name", "string", (0, 32767), None, None, "", False),
        ("pattern_type", "int8", (0, 32767), None, None, 3, False),
        ("principal", "string", (0, 32767), None, None, "", False),
        ("host", "string", (0, 32767), None, None, "", False),
        ("operation", "int8", (0, 32767), None, None, 0, False),
        ("permission_type", "int8", (0, 32767), None, None, 0, False),
    )

    def __init__(
        self,
        *,
        error_code: int = 0,
        error_message: str | None = "",
        resource_type: int = 0,
        resource_name: str = "",
        pattern_type: int = 3,
        principal: str = "",
        host: str = "",
        operation: int = 0,
        permission_type: int = 0,
    ) -> None:
        self.error_code = error_code
        self.error_message = error_message
        self.resource_type = resource_type
        self.resource_name = resource_name
        self.pattern_type = pattern_type
        self.principal = principal
        self.host = host
        self.operation = operation
        self.permission_type = permission_type


class DeleteAclsFilterResult(Structure):
    """An element of `DeleteAclsResponse.filter_results`."""

    __slots__ = ("error_code", "error_message", "matching_acls")

    FIELDS = (
        ("error_code", "int16", (0, 32767), None, None, 0, False),
        ("error_message", "string", (0, 32767), (0, 32767), None, "", False),
        ("matching_acls", "[DeleteAclsMatchingAcl]", (0, 32767), None, None, (), False),
    )

    def __init__(
        self,
        *,
        error_code: int = 0,
        error_message: str | None = "",
        matching_acls: list[DeleteAclsMatchingAcl] = EMPTY,
    ) -> None:
        self.error_code = error_code
        self.error_message = error_message
        self.matching_acls = [] if matching_acls is EMPTY else matching_acls


class DeleteAclsResponse(Message):
    """Response, versions 1 to 3, flexible since 2."""

    __slots__ = ("throttle_time_ms", "filter_results")

    API_KEY = 31
    VERSIONS = (1, 3)
    FLEXIBLE_SINCE = 2
    FIELDS = (
        ("throttle_time_ms", "int32", (0, 32767), None, None, 0, False),
        ("filter_results", "[DeleteAclsFilterResult]", (0, 32767), None, None, (), False),
    )

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        filter_results: list[DeleteAclsFilterResult] = EMPTY,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.filter_results = [] if filter_results is EMPTY else filter_results
