# Written by tools/generate_messages.py from definitions/73_assign_replicas_to_dirs.txt: change the definition, not this file.
"""AssignReplicasToDirs, API key 73.

A broker reports the log directories of its replicas to the controller (KIP-858).
"""

from __future__ import annotations

from ottla.model.ids import Uuid
from ottla.wire.message import EMPTY, Message, Request, Structure

__all__ = [
    "AssignReplicasToDirsRequest",
    "AssignReplicasToDirsResponse",
    "RequestDirectoryData",
    "RequestPartitionData",
    "RequestTopicData",
    "ResponseDirectoryData",
    "ResponsePartitionData",
    "ResponseTopicData",
]


class RequestPartitionData(Structure):
    """An element of `RequestTopicData.partitions`."""

    __slots__ = ("partition_index",)

    FIELDS = (("partition_index", "int32", (0, 32767), None, None, 0, False),)

    def __init__(
        self,
        *,
        partition_index: int = 0,
    ) -> None:
        self.partition_index = partition_index


class RequestTopicData(Structure):
    """An element of `RequestDirectoryData.topics`."""

    __slots__ = ("topic_id", "partitions")

    FIELDS = (
        ("topic_id", "uuid", (0, 32767), None, None, 0, False),
        ("partitions", "[RequestPartitionData]", (0, 32767), None, None, (), False),
    )

    def __init__(
        self,
        *,
        topic_id: Uuid = Uuid.ZERO,
        partitions: list[RequestPartitionData] = EMPTY,
    ) -> None:
        self.topic_id = topic_id
        self.partitions = [] if partitions is EMPTY else partitions


class RequestDirectoryData(Structure):
    """An element of `AssignReplicasToDirsRequest.directories`."""

    __slots__ = ("id", "topics")

    FIELDS = (
        ("id", "uuid", (0, 32767), None, None, 0, False),
        ("topics", "[RequestTopicData]", (0, 32767), None, None, (), False),
    )

    def __init__(
        self,
        *,
        id: Uuid = Uuid.ZERO,
        topics: list[RequestTopicData] = EMPTY,
    ) -> None:
        self.id = id
        self.topics = [] if topics is EMPTY else topics


class AssignReplicasToDirsRequest(Request["AssignReplicasToDirsResponse"]):
    """Request, version 0, flexible."""

    __slots__ = ("broker_id", "broker_epoch", "directories")

    API_KEY = 73
    VERSIONS = (0, 0)
    FLEXIBLE_SINCE = 0
    FIELDS = (
        ("broker_id", "int32", (0, 32767), None, None, 0, False),
        ("broker_epoch", "int64", (0, 32767), None, None, -1, False),
        ("directories", "[RequestDirectoryData]", (0, 32767), None, None, (), False),
    )

    def __init__(
        self,
        *,
        broker_id: int = 0,
        broker_epoch: int = -1,
        directories: list[RequestDirectoryData] = EMPTY,
    ) -> None:
        self.broker_id = broker_id
        self.broker_epoch = broker_epoch
        self.directories = [] if directories is EMPTY else directories


class ResponsePartitionData(Structure):
    """An element of `ResponseTopicData.partitions`."""

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


class ResponseTopicData(Structure):
    """An element of `ResponseDirectoryData.topics`."""

    __slots__ = ("topic_id", "partitions")

    FIELDS = (
        ("topic_id", "uuid", (0, 32767), None, None, 0, False),
        ("partitions", "[ResponsePartitionData]", (0, 32767), None, None, (), False),
    )

    def __init__(
        self,
        *,
        topic_id: Uuid = Uuid.ZERO,
        partitions: list[ResponsePartitionData] = EMPTY,
    ) -> None:
        self.topic_id = topic_id
        self.partitions = [] if partitions is EMPTY else partitions


class ResponseDirectoryData(Structure):
    """An element of `AssignReplicasToDirsResponse.directories`."""

    __slots__ = ("id", "topics")

    FIELDS = (
        ("id", "uuid", (0, 32767), None, None, 0, False),
        ("topics", "[ResponseTopicData]", (0, 32767), None, None, (), False),
    )

    def __init__(
        self,
        *,
        id: Uuid = Uuid.ZERO,
        topics: list[ResponseTopicData] = EMPTY,
    ) -> None:
        self.id = id
        self.topics = [] if topics is EMPTY else topics


class AssignReplicasToDirsResponse(Message):
    """Response, version 0, flexible."""

    __slots__ = ("throttle_time_ms", "error_code", "directories")

    API_KEY = 73
    VERSIONS = (0, 0)
    FLEXIBLE_SINCE = 0
    FIELDS = (
        ("throttle_time_ms", "int32", (0, 32767), None, None, 0, False),
        ("error_code", "int16", (0, 32767), None, None, 0, False),
        ("directories", "[ResponseDirectoryData]", (0, 32767), None, None, (), False),
    )

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        directories: list[ResponseDirectoryData] = EMPTY,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.directories = [] if directories is EMPTY else directories
