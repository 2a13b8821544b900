# Written by tools/generate_messages.py from definitions/11_join_group.txt: change the definition, not this file.
"""JoinGroup, API key 11.

Joins a classic group, or rejoins it in a rebalance.
From 4 on a first attempt is answered with MEMBER_ID_REQUIRED and an id (KIP-394). 5 has static members (KIP-345), 7
names the protocol in the answer (KIP-559), 9 lets a returning leader skip the assignment (KIP-814).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.wire.message import EMPTY, Message, Request, Structure

if TYPE_CHECKING:
    from ottla.wire.message import Buffer

__all__ = [
    "JoinGroupRequest",
    "JoinGroupRequestProtocol",
    "JoinGroupResponse",
    "JoinGroupResponseMember",
]


class JoinGroupRequestProtocol(Structure):
    """An element of `JoinGroupRequest.protocols`."""

    __slots__ = ("name", "metadata")

    FIELDS = (
        ("name", "string", (0, 32767), None, None, "", False),
        ("metadata", "bytes", (0, 32767), None, None, b"", False),
    )

    def __init__(
        self,
        *,
        name: str = "",
        metadata: Buffer = b"",
    ) -> None:
        self.name = name
        self.metadata = metadata


class JoinGroupRequest(Request["JoinGroupResponse"]):
    """Request, versions 0 to 9, flexible since 6."""

    __slots__ = (
        "group_id",
        "session_timeout_ms",
        "rebalance_timeout_ms",
        "member_id",
        "group_instance_id",
        "protocol_type",
        "protocols",
        "reason",
    )

    API_KEY = 11
    VERSIONS = (0, 9)
    FLEXIBLE_SINCE = 6
    FIELDS = (
        ("group_id", "string", (0, 32767), None, None, "", False),
        ("session_timeout_ms", "int32", (0, 32767), None, None, 0, False),
        ("rebalance_timeout_ms", "int32", (1, 32767), None, None, -1, True),
        ("member_id", "string", (0, 32767), None, None, "", False),
        ("group_instance_id", "string", (5, 32767), (0, 32767), None, None, False),
        ("protocol_type", "string", (0, 32767), None, None, "", False),
        ("protocols", "[JoinGroupRequestProtocol]", (0, 32767), None, None, (), False),
        ("reason", "string", (8, 32767), (0, 32767), None, None, True),
    )

    def __init__(
        self,
        *,
        group_id: str = "",
        session_timeout_ms: int = 0,
        rebalance_timeout_ms: int = -1,
        member_id: str = "",
        group_instance_id: str | None = None,
        protocol_type: str = "",
        protocols: list[JoinGroupRequestProtocol] = EMPTY,
        reason: str | None = None,
    ) -> None:
        self.group_id = group_id
        self.session_timeout_ms = session_timeout_ms
        self.rebalance_timeout_ms = rebalance_timeout_ms
        self.member_id = member_id
        self.group_instance_id = group_instance_id
        self.protocol_type = protocol_type
        self.protocols = [] if protocols is EMPTY else protocols
        self.reason = reason


class JoinGroupResponseMember(Structure):
    """An element of `JoinGroupResponse.members`."""

    __slots__ = ("member_id", "group_instance_id", "metadata")

    FIELDS = (
        ("member_id", "string", (0, 32767), None, None, "", False),
        ("group_instance_id", "string", (5, 32767), (0, 32767), None, None, True),
        ("metadata", "bytes", (0, 32767), None, None, b"", False),
    )

    def __init__(
        self,
        *,
        member_id: str = "",
        group_instance_id: str | None = None,
        metadata: Buffer = b"",
    ) -> None:
        self.member_id = member_id
        self.group_instance_id = group_instance_id
        self.metadata = metadata


class JoinGroupResponse(Message):
    """Response, versions 0 to 9, flexible since 6."""

    __slots__ = (
        "throttle_time_ms",
        "error_code",
        "generation_id",
        "protocol_type",
        "protocol_name",
        "leader",
        "skip_assignment",
        "member_id",
        "members",
    )

    API_KEY = 11
    VERSIONS = (0, 9)
    FLEXIBLE_SINCE = 6
    FIELDS = (
        ("throttle_time_ms", "int32", (2, 32767), None, None, 0, True),
        ("error_code", "int16", (0, 32767), None, None, 0, False),
        ("generation_id", "int32", (0, 32767), None, None, -1, False),
        ("protocol_type", "string", (7, 32767), (0, 32767), None, None, True),
        ("protocol_name", "string", (0, 32767), (7, 32767), None, "", False),
        ("leader", "string", (0, 32767), None, None, "", False),
        ("skip_assignment", "bool", (9, 32767), None, None, False, False),
        ("member_id", "string", (0, 32767), None, None, "", False),
        ("members", "[JoinGroupResponseMember]", (0, 32767), None, None, (), False),
    )

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        generation_id: int = -1,
        protocol_type: str | None = None,
        protocol_name: str | None = "",
        leader: str = "",
        skip_assignment: bool = False,
        member_id: str = "",
        members: list[JoinGroupResponseMember] = EMPTY,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.generation_id = generation_id
        self.protocol_type = protocol_type
        self.protocol_name = protocol_name
        self.leader = leader
        self.skip_assignment = skip_assignment
        self.member_id = member_id
        self.members = [] if members is EMPTY else members
