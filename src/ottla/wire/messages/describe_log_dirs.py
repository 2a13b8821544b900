# Written by tools/generate_messages.py from definitions/35_describe_log_dirs.txt: change the definition, not this file.
"""DescribeLogDirs, API key 35.

The replicas in a broker's log directories. 4 adds the size of the volume (KIP-827).
"""

from __future__ import annotations

from ottla.wire.message import EMPTY, Message, Request, Structure

__all__ = [
    "DescribableLogDirTopic",
    "DescribeLogDirsPartition",
    "DescribeLogDirsRequest",
    "DescribeLogDirsResponse",
    "DescribeLogDirsResult",
    "DescribeLogDirsTopic",
]


class DescribableLogDirTopic(Structure):
    """An element of `DescribeLogDirsRequest.topics`."""

    __slots__ = ("topic", "partitions")

    FIELDS = (
        ("topic", "string", (0, 32767), None, None, "", False),
        ("partitions", "[int32]", (0, 32767), None, None, (), False),
    )

    def __init__(
        self,
        *,
        topic: str = "",
        partitions: list[int] = EMPTY,
    ) -> None:
        self.topic = topic
        self.partitions = [] if partitions is EMPTY else partitions


class DescribeLogDirsRequest(Request["DescribeLogDirsResponse"]):
    """Request, versions 1 to 5, flexible since 2."""

    __slots__ = ("topics",)

    API_KEY = 35
    VERSIONS = (1, 5)
    FLEXIBLE_SINCE = 2
    FIELDS = (("topics", "[DescribableLogDirTopic]", (0, 32767), (0, 32767), None, (), False),)

    def __init__(
        self,
        *,
        topics: list[DescribableLogDirTopic] | None = EMPTY,
    ) -> None:
        self.topics = [] if topics is EMPTY else topics


class DescribeLogDirsPartition(Structure):
    """An element of `DescribeLogDirsTopic.partitions`."""

    __slots__ = ("partition_index", "partition_size", "offset_lag", "is_future_key")

    FIELDS = (
        ("partition_index", "int32", (0, 32767), None, None, 0, False),
        ("partition_size", "int64", (0, 32767), None, None, 0, False),
        ("offset_lag", "int64", (0, 32767), None, None, 0, False),
        ("is_future_key", "bool", (0, 32767), None, None, False, False),
    )

    def __init__(
        self,
        *,
        partition_index: int = 0,
        partition_size: int = 0,
        offset_lag: int = 0,
        is_future_key: bool = False,
    ) -> None:
        self.partition_index = partition_index
        self.partition_size = partition_size
        self.offset_lag = offset_lag
        self.is_future_key = is_future_key


class DescribeLogDirsTopic(Structure):
    """An element of `DescribeLogDirsResult.topics`."""

    __slots__ = ("name", "partitions")

    FIELDS = (
        ("name", "string", (0, 32767), None, None, "", False),
        ("partitions", "[DescribeLogDirsPartition]", (0, 32767), None, None, (), False),
    )

    def __init__(
        self,
        *,
        name: str = "",
        partitions: list[DescribeLogDirsPartition] = EMPTY,
    ) -> None:
        self.name = name
        self.partitions = [] if partitions is EMPTY else partitions


class DescribeLogDirsResult(Structure):
    """An element of `DescribeLogDirsResponse.results`."""

    __slots__ = ("error_code", "log_dir", "topics", "total_bytes", "usable_bytes", "is_cordoned")

    FIELDS = (
        ("error_code", "int16", (0, 32767), None, None, 0, False),
        ("log_dir", "string", (0, 32767), None, None, "", False),
        ("topics", "[DescribeLogDirsTopic]", (0, 32767), None, None, (), False),
        ("total_bytes", "int64", (4, 32767), None, None, -1, True),
        ("usable_bytes", "int64", (4, 32767), None, None, -1, True),
        ("is_cordoned", "bool", (5, 32767), None, None, False, True),
    )

    def __init__(
        self,
        *,
        error_code: int = 0,
        log_dir: str = "",
        topics: list[DescribeLogDirsTopic] = EMPTY,
        total_bytes: int = -1,
        usable_bytes: int = -1,
        is_cordoned: bool = False,
    ) -> None:
        self.error_code = error_code
        self.log_dir = log_dir
        self.topics = [] if topics is EMPTY else topics
        self.total_bytes = total_bytes
        self.usable_bytes = usable_bytes
        self.is_cordoned = is_cordoned


class DescribeLogDirsResponse(Message):
    """Response, versions 1 to 5, flexible since 2."""

    __slots__ = ("throttle_time_ms", "error_code", "results")

    API_KEY = 35
    VERSIONS = (1, 5)
    FLEXIBLE_SINCE = 2
    FIELDS = (
        ("throttle_time_ms", "int32", (0, 32767), None, None, 0, False),
        ("error_code", "int16", (3, 32767), None, None, 0, True),
        ("results", "[DescribeLogDirsResult]", (0, 32767), None, None, (), False),
    )

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        results: list[DescribeLogDirsResult] = EMPTY,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.results = [] if results is EMPTY else results
