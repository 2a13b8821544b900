# Written by tools/generate_messages.py from definitions/90_describe_share_group_offsets.txt: change the definition, not this file.
"""DescribeShareGroupOffsets, API key 90.

Start offsets of share groups; 1 adds the lag (KIP-1226).
"""

from __future__ import annotations

from ottla.model.ids import Uuid
from ottla.wire.message import EMPTY, Message, Request, Structure

__all__ = [
    "DescribeShareGroupOffsetsRequest",
    "DescribeShareGroupOffsetsRequestGroup",
    "DescribeShareGroupOffsetsRequestTopic",
    "DescribeShareGroupOffsetsResponse",
    "DescribeShareGroupOffsetsResponseGroup",
    "DescribeShareGroupOffsetsResponsePartition",
    "DescribeShareGroupOffsetsResponseTopic",
]


class DescribeShareGroupOffsetsRequestTopic(Structure):
    """An element of `DescribeShareGroupOffsetsRequestGroup.topics`."""

    __slots__ = ("topic_name", "partitions")

    FIELDS = (
        ("topic_name", "string", (0, 32767), None, None, "", False),
        ("partitions", "[int32]", (0, 32767), None, None, (), False),
    )

    def __init__(
        self,
        *,
        topic_name: str = "",
        partitions: list[int] = EMPTY,
    ) -> None:
        self.topic_name = topic_name
        self.partitions = [] if partitions is EMPTY else partitions


class DescribeShareGroupOffsetsRequestGroup(Structure):
    """An element of `DescribeShareGroupOffsetsRequest.groups`."""

    __slots__ = ("group_id", "topics")

    FIELDS = (
        ("group_id", "string", (0, 32767), None, None, "", False),
        ("topics", "[DescribeShareGroupOffsetsRequestTopic]", (0, 32767), (0, 32767), None, (), False),
    )

    def __init__(
        self,
        *,
        group_id: str = "",
        topics: list[DescribeShareGroupOffsetsRequestTopic] | None = EMPTY,
    ) -> None:
        self.group_id = group_id
        self.topics = [] if topics is EMPTY else topics


class DescribeShareGroupOffsetsRequest(Request["DescribeShareGroupOffsetsResponse"]):
    """Request, versions 0 to 1, flexible."""

    __slots__ = ("groups",)

    API_KEY = 90
    VERSIONS = (0, 1)
    FLEXIBLE_SINCE = 0
    FIELDS = (("groups", "[DescribeShareGroupOffsetsRequestGroup]", (0, 32767), None, None, (), False),)

    def __init__(
        self,
        *,
        groups: list[DescribeShareGroupOffsetsRequestGroup] = EMPTY,
    ) -> None:
        self.groups = [] if groups is EMPTY else groups


class DescribeShareGroupOffsetsResponsePartition(Structure):
    """An element of `DescribeShareGroupOffsetsResponseTopic.partitions`."""

    __slots__ = ("partition_index", "start_offset", "leader_epoch", "lag", "error_code", "error_message")

    FIELDS = (
        ("partition_index", "int32", (0, 32767), None, None, 0, False),
        ("start_offset", "int64", (0, 32767), None, None, 0, False),
        ("leader_epoch", "int32", (0, 32767), None, None, 0, False),
        ("lag", "int64", (1, 32767), None, None, -1, True),
        ("error_code", "int16", (0, 32767), None, None, 0, False),
        ("error_message", "string", (0, 32767), (0, 32767), None, None, False),
    )

    def __init__(
        self,
        *,
        partition_index: int = 0,
        start_offset: int = 0,
        leader_epoch: int = 0,
        lag: int = -1,
        error_code: int = 0,
        error_message: str | None = None,
    ) -> None:
        self.partition_index = partition_index
        self.start_offset = start_offset
        self.leader_epoch = leader_epoch
        self.lag = lag
        self.error_code = error_code
        self.error_message = error_message


class DescribeShareGroupOffsetsResponseTopic(Structure):
    """An element of `DescribeShareGroupOffsetsResponseGroup.topics`."""

    __slots__ = ("topic_name", "topic_id", "partitions")

    FIELDS = (
        ("topic_name", "string", (0, 32767), None, None, "", False),
        ("topic_id", "uuid", (0, 32767), None, None, 0, False),
        ("partitions", "[DescribeShareGroupOffsetsResponsePartition]", (0, 32767), None, None, (), False),
    )

    def __init__(
        self,
        *,
        topic_name: str = "",
        topic_id: Uuid = Uuid.ZERO,
        partitions: list[DescribeShareGroupOffsetsResponsePartition] = EMPTY,
    ) -> None:
        self.topic_name = topic_name
        self.topic_id = topic_id
        self.partitions = [] if partitions is EMPTY else partitions


class DescribeShareGroupOffsetsResponseGroup(Structure):
    """An element of `DescribeShareGroupOffsetsResponse.groups`."""

    __slots__ = ("group_id", "topics", "error_code", "error_message")

    FIELDS = (
        ("group_id", "string", (0, 32767), None, None, "", False),
        ("topics", "[DescribeShareGroupOffsetsResponseTopic]", (0, 32767), None, None, (), False),
        ("error_code", "int16", (0, 32767), None, None, 0, False),
        ("error_message", "string", (0, 32767), (0, 32767), None, None, False),
    )

    def __init__(
        self,
        *,
        group_id: str = "",
        topics: list[DescribeShareGroupOffsetsResponseTopic] = EMPTY,
        error_code: int = 0,
        error_message: str | None = None,
    ) -> None:
        self.group_id = group_id
        self.topics = [] if topics is EMPTY else topics
        self.error_code = error_code
        self.error_message = error_message


class DescribeShareGroupOffsetsResponse(Message):
    """Response, versions 0 to 1, flexible."""

    __slots__ = ("throttle_time_ms", "groups")

    API_KEY = 90
    VERSIONS = (0, 1)
    FLEXIBLE_SINCE = 0
    FIELDS = (
        ("throttle_time_ms", "int32", (0, 32767), None, None, 0, False),
        ("groups", "[DescribeShareGroupOffsetsResponseGroup]", (0, 32767), None, None, (), False),
    )

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        groups: list[DescribeShareGroupOffsetsResponseGroup] = EMPTY,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.groups = [] if groups is EMPTY else groups
