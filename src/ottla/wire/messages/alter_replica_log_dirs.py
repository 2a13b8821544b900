# Written by tools/generate_messages.py from definitions/34_alter_replica_log_dirs.txt: change the definition, not this file.
"""AlterReplicaLogDirs, API key 34.

Moves replicas to other log directories of the same broker.
"""

from __future__ import annotations

from ottla.wire.message import EMPTY, Message, Request, Structure

__all__ = [
    "AlterReplicaLogDir",
    "AlterReplicaLogDirPartitionResult",
    "AlterReplicaLogDirTopic",
    "AlterReplicaLogDirTopicResult",
    "AlterReplicaLogDirsRequest",
    "AlterReplicaLogDirsResponse",
]


class AlterReplicaLogDirTopic(Structure):
    """An element of `AlterReplicaLogDir.topics`."""

    __slots__ = ("name", "partitions")

    FIELDS = (
        ("name", "string", (0, 32767), None, None, "", False),
        ("partitions", "[int32]", (0, 32767), None, None, (), False),
    )

    def __init__(
        self,
        *,
        name: str = "",
        partitions: list[int] = EMPTY,
    ) -> None:
        self.name = name
        self.partitions = [] if partitions is EMPTY else partitions


class AlterReplicaLogDir(Structure):
    """An element of `AlterReplicaLogDirsRequest.dirs`."""

    __slots__ = ("path", "topics")

    FIELDS = (
        ("path", "string", (0, 32767), None, None, "", False),
        ("topics", "[AlterReplicaLogDirTopic]", (0, 32767), None, None, (), False),
    )

    def __init__(
        self,
        *,
        path: str = "",
        topics: list[AlterReplicaLogDirTopic] = EMPTY,
    ) -> None:
        self.path = path
        self.topics = [] if topics is EMPTY else topics


class AlterReplicaLogDirsRequest(Request["AlterReplicaLogDirsResponse"]):
    """Request, versions 1 to 2, flexible since 2."""

    __slots__ = ("dirs",)

    API_KEY = 34
    VERSIONS = (1, 2)
    FLEXIBLE_SINCE = 2
    FIELDS = (("dirs", "[AlterReplicaLogDir]", (0, 32767), None, None, (), False),)

    def __init__(
        self,
        *,
        dirs: list[AlterReplicaLogDir] = EMPTY,
    ) -> None:
        self.dirs = [] if dirs is EMPTY else dirs


class AlterReplicaLogDirPartitionResult(Structure):
    """An element of `AlterReplicaLogDirTopicResult.partitions`."""

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


class AlterReplicaLogDirTopicResult(Structure):
    """An element of `AlterReplicaLogDirsResponse.results`."""

    __slots__ = ("topic_name", "partitions")

    FIELDS = (
        ("topic_name", "string", (0, 32767), None, None, "", False),
        ("partitions", "[AlterReplicaLogDirPartitionResult]", (0, 32767), None, None, (), False),
    )

    def __init__(
        self,
        *,
        topic_name: str = "",
        partitions: list[AlterReplicaLogDirPartitionResult] = EMPTY,
    ) -> None:
        self.topic_name = topic_name
        self.partitions = [] if partitions is EMPTY else partitions


class AlterReplicaLogDirsResponse(Message):
    """Response, versions 1 to 2, flexible since 2."""

    __slots__ = ("throttle_time_ms", "results")

    API_KEY = 34
    VERSIONS = (1, 2)
    FLEXIBLE_SINCE = 2
    FIELDS = (
        ("throttle_time_ms", "int32", (0, 32767), None, None, 0, False),
        ("results", "[AlterReplicaLogDirTopicResult]", (0, 32767), None, None, (), False),
    )

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        results: list[AlterReplicaLogDirTopicResult] = EMPTY,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.results = [] if results is EMPTY else results
