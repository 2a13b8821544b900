# Written by tools/generate_messages.py from definitions/76_share_group_heartbeat.txt: change the definition, not this file.
"""ShareGroupHeartbeat, API key 76.

Membership in a share group (KIP-932). 0 was an early-access version and was removed.
"""

from __future__ import annotations

from ottla.model.ids import Uuid
from ottla.wire.message import EMPTY, Message, Request, Structure

__all__ = [
    "Assignment",
    "ShareGroupHeartbeatRequest",
    "ShareGroupHeartbeatResponse",
    "TopicPartitions",
]


class TopicPartitions(Structure):
    """Shared by several fields."""

    __slots__ = ("topic_id", "partitions")

    FIELDS = (
        ("topic_id", "uuid", (0, 32767), None, None, 0, False),
        ("partitions", "[int32]", (0, 32767), None, None, (), False),
    )

    def __init__(
        self,
        *,
        topic_id: Uuid = Uuid.ZERO,
        partitions: list[int] = EMPTY,
    ) -> None:
        self.topic_id = topic_id
        self.partitions = [] if partitions is EMPTY else partitions


class ShareGroupHeartbeatRequest(Request["ShareGroupHeartbeatResponse"]):
    """Request, version 1, flexible."""

    __slots__ = ("group_id", "member_id", "member_epoch", "rack_id", "subscribed_topic_names")

    API_KEY = 76
    VERSIONS = (1, 1)
    FLEXIBLE_SINCE = 1
    FIELDS = (
        ("group_id", "string", (0, 32767), None, None, "", False),
        ("member_id", "string", (0, 32767), None, None, "", False),
        ("member_epoch", "int32", (0, 32767), None, None, 0, False),
        ("rack_id", "string", (0, 32767), (0, 32767), None, None, False),
        ("subscribed_topic_names", "[string]", (0, 32767), (0, 32767), None, None, False),
    )

    def __init__(
        self,
        *,
        group_id: str = "",
        member_id: str = "",
        member_epoch: int = 0,
        rack_id: str | None = None,
        subscribed_topic_names: list[str] | None = None,
    ) -> None:
        self.group_id = group_id
        self.member_id = member_id
        self.member_epoch = member_epoch
        self.rack_id = rack_id
        self.subscribed_topic_names = subscribed_topic_names


class Assignment(Structure):
    """The value of `ShareGroupHeartbeatResponse.assignment`."""

    __slots__ = ("topic_partitions",)

    FIELDS = (("topic_partitions", "[TopicPartitions]", (0, 32767), None, None, (), False),)

    def __init__(
        self,
        *,
        topic_partitions: list[TopicPartitions] = EMPTY,
    ) -> None:
        self.topic_partitions = [] if topic_partitions is EMPTY else topic_partitions


class ShareGroupHeartbeatResponse(Message):
    """Response, version 1, flexible."""

    __slots__ = (
        "throttle_time_ms",
        "error_code",
        "error_message",
        "member_id",
        "member_epoch",
        "heartbeat_interval_ms",
        "assignment",
    )

    API_KEY = 76
    VERSIONS = (1, 1)
    FLEXIBLE_SINCE = 1
    FIELDS = (
        ("throttle_time_ms", "int32", (0, 32767), None, None, 0, False),
        ("error_code", "int16", (0, 32767), None, None, 0, False),
        ("error_message", "string", (0, 32767), (0, 32767), None, None, False),
        ("member_id", "string", (0, 32767), (0, 32767), None, None, False),
        ("member_epoch", "int32", (0, 32767), None, None, 0, False),
        ("heartbeat_interval_ms", "int32", (0, 32767), None, None, 0, False),
        ("assignment", "Assignment", (0, 32767), (0, 32767), None, None, False),
    )

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        error_message: str | None = None,
        member_id: str | None = None,
        member_epoch: int = 0,
        heartbeat_interval_ms: int = 0,
        assignment: Assignment | None = None,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.error_message = error_message
        self.member_id = member_id
        self.member_epoch = member_epoch
        self.heartbeat_interval_ms = heartbeat_interval_ms
        self.assignment = assignment
