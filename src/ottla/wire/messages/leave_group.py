# Written by tools/generate_messages.py from definitions/13_leave_group.txt: change the definition, not this file.
"""LeaveGroup, API key 13.

Removes members from a classic group: one member up to version 2, several from 3 on (KIP-345).
"""

from __future__ import annotations

from ottla.wire.message import EMPTY, Message, Request, Structure

__all__ = [
    "LeaveGroupRequest",
    "LeaveGroupResponse",
    "MemberIdentity",
    "MemberResponse",
]


class MemberIdentity(Structure):
    """An element of `LeaveGroupRequest.members`."""

    __slots__ = ("member_id", "group_instance_id", "reason")

    FIELDS = (
        ("member_id", "string", (0, 32767), None, None, "", False),
        ("group_instance_id", "string", (0, 32767), (0, 32767), None, None, False),
        ("reason", "string", (5, 32767), (0, 32767), None, None, True),
    )

    def __init__(
        self,
        *,
        member_id: str = "",
        group_instance_id: str | None = None,
        reason: str | None = None,
    ) -> None:
        self.member_id = member_id
        self.group_instance_id = group_instance_id
        self.reason = reason


class LeaveGroupRequest(Request["LeaveGroupResponse"]):
    """Request, versions 0 to 5, flexible since 4."""

    __slots__ = ("group_id", "member_id", "members")

    API_KEY = 13
    VERSIONS = (0, 5)
    FLEXIBLE_SINCE = 4
    FIELDS = (
        ("group_id", "string", (0, 32767), None, None, "", False),
        ("member_id", "string", (0, 2), None, None, "", False),
        ("members", "[MemberIdentity]", (3, 32767), None, None, (), False),
    )

    def __init__(
        self,
        *,
        group_id: str = "",
        member_id: str = "",
        members: list[MemberIdentity] = EMPTY,
    ) -> None:
        self.group_id = group_id
        self.member_id = member_id
        self.members = [] if members is EMPTY else members


class MemberResponse(Structure):
    """An element of `LeaveGroupResponse.members`."""

    __slots__ = ("member_id", "group_instance_id", "error_code")

    FIELDS = (
        ("member_id", "string", (0, 32767), None, None, "", False),
        ("group_instance_id", "string", (0, 32767), (0, 32767), None, "", False),
        ("error_code", "int16", (0, 32767), None, None, 0, False),
    )

    def __init__(
        self,
        *,
        member_id: str = "",
        group_instance_id: str | None = "",
        error_code: int = 0,
    ) -> None:
        self.member_id = member_id
        self.group_instance_id = group_instance_id
        self.error_code = error_code


class LeaveGroupResponse(Message):
    """Response, versions 0 to 5, flexible since 4."""

    __slots__ = ("throttle_time_ms", "error_code", "members")

    API_KEY = 13
    VERSIONS = (0, 5)
    FLEXIBLE_SINCE = 4
    FIELDS = (
        ("throttle_time_ms", "int32", (1, 32767), None, None, 0, True),
        ("error_code", "int16", (0, 32767), None, None, 0, False),
        ("members", "[MemberResponse]", (3, 32767), None, None, (), False),
    )

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        members: list[MemberResponse] = EMPTY,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.members = [] if members is EMPTY else members
