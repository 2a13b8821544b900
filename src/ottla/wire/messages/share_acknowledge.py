# Written by tools/generate_messages.py from definitions/79_share_acknowledge.txt: change the definition, not this file.
"""ShareAcknowledge, API key 79.

Acknowledges records without fetching.
"""

from __future__ import annotations

from ottla.model.ids import Uuid
from ottla.wire.message import EMPTY, Message, Request, Structure

__all__ = [
    "AcknowledgePartition",
    "AcknowledgeTopic",
    "AcknowledgementBatch",
    "LeaderIdAndEpoch",
    "NodeEndpoint",
    "PartitionData",
    "ShareAcknowledgeRequest",
    "ShareAcknowledgeResponse",
    "ShareAcknowledgeTopicResponse",
]


class AcknowledgementBatch(Structure):
    """An element of `AcknowledgePartition.acknowledgement_batches`."""

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


class AcknowledgePartition(Structure):
    """An element of `AcknowledgeTopic.partitions`."""

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


class AcknowledgeTopic(Structure):
    """An element of `ShareAcknowledgeRequest.topics`."""

    __slots__ = ("topic_id", "partitions")

    FIELDS = (
        ("topic_id", "uuid", (0, 32767), None, None, 0, False),
        ("partitions", "[AcknowledgePartition]", (0, 32767), None, None, (), False),
    )

    def __init__(
        self,
        *,
        topic_id: Uuid = Uuid.ZERO,
        partitions: list[AcknowledgePartition] = EMPTY,
    ) -> None:
        self.topic_id = topic_id
        self.partitions = [] if partitions is EMPTY else partitions


class ShareAcknowledgeRequest(Request["ShareAcknowledgeResponse"]):
    """Request, versions 1 to 2, flexible."""

    __slots__ = ("group_id", "member_id", "share_session_epoch", "is_renew_ack", "topics")

    API_KEY = 79
    VERSIONS = (1, 2)
    FLEXIBLE_SINCE = 1
    FIELDS = (
        ("group_id", "string", (0, 32767), (0, 32767), None, None, False),
        ("member_id", "string", (0, 32767), (0, 32767), None, "", False),
        ("share_session_epoch", "int32", (0, 32767), None, None, 0, False),
        ("is_renew_ack", "bool", (2, 32767), None, None, False, False),
        ("topics", "[AcknowledgeTopic]", (0, 32767), None, None, (), False),
    )

    def __init__(
        self,
        *,
        group_id: str | None = None,
        member_id: str | None = "",
        share_session_epoch: int = 0,
        is_renew_ack: bool = False,
        topics: list[AcknowledgeTopic] = EMPTY,
    ) -> None:
        self.group_id = group_id
        self.member_id = member_id
        self.share_session_epoch = share_session_epoch
        self.is_renew_ack = is_renew_ack
        self.topics = [] if topics is EMPTY else topics


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


class PartitionData(Structure):
    """An element of `ShareAcknowledgeTopicResponse.partitions`."""

    __slots__ = ("partition_index", "error_code", "error_message", "current_leader")

    FIELDS = (
        ("partition_index", "int32", (0, 32767), None, None, 0, False),
        ("error_code", "int16", (0, 32767), None, None, 0, False),
        ("error_message", "string", (0, 32767), (0, 32767), None, None, False),
        ("current_leader", "LeaderIdAndEpoch", (0, 32767), None, None, (), False),
    )

    def __init__(
        self,
        *,
        partition_index: int = 0,
        error_code: int = 0,
        error_message: str | None = None,
        current_leader: LeaderIdAndEpoch = EMPTY,
    ) -> None:
        self.partition_index = partition_index
        self.error_code = error_code
        self.error_message = error_message
        self.current_leader = LeaderIdAndEpoch() if current_leader is EMPTY else current_leader


class ShareAcknowledgeTopicResponse(Structure):
    """An element of `ShareAcknowledgeResponse.responses`."""

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
    """An element of `ShareAcknowledgeResponse.node_endpoints`."""

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


class ShareAcknowledgeResponse(Message):
    """Response, versions 1 to 2, flexible."""

    __slots__ = (
        "throttle_time_ms",
        "error_code",
        "error_message",
        "acquisition_lock_timeout_ms",
        "responses",
        "node_endpoints",
    )

    API_KEY = 79
    VERSIONS = (1, 2)
    FLEXIBLE_SINCE = 1
    FIELDS = (
        ("throttle_time_ms", "int32", (0, 32767), None, None, 0, False),
        ("error_code", "int16", (0, 32767), None, None, 0, False),
        ("error_message", "string", (0, 32767), (0, 32767), None, None, False),
        ("acquisition_lock_timeout_ms", "int32", (2, 32767), None, None, 0, True),
        ("responses", "[ShareAcknowledgeTopicResponse]", (0, 32767), None, None, (), False),
        ("node_endpoints", "[NodeEndpoint]", (0, 32767), None, None, (), False),
    )

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        error_message: str | None = None,
        acquisition_lock_timeout_ms: int = 0,
        responses: list[ShareAcknowledgeTopicResponse] = EMPTY,
        node_endpoints: list[NodeEndpoint] = EMPTY,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.error_message = error_message
        self.acquisition_lock_timeout_ms = acquisition_lock_timeout_ms
        self.responses = [] if responses is EMPTY else responses
        self.node_endpoints = [] if node_endpoints is EMPTY else node_endpoints
