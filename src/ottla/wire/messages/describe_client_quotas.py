# Written by tools/generate_messages.py from definitions/48_describe_client_quotas.txt: change the definition, not this file.
"""DescribeClientQuotas, API key 48.

Quotas of the entities that match a filter.
"""

from __future__ import annotations

from ottla.wire.message import EMPTY, Message, Request, Structure

__all__ = [
    "ComponentData",
    "DescribeClientQuotasRequest",
    "DescribeClientQuotasResponse",
    "EntityData",
    "EntryData",
    "ValueData",
]


class ComponentData(Structure):
    """An element of `DescribeClientQuotasRequest.components`."""

    __slots__ = ("entity_type", "match_type", "match")

    FIELDS = (
        ("entity_type", "string", (0, 32767), None, None, "", False),
        ("match_type", "int8", (0, 32767), None, None, 0, False),
        ("match", "string", (0, 32767), (0, 32767), None, "", False),
    )

    def __init__(
        self,
        *,
        entity_type: str = "",
        match_type: int = 0,
        match: str | None = "",
    ) -> None:
        self.entity_type = entity_type
        self.match_type = match_type
        self.match = match


class DescribeClientQuotasRequest(Request["DescribeClientQuotasResponse"]):
    """Request, versions 0 to 1, flexible since 1."""

    __slots__ = ("components", "strict")

    API_KEY = 48
    VERSIONS = (0, 1)
    FLEXIBLE_SINCE = 1
    FIELDS = (
        ("components", "[ComponentData]", (0, 32767), None, None, (), False),
        ("strict", "bool", (0, 32767), None, None, False, False),
    )

    def __init__(
        self,
        *,
        components: list[ComponentData] = EMPTY,
        strict: bool = False,
    ) -> None:
        self.components = [] if components is EMPTY else components
        self.strict = strict


class EntityData(Structure):
    """An element of `EntryData.entity`."""

    __slots__ = ("entity_type", "entity_name")

    FIELDS = (
        ("entity_type", "string", (0, 32767), None, None, "", False),
        ("entity_name", "string", (0, 32767), (0, 32767), None, "", False),
    )

    def __init__(
        self,
        *,
        entity_type: str = "",
        entity_name: str | None = "",
    ) -> None:
        self.entity_type = entity_type
        self.entity_name = entity_name


class ValueData(Structure):
    """An element of `EntryData.values`."""

    __slots__ = ("key", "value")

    FIELDS = (
        ("key", "string", (0, 32767), None, None, "", False),
        ("value", "float64", (0, 32767), None, None, 0.0, False),
    )

    def __init__(
        self,
        *,
        key: str = "",
        value: float = 0.0,
    ) -> None:
        self.key = key
        self.value = value


class EntryData(Structure):
    """An element of `DescribeClientQuotasResponse.entries`."""

    __slots__ = ("entity", "values")

    FIELDS = (
        ("entity", "[EntityData]", (0, 32767), None, None, (), False),
        ("values", "[ValueData]", (0, 32767), None, None, (), False),
    )

    def __init__(
        self,
        *,
        entity: list[EntityData] = EMPTY,
        values: list[ValueData] = EMPTY,
    ) -> None:
        self.entity = [] if entity is EMPTY else entity
        self.values = [] if values is EMPTY else values


class DescribeClientQuotasResponse(Message):
    """Response, versions 0 to 1, flexible since 1."""

    __slots__ = ("throttle_time_ms", "error_code", "error_message", "entries")

    API_KEY = 48
    VERSIONS = (0, 1)
    FLEXIBLE_SINCE = 1
    FIELDS = (
        ("throttle_time_ms", "int32", (0, 32767), None, None, 0, False),
        ("error_code", "int16", (0, 32767), None, None, 0, False),
        ("error_message", "string", (0, 32767), (0, 32767), None, "", False),
        ("entries", "[EntryData]", (0, 32767), (0, 32767), None, (), False),
    )

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        error_message: str | None = "",
        entries: list[EntryData] | None = EMPTY,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.error_message = error_message
        self.entries = [] if entries is EMPTY else entries
