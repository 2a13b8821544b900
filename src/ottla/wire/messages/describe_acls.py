# Written by tools/generate_messages.py from definitions/29_describe_acls.txt: change the definition, not this file.
"""DescribeAcls, API key 29.

The ACLs that match a filter.
"""

from __future__ import annotations

from ottla.wire.message import EMPTY, Message, Request, Structure

__all__ = [
    "AclDescription",
    "DescribeAclsRequest",
    "DescribeAclsResource",
    "DescribeAclsResponse",
]


class DescribeAclsRequest(Request["DescribeAclsResponse"]):
    """Request, versions 1 to 3, flexible since 2."""

    __slots__ = (
        "resource_type_filter",
        "resource_name_filter",
        "pattern_type_filter",
        "principal_filter",
        "host_filter",
        "operation",
        "permission_type",
    )

    API_KEY = 29
    VERSIONS = (1, 3)
    FLEXIBLE_SINCE = 2
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


class AclDescription(Structure):
    """An element of `DescribeAclsResource.acls`."""

    __slots__ = ("principal", "host", "operation", "permission_type")

    FIELDS = (
        ("principal", "string", (0, 32767), None, None, "", False),
        ("host", "string", (0, 32767), None, None, "", False),
        ("operation", "int8", (0, 32767), None, None, 0, False),
        ("permission_type", "int8", (0, 32767), None, None, 0, False),
    )

    def __init__(
        self,
        *,
        principal: str = "",
        host: str = "",
        operation: int = 0,
        permission_type: int = 0,
    ) -> None:
        self.principal = principal
        self.host = host
        self.operation = operation
        self.permission_type = permission_type


class DescribeAclsResource(Structure):
    """An element of `DescribeAclsResponse.resources`."""

    __slots__ = ("resource_type", "resource_name", "pattern_type", "acls")

    FIELDS = (
        ("resource_type", "int8", (0, 32767), None, None, 0, False),
        ("resource_name", "string", (0, 32767), None, None, "", False),
        ("pattern_type", "int8", (0, 32767), None, None, 3, False),
        ("acls", "[AclDescription]", (0, 32767), None, None, (), False),
    )

    def __init__(
        self,
        *,
        resource_type: int = 0,
        resource_name: str = "",
        pattern_type: int = 3,
        acls: list[AclDescription] = EMPTY,
    ) -> None:
        self.resource_type = resource_type
        self.resource_name = resource_name
        self.pattern_type = pattern_type
        self.acls = [] if acls is EMPTY else acls


class DescribeAclsResponse(Message):
    """Response, versions 1 to 3, flexible since 2."""

    __slots__ = ("throttle_time_ms", "error_code", "error_message", "resources")

    API_KEY = 29
    VERSIONS = (1, 3)
    FLEXIBLE_SINCE = 2
    FIELDS = (
        ("throttle_time_ms", "int32", (0, 32767), None, None, 0, False),
        ("error_code", "int16", (0, 32767), None, None, 0, False),
        ("error_message", "string", (0, 32767), (0, 32767), None, "", False),
        ("resources", "[DescribeAclsResource]", (0, 32767), None, None, (), False),
    )

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        error_message: str | None = "",
        resources: list[DescribeAclsResource] = EMPTY,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.error_message = error_message
        self.resources = [] if resources is EMPTY else resources
