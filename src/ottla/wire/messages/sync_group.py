# Written by tools/generate_messages.py from definitions/14_sync_group.txt: change the definition, not this file.
"""SyncGroup, API key 14.

Receives the assignment from the group's leader and returns to each member its part.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.wire.message import EMPTY, Message, Request, Structure

if TYPE_CHECKING:
    from ottla.wire.message import Buffer

__all__ = [
    "SyncGroupRequest",
    "SyncGroupRequestAssignment",
    "SyncGroupResponse",
]


class SyncGroupRequestAssignment(Structure):
    """An element of `SyncGroupRequest.assignments`."""

    __slots__ = ("member_id", "assignment")

    FIELDS = (
        ("member_id", "string", (0, 32767), None, None, "", False),
        ("assignment", "bytes", (0, 32767), None, None, b"", False),
    )

    def __init__(
        self,
        *,
        member_id: str = "",
        assignment: Buffer = b"",
    ) -> None:
        self.member_id = member_id
        self.assignment = assignment


class SyncGroupRequest(Request["SyncGroupResponse"]):
    """Request, versions 0 to 5, flexible since 4."""

    __slots__ = (
        "group_id",
        "generation_id",
        "member_id",
        "group_instance_id",
        "protocol_type",
        "protocol_name",
        "assignments",
    )

    API_KEY = 14
    VERSIONS = (0, 5)
    FLEXIBLE_SINCE = 4
    FIELDS = (
        ("group_id", "string", (0, 32767), None, None, "", False),
        ("generation_id", "int32", (0, 32767), None, None, 0, False),
        ("member_id", "string", (0, 32767), None, None, "", False),
        ("group_instance_id", "string", (3, 32767), (0, 32767), None, None, False),
        ("protocol_type", "string", (5, 32767), (0, 32767), None, None, True),
        ("protocol_name", "string", (5, 32767), (0, 32767), None, None, True),
        ("assignments", "[SyncGroupRequestAssignment]", (0, 32767), None, None, (), False),
    )

    def __init__(
        self,
        *,
        group_id: str = "",
        generation_id: int = 0,
        member_id: str = "",
        group_instance_id: str | None = None,
        protocol_type: str | None = None,
        protocol_name: str | None = None,
        assignments: list[SyncGroupRequestAssignment] = EMPTY,
    ) -> None:
        self.group_id = group_id
        self.generation_id = generation_id
        self.member_id = member_id
        self.group_instance_id = group_instance_id
        self.protocol_type = protocol_type
        self.protocol_name = protocol_name
        self.assignments = [] if assignments is EMPTY else assignments


class SyncGroupResponse(Message):
    """Response, versions 0 to 5, flexible since 4."""

    __slots__ = ("throttle_time_ms", "error_code", "protocol_type", "protocol_name", "assignment")

    API_KEY = 14
    VERSIONS = (0, 5)
    FLEXIBLE_SINCE = 4
    FIELDS = (
        ("throttle_time_ms", "int32", (1, 32767), None, None, 0, True),
        ("error_code", "int16", (0, 32767), None, None, 0, False),
        ("protocol_type", "string", (5, 32767), (0, 32767), None, None, True),
        ("protocol_name", "string", (5, 32767), (0, 32767), None, None, True),
        ("assignment", "bytes", (0, 32767), None, None, b"", False),
    )

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        protocol_type: str | None = None,
        protocol_name: str | None = None,
        assignment: Buffer = b"",
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.protocol_type = protocol_type
        self.protocol_name = protocol_name
        self.assignment = assignment
