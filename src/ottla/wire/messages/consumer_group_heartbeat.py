# Written by tools/generate_messages.py from definitions/68_consumer_group_heartbeat.txt: change the definition, not this file.
"""ConsumerGroupHeartbeat, API key 68.

Membership in the new consumer protocol (KIP-848). From 1 on members choose their own id (KIP-1082).
"""

from __future__ import annotations

from ottla.model.ids import Uuid
from ottla.wire.message import EMPTY, Message, Request, Structure

__all__ = [
    "Assignment",
    "ConsumerGroupHeartbeatRequest",
    "ConsumerGroupHeartbeatResponse",
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


class ConsumerGroupHeartbeatRequest(Request["ConsumerGroupHeartbeatResponse"]):
    """Request, versions 0 to 1, flexible."""

    __slots__ = (
        "group_id",
        "member_id",
        "member_epoch",
        "instance_id",
        "rack_id",
        "rebalance_timeout_ms",
        "subscribed_topic_names",
        "subscribed_topic_regex",
        "server_assignor",
        "topic_partitions",
    )

    API_KEY = 68
    VERSIONS = (0, 1)
    FLEXIBLE_SINCE = 0
    FIELDS = (
        ("group_id", "string", (0, 32767), None, None, "", False),
        ("member_id", "string", (0, 32767), None, None, "", False),
        ("member_epoch", "int32", (0, 32767), None, None, 0, False),
        ("instance_id", "string", (0, 32767), (0, 32767), None, None, False),
        ("rack_id", "string", (0, 32767), (0, 32767), None, None, False),
        ("rebalance_timeout_ms", "int32", (0, 32767), None, None, -1, False),
        ("subscribed_topic_names", "[string]", (0, 32767), (0, 32767), None, None, False),
        ("subscribed_topic_regex", "string", (1, 32767), (0, 32767), None, None, False),
        ("server_assignor", "string", (0, 32767), (0, 32767), None, None, False),
        ("topic_partitions", "[TopicPartitions]", (0, 32767), (0, 32767), None, None, False),
    )

    def __init__(
        self,
        *,
        group_id: str = "",
        member_id: str = "",
        member_epoch: int = 0,
        instance_id: str | None = None,
        rack_id: str | None = None,
        rebalance_timeout_ms: int = -1,
        subscribed_topic_names: list[str] | None = None,
        subscribed_topic_regex: str | None = None,
        server_assignor: str | None = None,
        topic_partitions: list[TopicPartitions] | None = None,
    ) -> None:
        self.group_id = group_id
        self.member_id = member_id
        self.member_epoch = member_epoch
        self.instance_id = instance_id
        self.rack_id = rack_id
        self.rebalance_timeout_ms = rebalance_timeout_ms
        self.subscribed_topic_names = subscribed_topic_names
        self.subscribed_topic_regex = subscribed_topic_regex
        self.server_assignor = server_assignor
        self.topic_partitions = topic_partitions


class Assignment(Structure):
    """The value of `ConsumerGroupHeartbeatResponse.assignment`."""

    __slots__ = ("topic_partitions",)

    FIELDS = (("topic_partitions", "[TopicPartitions]", (0, 32767), None, None, (), False),)

    def __init__(
        self,
        *,
        topic_partitions: list[TopicPartitions] = EMPTY,
    ) -> None:
        self.topic_partitions = [] if topic_partitions is EMPTY else topic_partitions


class ConsumerGroupHeartbeatResponse(Message):
    """Response, versions 0 to 1, flexible."""

    __slots__ = (
        "throttle_time_ms",
        "error_code",
        "error_message",
        "member_id",
        "member_epoch",
        "heartbeat_interval_ms",
        "assignment",
    )

    API_KEY = 68
    VERSIONS = (0, 1)
    FLEXIBLE_SINCE = 0
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
