# Written by tools/generate_messages.py from definitions/00_produce.txt: change the definition, not this file.
"""Produce, API key 0.

Record batches for partitions that this broker leads.
Versions 0-2 are announced, because librdkafka before 2.11 expects them (KAFKA-18659), but a request in them closes
the connection. 7 allows zstd. 11 may be answered with TRANSACTION_ABORTABLE, and 12 adds partitions to the
transaction implicitly (both KIP-890). 13 identifies topics by id.
"""

from __future__ import annotations

from ottla.model.ids import Uuid
from ottla.wire.message import EMPTY, Message, Request, Structure

__all__ = [
    "BatchIndexAndErrorMessage",
    "LeaderIdAndEpoch",
    "NodeEndpoint",
    "PartitionProduceData",
    "PartitionProduceResponse",
    "ProduceRequest",
    "ProduceResponse",
    "TopicProduceData",
    "TopicProduceResponse",
]


class PartitionProduceData(Structure):
    """An element of `TopicProduceData.partition_data`."""

    __slots__ = ("index", "records")

    FIELDS = (
        ("index", "int32", (0, 32767), None, None, 0, False),
        ("records", "records", (0, 32767), (0, 32767), None, None, False),
    )

    def __init__(
        self,
        *,
        index: int = 0,
        records: memoryview | None = None,
    ) -> None:
        self.index = index
        self.records = records


class TopicProduceData(Structure):
    """An element of `ProduceRequest.topic_data`."""

    __slots__ = ("name", "topic_id", "partition_data")

    FIELDS = (
        ("name", "string", (3, 12), None, None, "", True),
        ("topic_id", "uuid", (13, 32767), None, None, 0, True),
        ("partition_data", "[PartitionProduceData]", (0, 32767), None, None, (), False),
    )

    def __init__(
        self,
        *,
        name: str = "",
        topic_id: Uuid = Uuid.ZERO,
        partition_data: list[PartitionProduceData] = EMPTY,
    ) -> None:
        self.name = name
        self.topic_id = topic_id
        self.partition_data = [] if partition_data is EMPTY else partition_data


class ProduceRequest(Request["ProduceResponse"]):
    """Request, versions 3 to 13, flexible since 9."""

    __slots__ = ("transactional_id", "acks", "timeout_ms", "topic_data")

    API_KEY = 0
    VERSIONS = (3, 13)
    FLEXIBLE_SINCE = 9
    FIELDS = (
        ("transactional_id", "string", (0, 32767), (0, 32767), None, None, False),
        ("acks", "int16", (0, 32767), None, None, 0, False),
        ("timeout_ms", "int32", (0, 32767), None, None, 0, False),
        ("topic_data", "[TopicProduceData]", (0, 32767), None, None, (), False),
    )

    def __init__(
        self,
        *,
        transactional_id: str | None = None,
        acks: int = 0,
        timeout_ms: int = 0,
        topic_data: list[TopicProduceData] = EMPTY,
    ) -> None:
        self.transactional_id = transactional_id
        self.acks = acks
        self.timeout_ms = timeout_ms
        self.topic_data = [] if topic_data is EMPTY else topic_data


class BatchIndexAndErrorMessage(Structure):
    """An element of `PartitionProduceResponse.record_errors`."""

    __slots__ = ("batch_index", "batch_index_error_message")

    FIELDS = (
        ("batch_index", "int32", (0, 32767), None, None, 0, False),
        ("batch_index_error_message", "string", (0, 32767), (0, 32767), None, None, False),
    )

    def __init__(
        self,
        *,
        batch_index: int = 0,
        batch_index_error_message: str | None = None,
    ) -> None:
        self.batch_index = batch_index
        self.batch_index_error_message = batch_index_error_message


