# Written by tools/generate_messages.py from definitions/02_list_offsets.txt: change the definition, not this file.
"""ListOffsets, API key 2.

Looks up offsets by timestamp or by one of the special timestamps.
-1 is the end, -2 the start, -3 the largest timestamp (7, KIP-734), -4 the local start (8, KIP-405), -5 the last
tiered offset (9, KIP-1005), -6 the earliest not yet uploaded (11, KIP-1023). 5 may answer OFFSET_NOT_AVAILABLE.
"""

from __future__ import annotations

from ottla.wire.message import EMPTY, Message, Request, Structure

__all__ = [
    "ListOffsetsPartition",
    "ListOffsetsPartitionResponse",
    "ListOffsetsRequest",
    "ListOffsetsResponse",
    "ListOffsetsTopic",
    "ListOffsetsTopicResponse",
]


class ListOffsetsPartition(Structure):
    """An element of `ListOffsetsTopic.partitions`."""

    __slots__ = ("partition_index", "current_leader_epoch", "timestamp")

    FIELDS = (
        ("partition_index", "int32", (0, 32767), None, None, 0, False),
        ("current_leader_epoch", "int32", (4, 32767), None, None, -1, True),
        ("timestamp", "int64", (0, 32767), None, None, 0, False),
    )

    def __init__(
        self,
        *,
        partition_index: int = 0,
        current_leader_epoch: int = -1,
        timestamp: int = 0,
    ) -> None:
        self.partition_index = partition_index
        self.current_leader_epoch = current_leader_epoch
        self.timestamp = timestamp


class ListOffsetsTopic(Structure):
    """An element of `ListOffsetsRequest.topics`."""

    __slots__ = ("name", "partitions")

    FIELDS = (
        ("name", "string", (0, 32767), None, None, "", False),
        ("partitions", "[ListOffsetsPartition]", (0, 32767), None, None, (), False),
    )

    def __init__(
        self,
        *,
        name: str = "",
        partitions: list[ListOffsetsPartition] = EMPTY,
    ) -> None:
        self.name = name
        self.partitions = [] if partitions is EMPTY else partitions


class ListOffsetsRequest(Request["ListOffsetsResponse"]):
    """Request, versions 1 to 11, flexible since 6."""

    __slots__ = ("replica_id", "isolation_level", "topics", "timeout_ms")

    API_KEY = 2
    VERSIONS = (1, 11)
    FLEXIBLE_SINCE = 6
    FIELDS = (
        ("replica_id", "int32", (0, 32767), None, None, 0, False),
        ("isolation_level", "int8", (2, 32767), None, None, 0, False),
        ("topics", "[ListOffsetsTopic]", (0, 32767), None, None, (), False),
        ("timeout_ms", "int32", (10, 32767), None, None, 0, True),
    )

    def __init__(
        self,
        *,
        replica_id: int = 0,
        isolation_level: int = 0,
        topics: list[ListOffsetsTopic] = EMPTY,
        timeout_ms: int = 0,
    ) -> None:
        self.replica_id = replica_id
        self.isolation_level = isolation_level
        self.topics = [] if topics is EMPTY else topics
        self.timeout_ms = timeout_ms


class ListOffsetsPartitionResponse(Structure):
    """An element of `ListOffsetsTopicResponse.partitions`."""

    __slots__ = ("partition_index", "error_code", "timestamp", "offset", "leader_epoch")

    FIELDS = (
        ("partition_index", "int32", (0, 32767), None, None, 0, False),
        ("error_code", "int16", (0, 32767), None, None, 0, False),
        ("timestamp", "int64", (0, 32767), None, None, -1, False),
        ("offset", "int64", (0, 32767), None, None, -1, False),
        ("leader_epoch", "int32", (4, 32767), None, None, -1, False),
    )

    def __init__(
        self,
        *,
        partition_index: int = 0,
        error_code: int = 0,
        timestamp: int = -1,
        offset: int = -1,
        leader_epoch: int = -1,
    ) -> None:
        self.partition_index = partition_index
        self.error_code = error_code
        self.timestamp = timestamp
        self.offset = offset
        self.leader_epoch = leader_epoch


class ListOffsetsTopicResponse(Structure):
    """An element of `ListOffsetsResponse.topics`."""

    __slots__ = ("name", "partitions")

    FIELDS = (
        ("name", "string", (0, 32767), None, None, "", False),
        ("partitions", "[ListOffsetsPartitionResponse]", (0, 32767), None, None, (), False),
    )

    def __init__(
        self,
        *,
        name: str = "",
        partitions: list[ListOffsetsPartitionResponse] = EMPTY,
    ) -> None:
        self.name = name
        self.partitions = [] if partitions is EMPTY else partitions


class ListOffsetsResponse(Message):
    """Response, versions 1 to 11, flexible since 6."""

    __slots__ = ("throttle_time_ms", "topics")

    API_KEY = 2
    VERSIONS = (1, 11)
    FLEXIBLE_SINCE = 6
    FIELDS = (
        ("throttle_time_ms", "int32", (2, 32767), None, None, 0, True),
        ("topics", "[ListOffsetsTopicResponse]", (0, 32767), None, None, (), False),
    )

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        topics: list[ListOffsetsTopicResponse] = EMPTY,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.topics = [] if topics is EMPTY else topics
