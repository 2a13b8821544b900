# Written by tools/generate_messages.py from definitions/08_offset_commit.txt: change the definition, not this file.
"""OffsetCommit, API key 8.

Commits offsets of a group.
From 5 on the broker's configuration determines the retention. 9 serves members of the new protocol (KIP-848), 10
names topics by id.
"""

from __future__ import annotations

from ottla.model.ids import Uuid
from ottla.wire.message import EMPTY, Message, Request, Structure

__all__ = [
    "OffsetCommitRequest",
    "OffsetCommitRequestPartition",
    "OffsetCommitRequestTopic",
    "OffsetCommitResponse",
    "OffsetCommitResponsePartition",
    "OffsetCommitResponseTopic",
]


class OffsetCommitRequestPartition(Structure):
    """An element of `OffsetCommitRequestTopic.partitions`."""

    __slots__ = ("partition_index", "committed_offset", "committed_leader_epoch", "committed_metadata")

    FIELDS = (
        ("partition_index", "int32", (0, 32767), None, None, 0, False),
        ("committed_offset", "int64", (0, 32767), None, None, 0, False),
        ("committed_leader_epoch", "int32", (6, 32767), None, None, -1, True),
        ("committed_metadata", "string", (0, 32767), (0, 32767), None, "", False),
    )

    def __init__(
        self,
        *,
        partition_index: int = 0,
        committed_offset: int = 0,
        committed_leader_epoch: int = -1,
        committed_metadata: str | None = "",
    ) -> None:
        self.partition_index = partition_index
        self.committed_offset = committed_offset
        self.committed_leader_epoch = committed_leader_epoch
        self.committed_metadata = committed_metadata


class OffsetCommitRequestTopic(Structure):
    """An element of `OffsetCommitRequest.topics`."""

    __slots__ = ("name", "topic_id", "partitions")

    FIELDS = (
        ("name", "string", (2, 9), None, None, "", True),
        ("topic_id", "uuid", (10, 32767), None, None, 0, True),
        ("partitions", "[OffsetCommitRequestPartition]", (0, 32767), None, None, (), False),
    )

    def __init__(
        self,
        *,
        name: str = "",
        topic_id: Uuid = Uuid.ZERO,
        partitions: list[OffsetCommitRequestPartition] = EMPTY,
    ) -> None:
        self.name = name
        self.topic_id = topic_id
        self.partitions = [] if partitions is EMPTY else partitions


class OffsetCommitRequest(Request["OffsetCommitResponse"]):
    """Request, versions 2 to 10, flexible since 8."""

    __slots__ = (
        "group_id",
        "generation_id_or_member_epoch",
        "member_id",
        "group_instance_id",
        "retention_time_ms",
        "topics",
    )

    API_KEY = 8
    VERSIONS = (2, 10)
    FLEXIBLE_SINCE = 8
    FIELDS = (
        ("group_id", "string", (0, 32767), None, None, "", False),
        ("generation_id_or_member_epoch", "int32", (0, 32767), None, None, -1, True),
        ("member_id", "string", (0, 32767), None, None, "", True),
        ("group_instance_id", "string", (7, 32767), (0, 32767), None, None, False),
        ("retention_time_ms", "int64", (2, 4), None, None, -1, True),
        ("topics", "[OffsetCommitRequestTopic]", (0, 32767), None, None, (), False),
    )

    def __init__(
        self,
        *,
        group_id: str = "",
        generation_id_or_member_epoch: int = -1,
        member_id: str = "",
        group_instance_id: str | None = None,
        retention_time_ms: int = -1,
        topics: list[OffsetCommitRequestTopic] = EMPTY,
    ) -> None:
        self.group_id = group_id
        self.generation_id_or_member_epoch = generation_id_or_member_epoch
        self.member_id = member_id
        self.group_instance_id = group_instance_id
        self.retention_time_ms = retention_time_ms
        self.topics = [] if topics is EMPTY else topics


class OffsetCommitResponsePartition(Structure):
    """An element of `OffsetCommitResponseTopic.partitions`."""

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


class OffsetCommitResponseTopic(Structure):
    """An element of `OffsetCommitResponse.topics`."""

    __slots__ = ("name", "topic_id", "partitions")

    FIELDS = (
        ("name", "string", (2, 9), None, None, "", True),
        ("topic_id", "uuid", (10, 32767), None, None, 0, True),
        ("partitions", "[OffsetCommitResponsePartition]", (0, 32767), None, None, (), False),
    )

    def __init__(
        self,
        *,
        name: str = "",
        topic_id: Uuid = Uuid.ZERO,
        partitions: list[OffsetCommitResponsePartition] = EMPTY,
    ) -> None:
        self.name = name
        self.topic_id = topic_id
        self.partitions = [] if partitions is EMPTY else partitions


class OffsetCommitResponse(Message):
    """Response, versions 2 to 10, flexible since 8."""

    __slots__ = ("throttle_time_ms", "topics")

    API_KEY = 8
    VERSIONS = (2, 10)
    FLEXIBLE_SINCE = 8
    FIELDS = (
        ("throttle_time_ms", "int32", (3, 32767), None, None, 0, True),
        ("topics", "[OffsetCommitResponseTopic]", (0, 32767), None, None, (), False),
    )

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        topics: list[OffsetCommitResponseTopic] = EMPTY,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.topics = [] if topics is EMPTY else topics