class LeaderIdAndEpoch(Structure):
    """The value of `PartitionProduceResponse.current_leader`."""

    __slots__ = ("leader_id", "leader_epoch")

    FIELDS = (
        ("leader_id", "int32", (0, 32767), None, None, -1, False),
        ("leader_epoch", "int32", (0, 32767), None, None, -1, False),
    )

    def __init__(
        self,
        *,
        leader_id: int = -1,
        leader_epoch: int = -1,
    ) -> None:
        self.leader_id = leader_id
        self.leader_epoch = leader_epoch


class PartitionProduceResponse(Structure):
    """An element of `TopicProduceResponse.partition_responses`."""

    __slots__ = (
        "index",
        "error_code",
        "base_offset",
        "log_append_time_ms",
        "log_start_offset",
        "record_errors",
        "error_message",
        "current_leader",
    )

    FIELDS = (
        ("index", "int32", (0, 32767), None, None, 0, False),
        ("error_code", "int16", (0, 32767), None, None, 0, False),
        ("base_offset", "int64", (0, 32767), None, None, 0, False),
        ("log_append_time_ms", "int64", (0, 32767), None, None, -1, True),
        ("log_start_offset", "int64", (5, 32767), None, None, -1, True),
        ("record_errors", "[BatchIndexAndErrorMessage]", (8, 32767), None, None, (), True),
        ("error_message", "string", (8, 32767), (0, 32767), None, None, True),
        ("current_leader", "LeaderIdAndEpoch", (10, 32767), None, 0, None, False),
    )

    def __init__(
        self,
        *,
        index: int = 0,
        error_code: int = 0,
        base_offset: int = 0,
        log_append_time_ms: int = -1,
        log_start_offset: int = -1,
        record_errors: list[BatchIndexAndErrorMessage] = EMPTY,
        error_message: str | None = None,
        current_leader: LeaderIdAndEpoch | None = None,
    ) -> None:
        self.index = index
        self.error_code = error_code
        self.base_offset = base_offset
        self.log_append_time_ms = log_append_time_ms
        self.log_start_offset = log_start_offset
        self.record_errors = [] if record_errors is EMPTY else record_errors
        self.error_message = error_message
        self.current_leader = current_leader


class TopicProduceResponse(Structure):
    """An element of `ProduceResponse.responses`."""

    __slots__ = ("name", "topic_id", "partition_responses")

    FIELDS = (
        ("name", "string", (3, 12), None, None, "", True),
        ("topic_id", "uuid", (13, 32767), None, None, 0, True),
        ("partition_responses", "[PartitionProduceResponse]", (0, 32767), None, None, (), False),
    )

    def __init__(
        self,
        *,
        name: str = "",
        topic_id: Uuid = Uuid.ZERO,
        partition_responses: list[PartitionProduceResponse] = EMPTY,
    ) -> None:
        self.name = name
        self.topic_id = topic_id
        self.partition_responses = [] if partition_responses is EMPTY else partition_responses


class NodeEndpoint(Structure):
    """An element of `ProduceResponse.node_endpoints`."""

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


class ProduceResponse(Message):
    """Response, versions 3 to 13, flexible since 9."""

    __slots__ = ("responses", "throttle_time_ms", "node_endpoints")

    API_KEY = 0
    VERSIONS = (3, 13)
    FLEXIBLE_SINCE = 9
    FIELDS = (
        ("responses", "[TopicProduceResponse]", (0, 32767), None, None, (), False),
        ("throttle_time_ms", "int32", (0, 32767), None, None, 0, True),
        ("node_endpoints", "[NodeEndpoint]", (10, 32767), None, 0, (), False),
    )

    def __init__(
        self,
        *,
        responses: list[TopicProduceResponse] = EMPTY,
        throttle_time_ms: int = 0,
        node_endpoints: list[NodeEndpoint] = EMPTY,
    ) -> None:
        self.responses = [] if responses is EMPTY else responses
        self.throttle_time_ms = throttle_time_ms
        self.node_endpoints = [] if node_endpoints is EMPTY else node_endpoints
