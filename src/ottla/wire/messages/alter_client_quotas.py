# Written by tools/generate_messages.py from definitions/49_alter_client_quotas.txt: change the definition, not this file.
"""AlterClientQuotas, API key 49.

Sets or removes quotas.
"""

from __future__ import annotations

from ottla.wire.message import EMPTY, Message, Request, Structure

__all__ = [
    "AlterClientQuotasRequest",
    "AlterClientQuotasResponse",
    "EntityData",
    "OpData",
    "RequestEntryData",
    "ResponseEntryData",
]


class EntityData(Structure):
    """Shared by several fields."""

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


class OpData(Structure):
    """An element of `RequestEntryData.ops`."""

    __slots__ = ("key", "value", "remove")

    FIELDS = (
        ("key", "string", (0, 32767), None, None, "", False),
        ("value", "float64", (0, 32767), None, None, 0.0, False),
        ("remove", "bool", (0, 32767), None, None, False, False),
    )

    def __init__(
        self,
        *,
        key: str = "",
        value: float = 0.0,
        remove: bool = False,
    ) -> None:
        self.key = key
        self.value = value
        self.remove = remove


class RequestEntryData(Structure):
    """An element of `AlterClientQuotasRequest.entries`."""

    __slots__ = ("entity", "ops")

    FIELDS = (
        ("entity", "[EntityData]", (0, 32767), None, None, (), False),
        ("ops", "[OpData]", (0, 32767), None, None, (), False),
    )

    def __init__(
        self,
        *,
        entity: list[EntityData] = EMPTY,
        ops: list[OpData] = EMPTY,
    ) -> None:
        self.entity = [] if entity is EMPTY else entity
        self.ops = [] if ops is EMPTY else ops


class AlterClientQuotasRequest(Request["AlterClientQuotasResponse"]):
    """Request, versions 0 to 1, flexible since 1."""

    __slots__ = ("entries", "validate_only")

    API_KEY = 49
    VERSIONS = (0, 1)
    FLEXIBLE_SINCE = 1
    FIELDS = (
        ("entries", "[RequestEntryData]", (0, 32767), None, None, (), False),
        ("validate_only", "bool", (0, 32767), None, None, False, False),
    )

    def __init__(
        self,
        *,
        entries: list[RequestEntryData] = EMPTY,
        validate_only: bool = False,
    ) -> None:
        self.entries = [] if entries is EMPTY else entries
        self.validate_only = validate_only


class ResponseEntryData(Structure):
    """An element of `AlterClientQuotasResponse.entries`."""

    __slots__ = ("error_code", "error_message", "entity")

    FIELDS = (
        ("error_code", "int16", (0, 32767), None, None, 0, False),
        ("error_message", "string", (0, 32767), (0, 32767), None, "", False),
        ("entity", "[EntityData]", (0, 32767), None, None, (), False),
    )

    def __init__(
        self,
        *,
        error_code: int = 0,
        error_message: str | None = "",
        entity: list[EntityData] = EMPTY,
    ) -> None:
        self.error_code = error_code
        self.error_message = error_message
        self.entity = [] if entity is EMPTY else entity


class AlterClientQuotasResponse(Message):
    """Response, versions 0 to 1, flexible since 1."""

    __slots__ = ("throttle_time_ms", "entries")

    API_KEY = 49
    VERSIONS = (0, 1)
    FLEXIBLE_SINCE = 1
    FIELDS = (
        ("throttle_time_ms", "int32", (0, 32767), None, None, 0, False),
        ("entries", "[ResponseEntryData]", (0, 32767), None, None, (), False),
    )

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        entries: list[ResponseEntryData] = EMPTY,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.entries = [] if entries is EMPTY else entries
