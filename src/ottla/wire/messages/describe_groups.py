# Written by tools/generate_messages.py from definitions/15_describe_groups.txt: change the definition, not this file.
"""DescribeGroups, API key 15.

State and members of classic groups. From 6 on an unknown group is an error instead of Dead (KIP-1043).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.wire.message import EMPTY, Message, Request, Structure

if TYPE_CHECKING:
    from ottla.wire.message import Buffer

__all__ = [
    "DescribeGroupsRequest",
    "DescribeGroupsResponse",
    "DescribedGroup",
    "DescribedGroupMember",
]


class DescribeGroupsRequest(Request["DescribeGroupsResponse"]):
    """Request, versions 0 to 6, flexible since 5."""

    __slots__ = ("groups", "include_authorized_operations")

    API_KEY = 15
    VERSIONS = (0, 6)
    FLEXIBLE_SINCE = 5
    FIELDS = (
        ("groups", "[string]", (0, 32767), None, None, (), False),
        ("include_authorized_operations", "bool", (3, 32767), None, None, False, False),
    )

    def __init__(
        self,
        *,
        groups: list[str] = EMPTY,
        include_authorized_operations: bool = False,
    ) -> None:
        self.groups = [] if groups is EMPTY else groups
        self.include_authorized_operations = include_authorized_operations


class DescribedGroupMember(Structure):
    """An element of `DescribedGroup.members`."""

    __slots__ = ("member_id", "group_instance_id", "client_id", "client_host", "member_metadata", "member_assignment")

    FIELDS = (
        ("member_id", "string", (0, 32767), None, None, "", False),
        ("group_instance_id", "string", (4, 32767), (0, 32767), None, None, True),
        ("client_id", "string", (0, 32767), None, None, "", False),
        ("client_host", "string", (0, 32767), None, None, "", False),
        ("member_metadata", "bytes", (0, 32767), None, None, b"", False),
        ("member_assignment", "bytes", (0, 32767), None, None, b"", False),
    )

    def __init__(
        self,
        *,
        member_id: str = "",
        group_instance_id: str | None = None,
        client_id: str = "",
        client_host: str = "",
        member_metadata: Buffer = b"",
        member_assignment: Buffer = b"",
    ) -> None:
        self.member_id = member_id
        self.group_instance_id = group_instance_id
        self.client_id = client_id
        self.client_host = client_host
        self.member_metadata = member_metadata
        self.member_assignment = member_assignment


class DescribedGroup(Structure):
    """An element of `DescribeGroupsResponse.groups`."""

    __slots__ = (
        "error_code",
        "error_message",
        "group_id",
        "group_state",
        "protocol_type",
        "protocol_data",
        "members",
        "authorized_operations",
    )

    FIELDS = (
        ("error_code", "int16", (0, 32767), None, None, 0, False),
        ("error_message", "string", (6, 32767), (0, 32767), None, None, False),
        ("group_id", "string", (0, 32767), None, None, "", False),
        ("group_state", "string", (0, 32767), None, None, "", False),
        ("protocol_type", "string", (0, 32767), None, None, "", False),
        ("protocol_data", "string", (0, 32767), None, None, "", False),
        ("members", "[DescribedGroupMember]", (0, 32767), None, None, (), False),
        ("authorized_operations", "int32", (3, 32767), None, None, -2147483648, False),
    )

    def __init__(
        self,
        *,
        error_code: int = 0,
        error_message: str | None = None,
        group_id: str = "",
        group_state: str = "",
        protocol_type: str = "",
        protocol_data: str = "",
        members: list[DescribedGroupMember] = EMPTY,
        authorized_operations: int = -2147483648,
    ) -> None:
        self.error_code = error_code
        self.error_message = error_message
        self.group_id = group_id
        self.group_state = group_state
        self.protocol_type = protocol_type
        self.protocol_data = protocol_data
        self.members = [] if members is EMPTY else members
        self.authorized_operations = authorized_operations


class DescribeGroupsResponse(Message):
    """Response, versions 0 to 6, flexible since 5."""

    __slots__ = ("throttle_time_ms", "groups")

    API_KEY = 15
    VERSIONS = (0, 6)
    FLEXIBLE_SINCE = 5
    FIELDS = (
        ("throttle_time_ms", "int32", (1, 32767), None, None, 0, True),
        ("groups", "[DescribedGroup]", (0, 32767), None, None, (), False),
    )

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        groups: list[DescribedGroup] = EMPTY,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.groups = [] if groups is EMPTY else groups
