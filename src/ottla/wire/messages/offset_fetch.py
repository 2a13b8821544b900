# Written by tools/generate_messages.py from definitions/09_offset_fetch.txt: change the definition, not this file.
"""OffsetFetch, API key 9.

Committed offsets of groups.
Null topics mean all topics (from 2 on). 7 can wait for open transactions, 8 asks for several groups at once
(KIP-709), 9 serves members of the new protocol (KIP-848), 10 names topics by id.
"""

from __future__ import annotations

from ottla.model.ids import Uuid
from ottla.wire.message import EMPTY, Message, Request, Structure

__all__ = [
    "OffsetFetchRequest",
    "OffsetFetchRequestGroup",
    "OffsetFetchRequestTopic",
    "OffsetFetchRequestTopics",
    "OffsetFetchResponse",
    "OffsetFetchResponseGroup",
    "OffsetFetchResponsePartition",
    "OffsetFetchResponsePartitions",
    "OffsetFetchResponseTopic",
    "OffsetFetchResponseTopics",
]


class OffsetFetchRequestTopic(Structure):
    """An element of `OffsetFetchRequest.topics`."""

    __slots__ = ("name", "partition_indexes")

    FIELDS = (
        ("name", "string", (0, 32767), None, None, "", False),
        ("partition_indexes", "[int32]", (0, 32767), None, None, (), False),
    )

    def __init__(
        self,
        *,
        name: str = "",
        partition_indexes: list[int] = EMPTY,
    ) -> None:
        self.name = name
        self.partition_indexes = [] if partition_indexes is EMPTY else partition_indexes


class OffsetFetchRequestTopics(Structure):
    """An element of `OffsetFetchRequestGroup.topics`."""

    __slots__ = ("name", "topic_id", "partition_indexes")

    FIELDS = (
        ("name", "string", (8, 9), None, None, "", True),
        ("topic_id", "uuid", (10, 32767), None, None, 0, True),
        ("partition_indexes", "[int32]", (0, 32767), None, None, (), False),
    )

    def __init__(
        self,
        *,
        name: str = "",
        topic_id: Uuid = Uuid.ZERO,
        partition_indexes: list[int] = EMPTY,
    ) -> None:
        self.name = name
        self.topic_id = topic_id
        self.partition_indexes = [] if partition_indexes is EMPTY else partition_indexes


class OffsetFetchRequestGroup(Structure):
    """An element of `OffsetFetchRequest.groups`."""

    __slots__ = ("group_id", "member_id", "member_epoch", "topics")

    FIELDS = (
        ("group_id", "string", (0, 32767), None, None, "", False),
        ("member_id", "string", (9, 32767), (0, 32767), None, None, True),
        ("member_epoch", "int32", (9, 32767), None, None, -1, True),
        ("topics", "[OffsetFetchRequestTopics]", (0, 32767), (0, 32767), None, (), False),
    )

    def __init__(
        self,
        *,
        group_id: str = "",
        member_id: str | None = None,
        member_epoch: int = -1,
        topics: list[OffsetFetchRequestTopics] | None = EMPTY,
    ) -> None:
        self.group_id = group_id
        self.member_id = member_id
        self.member_epoch = member_epoch
        self.topics = [] if topics is EMPTY else topics


class OffsetFetchRequest(Request["OffsetFetchResponse"]):
    """Request, versions 1 to 10, flexible since 6."""

    __slots__ = ("group_id", "topics", "groups", "require_stable")

    API_KEY = 9
    VERSIONS = (1, 10)
    FLEXIBLE_SINCE = 6
    FIELDS = (
        ("group_id", "string", (1, 7), None, None, "", False),
        ("topics", "[OffsetFetchRequestTopic]", (1, 7), (2, 32767), None, (), False),
        ("groups", "[OffsetFetchRequestGroup]", (8, 32767), None, None, (), False),
        ("require_stable", "bool", (7, 32767), None, None, False, False),
    )

    def __init__(
        self,
        *,
        group_id: str = "",
        topics: list[OffsetFetchRequestTopic] | None = EMPTY,
        groups: list[OffsetFetchRequestGroup] = EMPTY,
        require_stable: bool = False,
    ) -> None:
        self.group_id = group_id
        self.topics = [] if topics is EMPTY else topics
        self.groups = [] if groups is EMPTY else groups
        self.require_stable = require_stable


