# Written by tools/generate_messages.py from definitions/91_alter_share_group_offsets.txt: change the definition, not this file.
"""AlterShareGroupOffsets, API key 91.

Sets the start offsets of a share group.
"""

from __future__ import annotations

from ottla.model.ids import Uuid
from ottla.wire.message import EMPTY, Message, Request, Structure

__all__ = [
    "AlterShareGroupOffsetsRequest",
    "AlterShareGroupOffsetsRequestPartition",
    "AlterShareGroupOffsetsRequestTopic",
    "AlterShareGroupOffsetsResponse",
    "AlterShareGroupOffsetsResponsePartition",
    "AlterShareGroupOffsetsResponseTopic",
]


class AlterShareGroupOffsetsRequestPartition(Structure):
    """An element of `AlterShareGroupOffsetsRequestTopic.partitions`."""

    __slots__ = ("partition_index", "start_offset")

    FIELDS = (
        ("partition_index", "int32", (0, 32767), None, None, 0, False),
        ("start_offset", "int64", (0, 32767), None, None, 0, False),
    )

    def __init__(
        self,
        *,
        partition_index: int = 0,
        start_offset: int = 0,
    ) -> None:
        self.partition_index = partition_index
        self.start_offset = start_offset


class AlterShareGroupOffsetsRequestTopic(Structure):
    """An element of `AlterShareGroupOffsetsRequest.topics`."""

    __slots__ = ("topic_name", "partitions")

    FIELDS = (
        ("topic_name", "string", (0, 32767), None, None, "", False),
        ("partitions", "[AlterShareGroupOffsetsRequestPartition]", (0, 32767), None, None, (), False),
    )

    def __init__(
        self,
        *,
        topic_name: str = "",
        partitions: list[AlterShareGroupOffsetsRequestPartition] = EMPTY,
    ) -> None:
        self.topic_name = topic_name
        self.partitions = [] if partitions is EMPTY else partitions


class AlterShareGroupOffsetsRequest(Request["AlterShareGroupOffsetsResponse"]):
    """Request, version 0, flexible."""

    __slots__ = ("group_id", "topics")

    API_KEY = 91
    VERSIONS = (0, 0)
    FLEXIBLE_SINCE = 0
    FIELDS = (
        ("group_id", "string", (0, 32767), None, None, "", False),
        ("topics", "[AlterShareGroupOffsetsRequestTopic]", (0, 32767), None, None, (), False),
    )

    def __init__(
        self,
        *,
        group_id: str = "",
        topics: list[AlterShareGroupOffsetsRequestTopic] = EMPTY,
    ) -> None:
        self.group_id = group_id
        self.topics = [] if topics is EMPTY else topics


class AlterShareGroupOffsetsResponsePartition(Structure):
    """An element of `AlterShareGroupOffsetsResponseTopic.partitions`."""

    __slots__ = ("partition_index", "error_code", "error_message")

    FIELDS = (
        ("partition_index", "int32", (0, 32767), None, None, 0, False),
        ("error_code", "int16", (0, 32767), None, None, 0, False),
        ("error_message", "string", (0, 32767), (0, 32767), None, None, False),
    )

    def __init__(
        self,
        *,
        partition_index: int = 0,
        error_code: int = 0,
        error_message: str | None = None,
    ) -> None:
        self.partition_index = partition_index
        self.error_code = error_code
        self.error_message = error_message


class AlterShareGroupOffsetsResponseTopic(Structure):
    """An element of `AlterShareGroupOffsetsResponse.responses`."""

    __slots__ = ("topic_name", "topic_id", "partitions")

    FIELDS = (
        ("topic_name", "string", (0, 32767), None, None, "", False),
        ("topic_id", "uuid", (0, 32767), None, None, 0, False),
        ("partitions", "[AlterShareGroupOffsetsResponsePartition]", (0, 32767), None, None, (), False),
    )

    def __init__(
        self,
        *,
        topic_name: str = "",
        topic_id: Uuid = Uuid.ZERO,
        partitions: list[AlterShareGroupOffsetsResponsePartition] = EMPTY,
    ) -> None:
        self.topic_name = topic_name
        self.topic_id = topic_id
        self.partitions = [] if partitions is EMPTY else partitions


class AlterShareGroupOffsetsResponse(Message):
    """Response, version 0, flexible."""

    __slots__ = ("throttle_time_ms", "error_code", "error_message", "responses")

    API_KEY = 91
    VERSIONS = (0, 0)
    FLEXIBLE_SINCE = 0
    FIELDS = (
        ("throttle_time_ms", "int32", (0, 32767), None, None, 0, False),
        ("error_code", "int16", (0, 32767), None, None, 0, False),
        ("error_message", "string", (0, 32767), (0, 32767), None, None, False),
        ("responses", "[AlterShareGroupOffsetsResponseTopic]", (0, 32767), None, None, (), False),
    )

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        error_message: str | None = None,
        responses: list[AlterShareGroupOffsetsResponseTopic] = EMPTY,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.error_message = error_message
        self.responses = [] if responses is EMPTY else responses
