# Written by tools/generate_messages.py from definitions/12_heartbeat.txt: change the definition, not this file.
"""Heartbeat, API key 12.

The heartbeat of a member of a classic group.
"""

from __future__ import annotations

from ottla.wire.message import Message, Request

__all__ = [
    "HeartbeatRequest",
    "HeartbeatResponse",
]


class HeartbeatRequest(Request["HeartbeatResponse"]):
    """Request, versions 0 to 4, flexible since 4."""

    __slots__ = ("group_id", "generation_id", "member_id", "group_instance_id")

    API_KEY = 12
    VERSIONS = (0, 4)
    FLEXIBLE_SINCE = 4
    FIELDS = (
        ("group_id", "string", (0, 32767), None, None, "", False),
        ("generation_id", "int32", (0, 32767), None, None, 0, False),
        ("member_id", "string", (0, 32767), None, None, "", False),
        ("group_instance_id", "string", (3, 32767), (0, 32767), None, None, False),
    )

    def __init__(
        self,
        *,
        group_id: str = "",
        generation_id: int = 0,
        member_id: str = "",
        group_instance_id: str | None = None,
    ) -> None:
        self.group_id = group_id
        self.generation_id = generation_id
        self.member_id = member_id
        self.group_instance_id = group_instance_id


class HeartbeatResponse(Message):
    """Response, versions 0 to 4, flexible since 4."""

    __slots__ = ("throttle_time_ms", "error_code")

    API_KEY = 12
    VERSIONS = (0, 4)
    FLEXIBLE_SINCE = 4
    FIELDS = (
        ("throttle_time_ms", "int32", (1, 32767), None, None, 0, True),
        ("error_code", "int16", (0, 32767), None, None, 0, False),
    )

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
