# Written by tools/generate_messages.py from definitions/33_alter_configs.txt: change the definition, not this file.
"""AlterConfigs, API key 33.

Replaces the whole configuration of a resource: keys that are not named return to their defaults.
"""

from __future__ import annotations

from ottla.wire.message import EMPTY, Message, Request, Structure

__all__ = [
    "AlterConfigsRequest",
    "AlterConfigsResource",
    "AlterConfigsResourceResponse",
    "AlterConfigsResponse",
    "AlterableConfig",
]


class AlterableConfig(Structure):
    """An element of `AlterConfigsResource.configs`."""

    __slots__ = ("name", "value")

    FIELDS = (
        ("name", "string", (0, 32767), None, None, "", False),
        ("value", "string", (0, 32767), (0, 32767), None, "", False),
    )

    def __init__(
        self,
        *,
        name: str = "",
        value: str | None = "",
    ) -> None:
        self.name = name
        self.value = value


class AlterConfigsResource(Structure):
    """An element of `AlterConfigsRequest.resources`."""

    __slots__ = ("resource_type", "resource_name", "configs")

    FIELDS = (
        ("resource_type", "int8", (0, 32767), None, None, 0, False),
        ("resource_name", "string", (0, 32767), None, None, "", False),
        ("configs", "[AlterableConfig]", (0, 32767), None, None, (), False),
    )

    def __init__(
        self,
        *,
        resource_type: int = 0,
        resource_name: str = "",
        configs: list[AlterableConfig] = EMPTY,
    ) -> None:
        self.resource_type = resource_type
        self.resource_name = resource_name
        self.configs = [] if configs is EMPTY else configs


class AlterConfigsRequest(Request["AlterConfigsResponse"]):
    """Request, versions 0 to 2, flexible since 2."""

    __slots__ = ("resources", "validate_only")

    API_KEY = 33
    VERSIONS = (0, 2)
    FLEXIBLE_SINCE = 2
    FIELDS = (
        ("resources", "[AlterConfigsResource]", (0, 32767), None, None, (), False),
        ("validate_only", "bool", (0, 32767), None, None, False, False),
    )

    def __init__(
        self,
        *,
        resources: list[AlterConfigsResource] = EMPTY,
        validate_only: bool = False,
    ) -> None:
        self.resources = [] if resources is EMPTY else resources
        self.validate_only = validate_only


class AlterConfigsResourceResponse(Structure):
    """An element of `AlterConfigsResponse.responses`."""

    __slots__ = ("error_code", "error_message", "resource_type", "resource_name")

    FIELDS = (
        ("error_code", "int16", (0, 32767), None, None, 0, False),
        ("error_message", "string", (0, 32767), (0, 32767), None, "", False),
        ("resource_type", "int8", (0, 32767), None, None, 0, False),
        ("resource_name", "string", (0, 32767), None, None, "", False),
    )

    def __init__(
        self,
        *,
        error_code: int = 0,
        error_message: str | None = "",
        resource_type: int = 0,
        resource_name: str = "",
    ) -> None:
        self.error_code = error_code
        self.error_message = error_message
        self.resource_type = resource_type
        self.resource_name = resource_name


class AlterConfigsResponse(Message):
    """Response, versions 0 to 2, flexible since 2."""

    __slots__ = ("throttle_time_ms", "responses")

    API_KEY = 33
    VERSIONS = (0, 2)
    FLEXIBLE_SINCE = 2
    FIELDS = (
        ("throttle_time_ms", "int32", (0, 32767), None, None, 0, False),
        ("responses", "[AlterConfigsResourceResponse]", (0, 32767), None, None, (), False),
    )

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        responses: list[AlterConfigsResourceResponse] = EMPTY,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.responses = [] if responses is EMPTY else responses
