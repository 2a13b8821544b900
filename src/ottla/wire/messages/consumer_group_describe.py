# Written by tools/generate_messages.py from definitions/69_consumer_group_describe.txt: change the definition, not this file.
"""ConsumerGroupDescribe, API key 69.

State and members of groups of the new consumer protocol.
"""

from __future__ import annotations

from ottla.model.ids import Uuid
from ottla.wire.message import EMPTY, Message, Request, Structure

__all__ = [
    "Assignment",
    "ConsumerGroupDescribeRequest",
    "ConsumerGroupDescribeResponse",
    "DescribedGroup",
    "Member",
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


class ConsumerGroupDescribeRequest(Request["ConsumerGroupDescribeResponse"]):
    """Request, versions 0 to 1, flexible."""

    __slots__ = ("group_ids", "include_authorized_operations")

    API_KEY = 69
    VERSIONS = (0, 1)
    FLEXIBLE_SINCE = 0
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
        "instance_id",
        "rack_id",
        "member_epoch",
        "client_id",
        "client_host",
        "subscribed_topic_names",
        "subscribed_topic_regex",
        "assignment",
        "target_assignment",
        "member_type",
    )

    FIELDS = (
        ("member_id", "string", (0, 32767), None, None, "", False),
        ("instance_id", "string", (0, 32767), (0, 32767), None, None, False),
        ("rack_id", "string", (0, 32767), (0, 32767), None, None, False),
        ("member_epoch", "int32", (0, 32767), None, None, 0, False),
        ("client_id", "string", (0, 32767), None, None, "", False),
        ("client_host", "string", (0, 32767), None, None, "", False),
        ("subscribed_topic_names", "[string]", (0, 32767), None, None, (), False),
        ("subscribed_topic_regex", "string", (0, 32767), (0, 32767), None, None, False),
        ("assignment", "Assignment", (0, 32767), None, None, (), False),
        ("target_assignment", "Assignment", (0, 32767), None, None, (), False),
        ("member_type", "int8", (1, 32767), None, None, -1, True),
    )

    def __init__(
        self,
        *,
        member_id: str = "",
        instance_id: str | None = None,
        rack_id: str | None = None,
        member_epoch: int = 0,
        client_id: str = "",
        client_host: str = "",
        subscribed_topic_names: list[str] = EMPTY,
        subscribed_topic_regex: str | None = None,
        assignment: Assignment = EMPTY,
        target_assignment: Assignment = EMPTY,
        member_type: int = -1,
    ) -> None:
        self.member_id = member_id
        self.instance_id = instance_id
        self.rack_id = rack_id
        self.member_epoch = member_epoch
        self.client_id = client_id
        self.client_host = client_host
        self.subscribed_topic_names = [] if subscribed_topic_names is EMPTY else subscribed_topic_names
        self.subscribed_topic_regex = subscribed_topic_regex
        self.assignment = Assignment() if assignment is EMPTY else assignment
        self.target_assignment = Assignment() if target_assignment is EMPTY else target_assignment
        self.member_type = member_type


class DescribedGroup(Structure):
    """An element of `ConsumerGroupDescribeResponse.groups`."""

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


class ConsumerGroupDescribeResponse(Message):
    """Response, versions 0 to 1, flexible."""

    __slots__ = ("throttle_time_ms", "groups")

    API_KEY = 69
    VERSIONS = (0, 1)
    FLEXIBLE_SINCE = 0
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
