# Written by tools/generate_messages.py from definitions/21_delete_records.txt: change the definition, not this file.
"""DeleteRecords, API key 21.

Deletes records before an offset; -1 stands for the high watermark.
"""

from __future__ import annotations

from ottla.wire.message import EMPTY, Message, Request, Structure

__all__ = [
    "DeleteRecordsPartition",
    "DeleteRecordsPartitionResult",
    "DeleteRecordsRequest",
    "DeleteRecordsResponse",
    "DeleteRecordsTopic",
    "DeleteRecordsTopicResult",
]


class DeleteRecordsPartition(Structure):
    """An element of `DeleteRecordsTopic.partitions`."""

    __slots__ = ("partition_index", "offset")

    FIELDS = (
        ("partition_index", "int32", (0, 32767), None, None, 0, False),
        ("offset", "int64", (0, 32767), None, None, 0, False),
    )

    def __init__(
        self,
        *,
        partition_index: int = 0,
        offset: int = 0,
    ) -> None:
        self.partition_index = partition_index
        self.offset = offset


class DeleteRecordsTopic(Structure):
    """An element of `DeleteRecordsRequest.topics`."""

    __slots__ = ("name", "partitions")

    FIELDS = (
        ("name", "string", (0, 32767), None, None, "", False),
        ("partitions", "[DeleteRecordsPartition]", (0, 32767), None, None, (), False),
    )

    def __init__(
        self,
        *,
        name: str = "",
        partitions: list[DeleteRecordsPartition] = EMPTY,
    ) -> None:
        self.name = name
        self.partitions = [] if partitions is EMPTY else partitions


class DeleteRecordsRequest(Request["DeleteRecordsResponse"]):
    """Request, versions 0 to 2, flexible since 2."""

    __slots__ = ("topics", "timeout_ms")

    API_KEY = 21
    VERSIONS = (0, 2)
    FLEXIBLE_SINCE = 2
    FIELDS = (
        ("topics", "[DeleteRecordsTopic]", (0, 32767), None, None, (), False),
        ("timeout_ms", "int32", (0, 32767), None, None, 0, False),
    )

    def __init__(
        self,
        *,
        topics: list[DeleteRecordsTopic] = EMPTY,
        timeout_ms: int = 0,
    ) -> None:
        self.topics = [] if topics is EMPTY else topics
        self.timeout_ms = timeout_ms


class DeleteRecordsPartitionResult(Structure):
    """An element of `DeleteRecordsTopicResult.partitions`."""

    __slots__ = ("partition_index", "low_watermark", "error_code")

    FIELDS = (
        ("partition_index", "int32", (0, 32767), None, None, 0, False),
        ("low_watermark", "int64", (0, 32767), None, None, 0, False),
        ("error_code", "int16", (0, 32767), None, None, 0, False),
    )

    def __init__(
        self,
        *,
        partition_index: int = 0,
        low_watermark: int = 0,
        error_code: int = 0,
    ) -> None:
        self.partition_index = partition_index
        self.low_watermark = low_watermark
        self.error_code = error_code


class DeleteRecordsTopicResult(Structure):
    """An element of `DeleteRecordsResponse.topics`."""

    __slots__ = ("name", "partitions")

    FIELDS = (
        ("name", "string", (0, 32767), None, None, "", False),
        ("partitions", "[DeleteRecordsPartitionResult]", (0, 32767), None, None, (), False),
    )

    def __init__(
        self,
        *,
        name: str = "",
        partitions: list[DeleteRecordsPartitionResult] = EMPTY,
    ) -> None:
        self.name = name
        self.partitions = [] if partitions is EMPTY else partitions


class DeleteRecordsResponse(Message):
    """Response, versions 0 to 2, flexible since 2."""

    __slots__ = ("throttle_time_ms", "topics")

    API_KEY = 21
    VERSIONS = (0, 2)
    FLEXIBLE_SINCE = 2
    FIELDS = (
        ("throttle_time_ms", "int32", (0, 32767), None, None, 0, False),
        ("topics", "[DeleteRecordsTopicResult]", (0, 32767), None, None, (), False),
    )

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        topics: list[DeleteRecordsTopicResult] = EMPTY,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.topics = [] if topics is EMPTY else topics
