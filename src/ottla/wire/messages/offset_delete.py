# Written by tools/generate_messages.py from definitions/47_offset_delete.txt: change the definition, not this file.
"""OffsetDelete, API key 47.

Deletes committed offsets of a group.
"""

from __future__ import annotations

from ottla.wire.message import EMPTY, Message, Request, Structure

__all__ = [
    "OffsetDeleteRequest",
    "OffsetDeleteRequestPartition",
    "OffsetDeleteRequestTopic",
    "OffsetDeleteResponse",
    "OffsetDeleteResponsePartition",
    "OffsetDeleteResponseTopic",
]


class OffsetDeleteRequestPartition(Structure):
    """An element of `OffsetDeleteRequestTopic.partitions`."""

    __slots__ = ("partition_index",)

    FIELDS = (("partition_index", "int32", (0, 32767), None, None, 0, False),)

    def __init__(
        self,
        *,
        partition_index: int = 0,
    ) -> None:
        self.partition_index = partition_index


class OffsetDeleteRequestTopic(Structure):
    """An element of `OffsetDeleteRequest.topics`."""

    __slots__ = ("name", "partitions")

    FIELDS = (
        ("name", "string", (0, 32767), None, None, "", False),
        ("partitions", "[OffsetDeleteRequestPartition]", (0, 32767), None, None, (), False),
    )

    def __init__(
        self,
        *,
        name: str = "",
        partitions: list[OffsetDeleteRequestPartition] = EMPTY,
    ) -> None:
        self.name = name
        self.partitions = [] if partitions is EMPTY else partitions


class OffsetDeleteRequest(Request["OffsetDeleteResponse"]):
    """Request, version 0."""

    __slots__ = ("group_id", "topics")

    API_KEY = 47
    VERSIONS = (0, 0)
    FIELDS = (
        ("group_id", "string", (0, 32767), None, None, "", False),
        ("topics", "[OffsetDeleteRequestTopic]", (0, 32767), None, None, (), False),
    )

    def __init__(
        self,
        *,
        group_id: str = "",
        topics: list[OffsetDeleteRequestTopic] = EMPTY,
    ) -> None:
        self.group_id = group_id
        self.topics = [] if topics is EMPTY else topics


class OffsetDeleteResponsePartition(Structure):
    """An element of `OffsetDeleteResponseTopic.partitions`."""

    __slots__ = ("partition_index", "error_code")

    FIELDS = (
        ("partition_index", "int32", (0, 32767), None, None, 0, False),
        ("error_code", "int16", (0, 32767), None, None, 0, False),
    )

    def __init__(
        self,
        *,
        partition_index: int = 0,
        error_code: int = 0,
    ) -> None:
        self.partition_index = partition_index
        self.error_code = error_code


class OffsetDeleteResponseTopic(Structure):
    """An element of `OffsetDeleteResponse.topics`."""

    __slots__ = ("name", "partitions")

    FIELDS = (
        ("name", "string", (0, 32767), None, None, "", False),
        ("partitions", "[OffsetDeleteResponsePartition]", (0, 32767), None, None, (), False),
    )

    def __init__(
        self,
        *,
        name: str = "",
        partitions: list[OffsetDeleteResponsePartition] = EMPTY,
    ) -> None:
        self.name = name
        self.partitions = [] if partitions is EMPTY else partitions


class OffsetDeleteResponse(Message):
    """Response, version 0."""

    __slots__ = ("error_code", "throttle_time_ms", "topics")

    API_KEY = 47
    VERSIONS = (0, 0)
    FIELDS = (
        ("error_code", "int16", (0, 32767), None, None, 0, False),
        ("throttle_time_ms", "int32", (0, 32767), None, None, 0, True),
        ("topics", "[OffsetDeleteResponseTopic]", (0, 32767), None, None, (), False),
    )

    def __init__(
        self,
        *,
        error_code: int = 0,
        throttle_time_ms: int = 0,
        topics: list[OffsetDeleteResponseTopic] = EMPTY,
    ) -> None:
        self.error_code = error_code
        self.throttle_time_ms = throttle_time_ms
        self.topics = [] if topics is EMPTY else topics
