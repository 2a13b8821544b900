# Written by tools/generate_messages.py from definitions/28_txn_offset_commit.txt: change the definition, not this file.
"""TxnOffsetCommit, API key 28.

Commits offsets of a group as part of a transaction. 5 adds the group to the transaction implicitly (KIP-890). 6
identifies topics by id and distinguishes GROUP_ID_NOT_FOUND and STALE_MEMBER_EPOCH (KIP-1319).
"""

from __future__ import annotations

from ottla.model.ids import Uuid
from ottla.wire.message import EMPTY, Message, Request, Structure

__all__ = [
    "TxnOffsetCommitRequest",
    "TxnOffsetCommitRequestPartition",
    "TxnOffsetCommitRequestTopic",
    "TxnOffsetCommitResponse",
    "TxnOffsetCommitResponsePartition",
    "TxnOffsetCommitResponseTopic",
]


class TxnOffsetCommitRequestPartition(Structure):
    """An element of `TxnOffsetCommitRequestTopic.partitions`."""

    __slots__ = ("partition_index", "committed_offset", "committed_leader_epoch", "committed_metadata")

    FIELDS = (
        ("partition_index", "int32", (0, 32767), None, None, 0, False),
        ("committed_offset", "int64", (0, 32767), None, None, 0, False),
        ("committed_leader_epoch", "int32", (2, 32767), None, None, -1, True),
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


class TxnOffsetCommitRequestTopic(Structure):
    """An element of `TxnOffsetCommitRequest.topics`."""

    __slots__ = ("name", "topic_id", "partitions")

    FIELDS = (
        ("name", "string", (0, 5), None, None, "", True),
        ("topic_id", "uuid", (6, 32767), None, None, 0, True),
        ("partitions", "[TxnOffsetCommitRequestPartition]", (0, 32767), None, None, (), False),
    )

    def __init__(
        self,
        *,
        name: str = "",
        topic_id: Uuid = Uuid.ZERO,
        partitions: list[TxnOffsetCommitRequestPartition] = EMPTY,
    ) -> None:
        self.name = name
        self.topic_id = topic_id
        self.partitions = [] if partitions is EMPTY else partitions


class TxnOffsetCommitRequest(Request["TxnOffsetCommitResponse"]):
    """Request, versions 0 to 6, flexible since 3."""

    __slots__ = (
        "transactional_id",
        "group_id",
        "producer_id",
        "producer_epoch",
        "generation_id_or_member_epoch",
        "member_id",
        "group_instance_id",
        "topics",
    )

    API_KEY = 28
    VERSIONS = (0, 6)
    FLEXIBLE_SINCE = 3
    FIELDS = (
        ("transactional_id", "string", (0, 32767), None, None, "", False),
        ("group_id", "string", (0, 32767), None, None, "", False),
        ("producer_id", "int64", (0, 32767), None, None, 0, False),
        ("producer_epoch", "int16", (0, 32767), None, None, 0, False),
        ("generation_id_or_member_epoch", "int32", (3, 32767), None, None, -1, False),
        ("member_id", "string", (3, 32767), None, None, "", False),
        ("group_instance_id", "string", (3, 32767), (0, 32767), None, None, False),
        ("topics", "[TxnOffsetCommitRequestTopic]", (0, 32767), None, None, (), False),
    )

    def __init__(
        self,
        *,
        transactional_id: str = "",
        group_id: str = "",
        producer_id: int = 0,
        producer_epoch: int = 0,
        generation_id_or_member_epoch: int = -1,
        member_id: str = "",
        group_instance_id: str | None = None,
        topics: list[TxnOffsetCommitRequestTopic] = EMPTY,
    ) -> None:
        self.transactional_id = transactional_id
        self.group_id = group_id
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.generation_id_or_member_epoch = generation_id_or_member_epoch
        self.member_id = member_id
        self.group_instance_id = group_instance_id
        self.topics = [] if topics is EMPTY else topics


class TxnOffsetCommitResponsePartition(Structure):
    """An element of `TxnOffsetCommitResponseTopic.partitions`."""

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


class TxnOffsetCommitResponseTopic(Structure):
    """An element of `TxnOffsetCommitResponse.topics`."""

    __slots__ = ("name", "topic_id", "partitions")

    FIELDS = (
        ("name", "string", (0, 5), None, None, "", True),
        ("topic_id", "uuid", (6, 32767), None, None, 0, True),
        ("partitions", "[TxnOffsetCommitResponsePartition]", (0, 32767), None, None, (), False),
    )

    def __init__(
        self,
        *,
        name: str = "",
        topic_id: Uuid = Uuid.ZERO,
        partitions: list[TxnOffsetCommitResponsePartition] = EMPTY,
    ) -> None:
        self.name = name
        self.topic_id = topic_id
        self.partitions = [] if partitions is EMPTY else partitions


class TxnOffsetCommitResponse(Message):
    """Response, versions 0 to 6, flexible since 3."""

    __slots__ = ("throttle_time_ms", "topics")

    API_KEY = 28
    VERSIONS = (0, 6)
    FLEXIBLE_SINCE = 3
    FIELDS = (
        ("throttle_time_ms", "int32", (0, 32767), None, None, 0, False),
        ("topics", "[TxnOffsetCommitResponseTopic]", (0, 32767), None, None, (), False),
    )

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        topics: list[TxnOffsetCommitResponseTopic] = EMPTY,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.topics = [] if topics is EMPTY else topics
