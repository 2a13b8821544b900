# Written by tools/generate_messages.py from definitions/74_list_config_resources.txt: change the definition, not this file.
"""ListConfigResources, API key 74.

Resources that have a configuration. 0 returns only client metrics; 1 filters by type, no type meaning all (KIP-1142).
"""

from __future__ import annotations

from ottla.wire.message import EMPTY, Message, Request, Structure

__all__ = [
    "ConfigResource",
    "ListConfigResourcesRequest",
    "ListConfigResourcesResponse",
]


class ListConfigResourcesRequest(Request["ListConfigResourcesResponse"]):
    """Request, versions 0 to 1, flexible."""

    __slots__ = ("resource_types",)

    API_KEY = 74
    VERSIONS = (0, 1)
    FLEXIBLE_SINCE = 0
    FIELDS = (("resource_types", "[int8]", (1, 32767), None, None, (), False),)

    def __init__(
        self,
        *,
        resource_types: list[int] = EMPTY,
    ) -> None:
        self.resource_types = [] if resource_types is EMPTY else resource_types


class ConfigResource(Structure):
    """An element of `ListConfigResourcesResponse.config_resources`."""

    __slots__ = ("resource_name", "resource_type")

    FIELDS = (
        ("resource_name", "string", (0, 32767), None, None, "", False),
        ("resource_type", "int8", (1, 32767), None, None, 16, True),
    )

    def __init__(
        self,
        *,
        resource_name: str = "",
        resource_type: int = 16,
    ) -> None:
        self.resource_name = resource_name
        self.resource_type = resource_type


class ListConfigResourcesResponse(Message):
    """Response, versions 0 to 1, flexible."""

    __slots__ = ("throttle_time_ms", "error_code", "config_resources")

    API_KEY = 74
    VERSIONS = (0, 1)
    FLEXIBLE_SINCE = 0
    FIELDS = (
        ("throttle_time_ms", "int32", (0, 32767), None, None, 0, False),
        ("error_code", "int16", (0, 32767), None, None, 0, False),
        ("config_resources", "[ConfigResource]", (0, 32767), None, None, (), False),
    )

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        config_resources: list[ConfigResource] = EMPTY,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.config_resources = [] if config_resources is EMPTY else config_resources
