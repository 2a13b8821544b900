# Written by tools/generate_messages.py from definitions/77_share_group_describe.txt: change the definition, not this file.
"""ShareGroupDescribe, API key 77.

State and members of share groups.
"""

from __future__ import annotations

from ottla.model.ids import Uuid
from ottla.wire.message import EMPTY, Message, Request, Structure

__all__ = [
    "Assignment",
    "DescribedGroup",
    "Member",
    "ShareGroupDescribeRequest",
    "ShareGroupDescribeResponse",
    "TopicPartitions",
]


class TopicPartitions(Structure):
    """Shared by several fields."""

    __slots__ = ("topic_id", "topic_name", "partitions")

    FIELDS = (
        ("topic_id", "uuid", (0, 32767), None, None, 0, False),
        ("topic_name", "string", (0, 32767), None, None, "", False),
        ("partitions", "[int32]", (0, 32767), None, None, (), False),
    )

    def __init__(
        self,
        *,
        topic_id: Uuid = Uuid.ZERO,
        topic_name: str = "",
        partitions: list[int] = EMPTY,
    ) -> None:
        self.topic_id = topic_id
        self.topic_name = topic_name
        self.partitions = [] if partitions is EMPTY else partitions


class Assignment(Structure):
    """Shared by several fields."""

    __slots__ = ("topic_partitions",)

    FIELDS = (("topic_partitions", "[TopicPartitions]", (0, 32767), None, None, (), False),)

    def __init__(
        self,
        *,
        topic_partitions: list[TopicPartitions] = EMPTY,
    ) -> None:
        self.topic_partitions = [] if topic_partitions is EMPTY else topic_partitions


class ShareGroupDescribeRequest(Request["ShareGroupDescribeResponse"]):
    """Request, version 1, flexible."""

    __slots__ = ("group_ids", "include_authorized_operations")

    API_KEY = 77
    VERSIONS = (1, 1)
    FLEXIBLE_SINCE = 1
    FIELDS = (
        ("group_ids", "[string]", (0, 32767), None, None, (), False),
        ("include_authorized_operations", "bool", (0, 32767), None, None, False, False),
    )

    def __init__(
        self,
        *,
        group_ids: list[str] = EMPTY,
        include_authorized_operations: bool = False,
    ) -> None:
        self.group_ids = [] if group_ids is EMPTY else group_ids
        self.include_authorized_operations = include_authorized_operations


class Member(Structure):
    """An element of `DescribedGroup.members`."""

    __slots__ = (
        "member_id",
        "rack_id",
        "member_epoch",
        "client_id",
        "client_host",
        "subscribed_topic_names",
        "assignment",
    )

    FIELDS = (
        ("member_id", "string", (0, 32767), None, None, "", False),
        ("rack_id", "string", (0, 32767), (0, 32767), None, None, False),
        ("member_epoch", "int32", (0, 32767), None, None, 0, False),
        ("client_id", "string", (0, 32767), None, None, "", False),
        ("client_host", "string", (0, 32767), None, None, "", False),
        ("subscribed_topic_names", "[string]", (0, 32767), None, None, (), False),
        ("assignment", "Assignment", (0, 32767), None, None, (), False),
    )

    def __init__(
        self,
        *,
        member_id: str = "",
        rack_id: str | None = None,
        member_epoch: int = 0,
        client_id: str = "",
        client_host: str = "",
        subscribed_topic_names: list[str] = EMPTY,
        assignment: Assignment = EMPTY,
    ) -> None:
        self.member_id = member_id
        self.rack_id = rack_id
        self.member_epoch = member_epoch
        self.client_id = client_id
        self.client_host = client_host
        self.subscribed_topic_names = [] if subscribed_topic_names is EMPTY else subscribed_topic_names
        self.assignment = Assignment() if assignment is EMPTY else assignment


class DescribedGroup(Structure):
    """An element of `ShareGroupDescribeResponse.groups`."""

    __slots__ = (
        "error_code",
        "error_message",
        "group_id",
        "group_state",
        "group_epoch",
        "assignment_epoch",
        "assignor_name",
        "members",
        "authorized_operations",
    )

    FIELDS = (
        ("error_code", "int16", (0, 32767), None, None, 0, False),
        ("error_message", "string", (0, 32767), (0, 32767), None, None, False),
        ("group_id", "string", (0, 32767), None, None, "", False),
        ("group_state", "string", (0, 32767), None, None, "", False),
        ("group_epoch", "int32", (0, 32767), None, None, 0, False),
        ("assignment_epoch", "int32", (0, 32767), None, None, 0, False),
        ("assignor_name", "string", (0, 32767), None, None, "", False),
        ("members", "[Member]", (0, 32767), None, None, (), False),
        ("authorized_operations", "int32", (0, 32767), None, None, -2147483648, False),
    )

    def __init__(
        self,
        *,
        error_code: int = 0,
        error_message: str | None = None,
        group_id: str = "",
        group_state: str = "",
        group_epoch: int = 0,
        assignment_epoch: int = 0,
        assignor_name: str = "",
        members: list[Member] = EMPTY,
        authorized_operations: int = -2147483648,
    ) -> None:
        self.error_code = error_code
        self.error_message = error_message
        self.group_id = group_id
        self.group_state = group_state
        self.group_epoch = group_epoch
        self.assignment_epoch = assignment_epoch
        self.assignor_name = assignor_name
        self.members = [] if members is EMPTY else members
        self.authorized_operations = authorized_operations


class ShareGroupDescribeResponse(Message):
    """Response, version 1, flexible."""

    __slots__ = ("throttle_time_ms", "groups")

    API_KEY = 77
    VERSIONS = (1, 1)
    FLEXIBLE_SINCE = 1
    FIELDS = (
        ("throttle_time_ms", "int32", (0, 32767), None, None, 0, False),
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
