# Written by tools/generate_messages.py from definitions/44_incremental_alter_configs.txt: change the definition, not this file.
"""IncrementalAlterConfigs, API key 44.

Changes single configuration keys: set 0, delete 1, append 2, subtract 3 (KIP-339).
"""

from __future__ import annotations

from ottla.wire.message import EMPTY, Message, Request, Structure

__all__ = [
    "AlterConfigsResource",
    "AlterConfigsResourceResponse",
    "AlterableConfig",
    "IncrementalAlterConfigsRequest",
    "IncrementalAlterConfigsResponse",
]


class AlterableConfig(Structure):
    """An element of `AlterConfigsResource.configs`."""

    __slots__ = ("name", "config_operation", "value")

    FIELDS = (
        ("name", "string", (0, 32767), None, None, "", False),
        ("config_operation", "int8", (0, 32767), None, None, 0, False),
        ("value", "string", (0, 32767), (0, 32767), None, "", False),
    )

    def __init__(
        self,
        *,
        name: str = "",
        config_operation: int = 0,
        value: str | None = "",
    ) -> None:
        self.name = name
        self.config_operation = config_operation
        self.value = value


class AlterConfigsResource(Structure):
    """An element of `IncrementalAlterConfigsRequest.resources`."""

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


class IncrementalAlterConfigsRequest(Request["IncrementalAlterConfigsResponse"]):
    """Request, versions 0 to 1, flexible since 1."""

    __slots__ = ("resources", "validate_only")

    API_KEY = 44
    VERSIONS = (0, 1)
    FLEXIBLE_SINCE = 1
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
    """An element of `IncrementalAlterConfigsResponse.responses`."""

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


class IncrementalAlterConfigsResponse(Message):
    """Response, versions 0 to 1, flexible since 1."""

    __slots__ = ("throttle_time_ms", "responses")

    API_KEY = 44
    VERSIONS = (0, 1)
    FLEXIBLE_SINCE = 1
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
