# Written by tools/generate_messages.py from definitions/23_offset_for_leader_epoch.txt: change the definition, not this file.
"""OffsetForLeaderEpoch, API key 23.

The end offset of a leader epoch, with which followers and consumers detect truncation.
"""

from __future__ import annotations

from ottla.wire.message import EMPTY, Message, Request, Structure

__all__ = [
    "EpochEndOffset",
    "OffsetForLeaderEpochRequest",
    "OffsetForLeaderEpochResponse",
    "OffsetForLeaderPartition",
    "OffsetForLeaderTopic",
    "OffsetForLeaderTopicResult",
]


class OffsetForLeaderPartition(Structure):
    """An element of `OffsetForLeaderTopic.partitions`."""

    __slots__ = ("partition", "current_leader_epoch", "leader_epoch")

    FIELDS = (
        ("partition", "int32", (0, 32767), None, None, 0, False),
        ("current_leader_epoch", "int32", (0, 32767), None, None, -1, True),
        ("leader_epoch", "int32", (0, 32767), None, None, 0, False),
    )

    def __init__(
        self,
        *,
        partition: int = 0,
        current_leader_epoch: int = -1,
        leader_epoch: int = 0,
    ) -> None:
        self.partition = partition
        self.current_leader_epoch = current_leader_epoch
        self.leader_epoch = leader_epoch


class OffsetForLeaderTopic(Structure):
    """An element of `OffsetForLeaderEpochRequest.topics`."""

    __slots__ = ("topic", "partitions")

    FIELDS = (
        ("topic", "string", (0, 32767), None, None, "", False),
        ("partitions", "[OffsetForLeaderPartition]", (0, 32767), None, None, (), False),
    )

    def __init__(
        self,
        *,
        topic: str = "",
        partitions: list[OffsetForLeaderPartition] = EMPTY,
    ) -> None:
        self.topic = topic
        self.partitions = [] if partitions is EMPTY else partitions


class OffsetForLeaderEpochRequest(Request["OffsetForLeaderEpochResponse"]):
    """Request, versions 2 to 4, flexible since 4."""

    __slots__ = ("replica_id", "topics")

    API_KEY = 23
    VERSIONS = (2, 4)
    FLEXIBLE_SINCE = 4
    FIELDS = (
        ("replica_id", "int32", (3, 32767), None, None, -2, True),
        ("topics", "[OffsetForLeaderTopic]", (0, 32767), None, None, (), False),
    )

    def __init__(
        self,
        *,
        replica_id: int = -2,
        topics: list[OffsetForLeaderTopic] = EMPTY,
    ) -> None:
        self.replica_id = replica_id
        self.topics = [] if topics is EMPTY else topics


class EpochEndOffset(Structure):
    """An element of `OffsetForLeaderTopicResult.partitions`."""

    __slots__ = ("error_code", "partition", "leader_epoch", "end_offset")

    FIELDS = (
        ("error_code", "int16", (0, 32767), None, None, 0, False),
        ("partition", "int32", (0, 32767), None, None, 0, False),
        ("leader_epoch", "int32", (0, 32767), None, None, -1, True),
        ("end_offset", "int64", (0, 32767), None, None, -1, False),
    )

    def __init__(
        self,
        *,
        error_code: int = 0,
        partition: int = 0,
        leader_epoch: int = -1,
        end_offset: int = -1,
    ) -> None:
        self.error_code = error_code
        self.partition = partition
        self.leader_epoch = leader_epoch
        self.end_offset = end_offset


class OffsetForLeaderTopicResult(Structure):
    """An element of `OffsetForLeaderEpochResponse.topics`."""

    __slots__ = ("topic", "partitions")

    FIELDS = (
        ("topic", "string", (0, 32767), None, None, "", False),
        ("partitions", "[EpochEndOffset]", (0, 32767), None, None, (), False),
    )

    def __init__(
        self,
        *,
        topic: str = "",
        partitions: list[EpochEndOffset] = EMPTY,
    ) -> None:
        self.topic = topic
        self.partitions = [] if partitions is EMPTY else partitions


class OffsetForLeaderEpochResponse(Message):
    """Response, versions 2 to 4, flexible since 4."""

    __slots__ = ("throttle_time_ms", "topics")

    API_KEY = 23
    VERSIONS = (2, 4)
    FLEXIBLE_SINCE = 4
    FIELDS = (
        ("throttle_time_ms", "int32", (0, 32767), None, None, 0, True),
        ("topics", "[OffsetForLeaderTopicResult]", (0, 32767), None, None, (), False),
    )

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        topics: list[OffsetForLeaderTopicResult] = EMPTY,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.topics = [] if topics is EMPTY else topics
