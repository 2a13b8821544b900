# Written by tools/generate_messages.py from definitions/30_create_acls.txt: change the definition, not this file.
"""CreateAcls, API key 30.

Creates ACLs.
"""

from __future__ import annotations

from ottla.wire.message import EMPTY, Message, Request, Structure

__all__ = [
    "AclCreation",
    "AclCreationResult",
    "CreateAclsRequest",
    "CreateAclsResponse",
]


class AclCreation(Structure):
    """An element of `CreateAclsRequest.creations`."""

    __slots__ = (
        "resource_type",
        "resource_name",
        "resource_pattern_type",
        "principal",
        "host",
        "operation",
        "permission_type",
    )

    FIELDS = (
        ("resource_type", "int8", (0, 32767), None, None, 0, False),
        ("resource_name", "string", (0, 32767), None, None, "", False),
        ("resource_pattern_type", "int8", (0, 32767), None, None, 3, False),
        ("principal", "string", (0, 32767), None, None, "", False),
        ("host", "string", (0, 32767), None, None, "", False),
        ("operation", "int8", (0, 32767), None, None, 0, False),
        ("permission_type", "int8", (0, 32767), None, None, 0, False),
    )

    def __init__(
        self,
        *,
        resource_type: int = 0,
        resource_name: str = "",
        resource_pattern_type: int = 3,
        principal: str = "",
        host: str = "",
        operation: int = 0,
        permission_type: int = 0,
    ) -> None:
        self.resource_type = resource_type
        self.resource_name = resource_name
        self.resource_pattern_type = resource_pattern_type
        self.principal = principal
        self.host = host
        self.operation = operation
        self.permission_type = permission_type


class CreateAclsRequest(Request["CreateAclsResponse"]):
    """Request, versions 1 to 3, flexible since 2."""

    __slots__ = ("creations",)

    API_KEY = 30
    VERSIONS = (1, 3)
    FLEXIBLE_SINCE = 2
    FIELDS = (("creations", "[AclCreation]", (0, 32767), None, None, (), False),)

    def __init__(
        self,
        *,
        creations: list[AclCreation] = EMPTY,
    ) -> None:
        self.creations = [] if creations is EMPTY else creations


class AclCreationResult(Structure):
    """An element of `CreateAclsResponse.results`."""

    __slots__ = ("error_code", "error_message")

    FIELDS = (
        ("error_code", "int16", (0, 32767), None, None, 0, False),
        ("error_message", "string", (0, 32767), (0, 32767), None, "", False),
    )

    def __init__(
        self,
        *,
        error_code: int = 0,
        error_message: str | None = "",
    ) -> None:
        self.error_code = error_code
        self.error_message = error_message


class CreateAclsResponse(Message):
    """Response, versions 1 to 3, flexible since 2."""

    __slots__ = ("throttle_time_ms", "results")

    API_KEY = 30
    VERSIONS = (1, 3)
    FLEXIBLE_SINCE = 2
    FIELDS = (
        ("throttle_time_ms", "int32", (0, 32767), None, None, 0, False),
        ("results", "[AclCreationResult]", (0, 32767), None, None, (), False),
    )

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        results: list[AclCreationResult] = EMPTY,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.results = [] if results is EMPTY else results
