# Written by tools/generate_messages.py from definitions/16_list_groups.txt: change the definition, not this file.
"""ListGroups, API key 16.

The groups that this broker coordinates, filtered by state (4, KIP-518) and type (5, KIP-848).
"""

from __future__ import annotations

from ottla.wire.message import EMPTY, Message, Request, Structure

__all__ = [
    "ListGroupsRequest",
    "ListGroupsResponse",
    "ListedGroup",
]


class ListGroupsRequest(Request["ListGroupsResponse"]):
    """Request, versions 0 to 5, flexible since 3."""

    __slots__ = ("states_filter", "types_filter")

    API_KEY = 16
    VERSIONS = (0, 5)
    FLEXIBLE_SINCE = 3
    FIELDS = (
        ("states_filter", "[string]", (4, 32767), None, None, (), False),
        ("types_filter", "[string]", (5, 32767), None, None, (), False),
    )

    def __init__(
        self,
        *,
        states_filter: list[str] = EMPTY,
        types_filter: list[str] = EMPTY,
    ) -> None:
        self.states_filter = [] if states_filter is EMPTY else states_filter
        self.types_filter = [] if types_filter is EMPTY else types_filter


class ListedGroup(Structure):
    """An element of `ListGroupsResponse.groups`."""

    __slots__ = ("group_id", "protocol_type", "group_state", "group_type")

    FIELDS = (
        ("group_id", "string", (0, 32767), None, None, "", False),
        ("protocol_type", "string", (0, 32767), None, None, "", False),
        ("group_state", "string", (4, 32767), None, None, "", True),
        ("group_type", "string", (5, 32767), None, None, "", True),
    )

    def __init__(
        self,
        *,
        group_id: str = "",
        protocol_type: str = "",
        group_state: str = "",
        group_type: str = "",
    ) -> None:
        self.group_id = group_id
        self.protocol_type = protocol_type
        self.group_state = group_state
        self.group_type = group_type


class ListGroupsResponse(Message):
    """Response, versions 0 to 5, flexible since 3."""

    __slots__ = ("throttle_time_ms", "error_code", "groups")

    API_KEY = 16
    VERSIONS = (0, 5)
    FLEXIBLE_SINCE = 3
    FIELDS = (
        ("throttle_time_ms", "int32", (1, 32767), None, None, 0, True),
        ("error_code", "int16", (0, 32767), None, None, 0, False),
        ("groups", "[ListedGroup]", (0, 32767), None, None, (), False),
    )

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        groups: list[ListedGroup] = EMPTY,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.groups = [] if groups is EMPTY else groups