class OffsetFetchResponsePartition(Structure):
    """An element of `OffsetFetchResponseTopic.partitions`."""

    __slots__ = ("partition_index", "committed_offset", "committed_leader_epoch", "metadata", "error_code")

    FIELDS = (
        ("partition_index", "int32", (0, 32767), None, None, 0, False),
        ("committed_offset", "int64", (0, 32767), None, None, 0, False),
        ("committed_leader_epoch", "int32", (5, 32767), None, None, -1, True),
        ("metadata", "string", (0, 32767), (0, 32767), None, "", False),
        ("error_code", "int16", (0, 32767), None, None, 0, False),
    )

    def __init__(
        self,
        *,
        partition_index: int = 0,
        committed_offset: int = 0,
        committed_leader_epoch: int = -1,
        metadata: str | None = "",
        error_code: int = 0,
    ) -> None:
        self.partition_index = partition_index
        self.committed_offset = committed_offset
        self.committed_leader_epoch = committed_leader_epoch
        self.metadata = metadata
        self.error_code = error_code


class OffsetFetchResponseTopic(Structure):
    """An element of `OffsetFetchResponse.topics`."""

    __slots__ = ("name", "partitions")

    FIELDS = (
        ("name", "string", (0, 32767), None, None, "", False),
        ("partitions", "[OffsetFetchResponsePartition]", (0, 32767), None, None, (), False),
    )

    def __init__(
        self,
        *,
        name: str = "",
        partitions: list[OffsetFetchResponsePartition] = EMPTY,
    ) -> None:
        self.name = name
        self.partitions = [] if partitions is EMPTY else partitions


class OffsetFetchResponsePartitions(Structure):
    """An element of `OffsetFetchResponseTopics.partitions`."""

    __slots__ = ("partition_index", "committed_offset", "committed_leader_epoch", "metadata", "error_code")

    FIELDS = (
        ("partition_index", "int32", (0, 32767), None, None, 0, False),
        ("committed_offset", "int64", (0, 32767), None, None, 0, False),
        ("committed_leader_epoch", "int32", (0, 32767), None, None, -1, True),
        ("metadata", "string", (0, 32767), (0, 32767), None, "", False),
        ("error_code", "int16", (0, 32767), None, None, 0, False),
    )

    def __init__(
        self,
        *,
        partition_index: int = 0,
        committed_offset: int = 0,
        committed_leader_epoch: int = -1,
        metadata: str | None = "",
        error_code: int = 0,
    ) -> None:
        self.partition_index = partition_index
        self.committed_offset = committed_offset
        self.committed_leader_epoch = committed_leader_epoch
        self.metadata = metadata
        self.error_code = error_code


class OffsetFetchResponseTopics(Structure):
    """An element of `OffsetFetchResponseGroup.topics`."""

    __slots__ = ("name", "topic_id", "partitions")

    FIELDS = (
        ("name", "string", (8, 9), None, None, "", True),
        ("topic_id", "uuid", (10, 32767), None, None, 0, True),
        ("partitions", "[OffsetFetchResponsePartitions]", (0, 32767), None, None, (), False),
    )

    def __init__(
        self,
        *,
        name: str = "",
        topic_id: Uuid = Uuid.ZERO,
        partitions: list[OffsetFetchResponsePartitions] = EMPTY,
    ) -> None:
        self.name = name
        self.topic_id = topic_id
        self.partitions = [] if partitions is EMPTY else partitions


class OffsetFetchResponseGroup(Structure):
    """An element of `OffsetFetchResponse.groups`."""

    __slots__ = ("group_id", "topics", "error_code")

    FIELDS = (
        ("group_id", "string", (0, 32767), None, None, "", False),
        ("topics", "[OffsetFetchResponseTopics]", (0, 32767), None, None, (), False),
        ("error_code", "int16", (0, 32767), None, None, 0, False),
    )

    def __init__(
        self,
        *,
        group_id: str = "",
        topics: list[OffsetFetchResponseTopics] = EMPTY,
        error_code: int = 0,
    ) -> None:
        self.group_id = group_id
        self.topics = [] if topics is EMPTY else topics
        self.error_code = error_code


class OffsetFetchResponse(Message):
    """Response, versions 1 to 10, flexible since 6."""

    __slots__ = ("throttle_time_ms", "topics", "error_code", "groups")

    API_KEY = 9
    VERSIONS = (1, 10)
    FLEXIBLE_SINCE = 6
    FIELDS = (
        ("throttle_time_ms", "int32", (3, 32767), None, None, 0, True),
        ("topics", "[OffsetFetchResponseTopic]", (1, 7), None, None, (), False),
        ("error_code", "int16", (2, 7), None, None, 0, True),
        ("groups", "[OffsetFetchResponseGroup]", (8, 32767), None, None, (), False),
    )

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        topics: list[OffsetFetchResponseTopic] = EMPTY,
        error_code: int = 0,
        groups: list[OffsetFetchResponseGroup] = EMPTY,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.topics = [] if topics is EMPTY else topics
        self.error_code = error_code
        self.groups = [] if groups is EMPTY else groups
