# Written by tools/generate_messages.py from definitions/78_share_fetch.txt: change the definition, not this file.
"""ShareFetch, API key 78.

Records acquired for a share group, and acknowledgements of earlier ones.
2 can enforce the record limit strictly (KIP-1206) and renew acquisition locks (KIP-1222).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.model.ids import Uuid
from ottla.wire.message import EMPTY, Message, Request, Structure

if TYPE_CHECKING:
    from ottla.wire.message import Records

__all__ = [
    "AcknowledgementBatch",
    "AcquiredRecords",
    "FetchPartition",
    "FetchTopic",
    "ForgottenTopic",
    "LeaderIdAndEpoch",
    "NodeEndpoint",
    "PartitionData",
    "ShareFetchRequest",
    "ShareFetchResponse",
    "ShareFetchableTopicResponse",
]


class AcknowledgementBatch(Structure):
    """An element of `FetchPartition.acknowledgement_batches`."""

    __slots__ = ("first_offset", "last_offset", "acknowledge_types")

    FIELDS = (
        ("first_offset", "int64", (0, 32767), None, None, 0, False),
        ("last_offset", "int64", (0, 32767), None, None, 0, False),
        ("acknowledge_types", "[int8]", (0, 32767), None, None, (), False),
    )

    def __init__(
        self,
        *,
        first_offset: int = 0,
        last_offset: int = 0,
        acknowledge_types: list[int] = EMPTY,
    ) -> None:
        self.first_offset = first_offset
        self.last_offset = last_offset
        self.acknowledge_types = [] if acknowledge_types is EMPTY else acknowledge_types


class FetchPartition(Structure):
    """An element of `FetchTopic.partitions`."""

    __slots__ = ("partition_index", "acknowledgement_batches")

    FIELDS = (
        ("partition_index", "int32", (0, 32767), None, None, 0, False),
        ("acknowledgement_batches", "[AcknowledgementBatch]", (0, 32767), None, None, (), False),
    )

    def __init__(
        self,
        *,
        partition_index: int = 0,
        acknowledgement_batches: list[AcknowledgementBatch] = EMPTY,
    ) -> None:
        self.partition_index = partition_index
        self.acknowledgement_batches = [] if acknowledgement_batches is EMPTY else acknowledgement_batches


class FetchTopic(Structure):
    """An element of `ShareFetchRequest.topics`."""

    __slots__ = ("topic_id", "partitions")

    FIELDS = (
        ("topic_id", "uuid", (0, 32767), None, None, 0, False),
        ("partitions", "[FetchPartition]", (0, 32767), None, None, (), False),
    )

    def __init__(
        self,
        *,
        topic_id: Uuid = Uuid.ZERO,
        partitions: list[FetchPartition] = EMPTY,
    ) -> None:
        self.topic_id = topic_id
        self.partitions = [] if partitions is EMPTY else partitions


class ForgottenTopic(Structure):
    """An element of `ShareFetchRequest.forgotten_topics_data`."""

    __slots__ = ("topic_id", "partitions")

    FIELDS = (
        ("topic_id", "uuid", (0, 32767), None, None, 0, False),
        ("partitions", "[int32]", (0, 32767), None, None, (), False),
    )

    def __init__(
        self,
        *,
        topic_id: Uuid = Uuid.ZERO,
        partitions: list[int] = EMPTY,
    ) -> None:
        self.topic_id = topic_id
        self.partitions = [] if partitions is EMPTY else partitions


class ShareFetchRequest(Request["ShareFetchResponse"]):
    """Request, versions 1 to 2, flexible."""

    __slots__ = (
        "group_id",
        "member_id",
        "share_session_epoch",
        "max_wait_ms",
        "min_bytes",
        "max_bytes",
        "max_records",
        "batch_size",
        "share_acquire_mode",
        "is_renew_ack",
        "topics",
        "forgotten_topics_data",
    )

    API_KEY = 78
    VERSIONS = (1, 2)
    FLEXIBLE_SINCE = 1
    FIELDS = (
        ("group_id", "string", (0, 32767), (0, 32767), None, None, False),
        ("member_id", "string", (0, 32767), (0, 32767), None, "", False),
        ("share_session_epoch", "int32", (0, 32767), None, None, 0, False),
        ("max_wait_ms", "int32", (0, 32767), None, None, 0, False),
        ("min_bytes", "int32", (0, 32767), None, None, 0, False),
        ("max_bytes", "int32", (0, 32767), None, None, 2147483647, False),
        ("max_records", "int32", (0, 32767), None, None, 0, False),
        ("batch_size", "int32", (0, 32767), None, None, 0, False),
        ("share_acquire_mode", "int8", (2, 32767), None, None, 0, True),
        ("is_renew_ack", "bool", (2, 32767), None, None, False, False),
        ("topics", "[FetchTopic]", (0, 32767), None, None, (), False),
        ("forgotten_topics_data", "[ForgottenTopic]", (0, 32767), None, None, (), False),
    )

    def __init__(
        self,
        *,
        group_id: str | None = None,
        member_id: str | None = "",
        share_session_epoch: int = 0,
        max_wait_ms: int = 0,
        min_bytes: int = 0,
        max_bytes: int = 2147483647,
        max_records: int = 0,
        batch_size: int = 0,
        share_acquire_mode: int = 0,
        is_renew_ack: bool = False,
        topics: list[FetchTopic] = EMPTY,
        forgotten_topics_data: list[ForgottenTopic] = EMPTY,
    ) -> None:
        self.group_id = group_id
        self.member_id = member_id
        self.share_session_epoch = share_session_epoch
        self.max_wait_ms = max_wait_ms
        self.min_bytes = min_bytes
        self.max_bytes = max_bytes
        self.max_records = max_records
        self.batch_size = batch_size
        self.share_acquire_mode = share_acquire_mode
        self.is_renew_ack = is_renew_ack
        self.topics = [] if topics is EMPTY else topics
        self.forgotten_topics_data = [] if forgotten_topics_data is EMPTY else forgotten_topics_data


class LeaderIdAndEpoch(Structure):
    """The value of `PartitionData.current_leader`."""

    __slots__ = ("leader_id", "leader_epoch")

    FIELDS = (
        ("leader_id", "int32", (0, 32767), None, None, 0, False),
        ("leader_epoch", "int32", (0, 32767), None, None, 0, False),
    )

    def __init__(
        self,
        *,
        leader_id: int = 0,
        leader_epoch: int = 0,
    ) -> None:
        self.leader_id = leader_id
        self.leader_epoch = leader_epoch


class AcquiredRecords(Structure):
    """An element of `PartitionData.acquired_records`."""

    __slots__ = ("first_offset", "last_offset", "delivery_count")

    FIELDS = (
        ("first_offset", "int64", (0, 32767), None, None, 0, False),
        ("last_offset", "int64", (0, 32767), None, None, 0, False),
        ("delivery_count", "int16", (0, 32767), None, None, 0, False),
    )

    def __init__(
        self,
        *,
        first_offset: int = 0,
        last_offset: int = 0,
        delivery_count: int = 0,
    ) -> None:
        self.first_offset = first_offset
        self.last_offset = last_offset
        self.delivery_count = delivery_count


class PartitionData(Structure):
    """An element of `ShareFetchableTopicResponse.partitions`."""

    __slots__ = (
        "partition_index",
        "error_code",
        "error_message",
        "acknowledge_error_code",
        "acknowledge_error_message",
        "current_leader",
        "records",
        "acquired_records",
    )

    FIELDS = (
        ("partition_index", "int32", (0, 32767), None, None, 0, False),
        ("error_code", "int16", (0, 32767), None, None, 0, False),
        ("error_message", "string", (0, 32767), (0, 32767), None, None, False),
        ("acknowledge_error_code", "int16", (0, 32767), None, None, 0, False),
        ("acknowledge_error_message", "string", (0, 32767), (0, 32767), None, None, False),
        ("current_leader", "LeaderIdAndEpoch", (0, 32767), None, None, (), False),
        ("records", "records", (0, 32767), None, None, None, False),
        ("acquired_records", "[AcquiredRecords]", (0, 32767), None, None, (), False),
    )

    def __init__(
        self,
        *,
        partition_index: int = 0,
        error_code: int = 0,
        error_message: str | None = None,
        acknowledge_error_code: int = 0,
        acknowledge_error_message: str | None = None,
        current_leader: LeaderIdAndEpoch = EMPTY,
        records: Records = None,
        acquired_records: list[AcquiredRecords] = EMPTY,
    ) -> None:
        self.partition_index = partition_index
        self.error_code = error_code
        self.error_message = error_message
        self.acknowledge_error_code = acknowledge_error_code
        self.acknowledge_error_message = acknowledge_error_message
        self.current_leader = LeaderIdAndEpoch() if current_leader is EMPTY else current_leader
        self.records = records
        self.acquired_records = [] if acquired_records is EMPTY else acquired_records


class ShareFetchableTopicResponse(Structure):
    """An element of `ShareFetchResponse.responses`."""

    __slots__ = ("topic_id", "partitions")

    FIELDS = (
        ("topic_id", "uuid", (0, 32767), None, None, 0, False),
        ("partitions", "[PartitionData]", (0, 32767), None, None, (), False),
    )

    def __init__(
        self,
        *,
        topic_id: Uuid = Uuid.ZERO,
        partitions: list[PartitionData] = EMPTY,
    ) -> None:
        self.topic_id = topic_id
        self.partitions = [] if partitions is EMPTY else partitions


class NodeEndpoint(Structure):
    """An element of `ShareFetchResponse.node_endpoints`."""

    __slots__ = ("node_id", "host", "port", "rack")

    FIELDS = (
        ("node_id", "int32", (0, 32767), None, None, 0, False),
        ("host", "string", (0, 32767), None, None, "", False),
        ("port", "int32", (0, 32767), None, None, 0, False),
        ("rack", "string", (0, 32767), (0, 32767), None, None, False),
    )

    def __init__(
        self,
        *,
        node_id: int = 0,
        host: str = "",
        port: int = 0,
        rack: str | None = None,
    ) -> None:
        self.node_id = node_id
        self.host = host
        self.port = port
        self.rack = rack


class ShareFetchResponse(Message):
    """Response, versions 1 to 2, flexible."""

    __slots__ = (
        "throttle_time_ms",
        "error_code",
        "error_message",
        "acquisition_lock_timeout_ms",
        "responses",
        "node_endpoints",
    )

    API_KEY = 78
    VERSIONS = (1, 2)
    FLEXIBLE_SINCE = 1
    FIELDS = (
        ("throttle_time_ms", "int32", (0, 32767), None, None, 0, False),
        ("error_code", "int16", (0, 32767), None, None, 0, False),
        ("error_message", "string", (0, 32767), (0, 32767), None, None, False),
        ("acquisition_lock_timeout_ms", "int32", (0, 32767), None, None, 0, False),
        ("responses", "[ShareFetchableTopicResponse]", (0, 32767), None, None, (), False),
        ("node_endpoints", "[NodeEndpoint]", (0, 32767), None, None, (), False),
    )

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        error_message: str | None = None,
        acquisition_lock_timeout_ms: int = 0,
        responses: list[ShareFetchableTopicResponse] = EMPTY,
        node_endpoints: list[NodeEndpoint] = EMPTY,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.error_message = error_message
        self.acquisition_lock_timeout_ms = acquisition_lock_timeout_ms
        self.responses = [] if responses is EMPTY else responses
        self.node_endpoints = [] if node_endpoints is EMPTY else node_endpoints
