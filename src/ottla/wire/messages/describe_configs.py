# Written by tools/generate_messages.py from definitions/32_describe_configs.txt: change the definition, not this file.
"""DescribeConfigs, API key 32.

Configurations of topics, brokers, loggers, groups and client metrics, with the source of each value.
"""

from __future__ import annotations

from ottla.wire.message import EMPTY, Message, Request, Structure

__all__ = [
    "DescribeConfigsRequest",
    "DescribeConfigsResource",
    "DescribeConfigsResourceResult",
    "DescribeConfigsResponse",
    "DescribeConfigsResult",
    "DescribeConfigsSynonym",
]


class DescribeConfigsResource(Structure):
    """An element of `DescribeConfigsRequest.resources`."""

    __slots__ = ("resource_type", "resource_name", "configuration_keys")

    FIELDS = (
        ("resource_type", "int8", (0, 32767), None, None, 0, False),
        ("resource_name", "string", (0, 32767), None, None, "", False),
        ("configuration_keys", "[string]", (0, 32767), (0, 32767), None, (), False),
    )

    def __init__(
        self,
        *,
        resource_type: int = 0,
        resource_name: str = "",
        configuration_keys: list[str] | None = EMPTY,
    ) -> None:
        self.resource_type = resource_type
        self.resource_name = resource_name
        self.configuration_keys = [] if configuration_keys is EMPTY else configuration_keys


class DescribeConfigsRequest(Request["DescribeConfigsResponse"]):
    """Request, versions 1 to 4, flexible since 4."""

    __slots__ = ("resources", "include_synonyms", "include_documentation")

    API_KEY = 32
    VERSIONS = (1, 4)
    FLEXIBLE_SINCE = 4
    FIELDS = (
        ("resources", "[DescribeConfigsResource]", (0, 32767), None, None, (), False),
        ("include_synonyms", "bool", (0, 32767), None, None, False, False),
        ("include_documentation", "bool", (3, 32767), None, None, False, False),
    )

    def __init__(
        self,
        *,
        resources: list[DescribeConfigsResource] = EMPTY,
        include_synonyms: bool = False,
        include_documentation: bool = False,
    ) -> None:
        self.resources = [] if resources is EMPTY else resources
        self.include_synonyms = include_synonyms
        self.include_documentation = include_documentation


class DescribeConfigsSynonym(Structure):
    """An element of `DescribeConfigsResourceResult.synonyms`."""

    __slots__ = ("name", "value", "source")

    FIELDS = (
        ("name", "string", (0, 32767), None, None, "", False),
        ("value", "string", (0, 32767), (0, 32767), None, "", False),
        ("source", "int8", (0, 32767), None, None, 0, False),
    )

    def __init__(
        self,
        *,
        name: str = "",
        value: str | None = "",
        source: int = 0,
    ) -> None:
        self.name = name
        self.value = value
        self.source = source


class DescribeConfigsResourceResult(Structure):
    """An element of `DescribeConfigsResult.configs`."""

    __slots__ = (
        "name",
        "value",
        "read_only",
        "config_source",
        "is_sensitive",
        "synonyms",
        "config_type",
        "documentation",
    )

    FIELDS = (
        ("name", "string", (0, 32767), None, None, "", False),
        ("value", "string", (0, 32767), (0, 32767), None, "", False),
        ("read_only", "bool", (0, 32767), None, None, False, False),
        ("config_source", "int8", (0, 32767), None, None, -1, True),
        ("is_sensitive", "bool", (0, 32767), None, None, False, False),
        ("synonyms", "[DescribeConfigsSynonym]", (0, 32767), None, None, (), True),
        ("config_type", "int8", (3, 32767), None, None, 0, True),
        ("documentation", "string", (3, 32767), (0, 32767), None, "", True),
    )

    def __init__(
        self,
        *,
        name: str = "",
        value: str | None = "",
        read_only: bool = False,
        config_source: int = -1,
        is_sensitive: bool = False,
        synonyms: list[DescribeConfigsSynonym] = EMPTY,
        config_type: int = 0,
        documentation: str | None = "",
    ) -> None:
        self.name = name
        self.value = value
        self.read_only = read_only
        self.config_source = config_source
        self.is_sensitive = is_sensitive
        self.synonyms = [] if synonyms is EMPTY else synonyms
        self.config_type = config_type
        self.documentation = documentation


class DescribeConfigsResult(Structure):
    """An element of `DescribeConfigsResponse.results`."""

    __slots__ = ("error_code", "error_message", "resource_type", "resource_name", "configs")

    FIELDS = (
        ("error_code", "int16", (0, 32767), None, None, 0, False),
        ("error_message", "string", (0, 32767), (0, 32767), None, "", False),
        ("resource_type", "int8", (0, 32767), None, None, 0, False),
        ("resource_name", "string", (0, 32767), None, None, "", False),
        ("configs", "[DescribeConfigsResourceResult]", (0, 32767), None, None, (), False),
    )

    def __init__(
        self,
        *,
        error_code: int = 0,
        error_message: str | None = "",
        resource_type: int = 0,
        resource_name: str = "",
        configs: list[DescribeConfigsResourceResult] = EMPTY,
    ) -> None:
        self.error_code = error_code
        self.error_message = error_message
        self.resource_type = resource_type
        self.resource_name = resource_name
        self.configs = [] if configs is EMPTY else configs


class DescribeConfigsResponse(Message):
    """Response, versions 1 to 4, flexible since 4."""

    __slots__ = ("throttle_time_ms", "results")

    API_KEY = 32
    VERSIONS = (1, 4)
    FLEXIBLE_SINCE = 4
    FIELDS = (
        ("throttle_time_ms", "int32", (0, 32767), None, None, 0, False),
        ("results", "[DescribeConfigsResult]", (0, 32767), None, None, (), False),
    )

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        results: list[DescribeConfigsResult] = EMPTY,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.results = [] if results is EMPTY else results
