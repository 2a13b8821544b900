# Written by tools/generate_messages.py from definitions/61_describe_producers.txt: change the definition, not this file.
"""DescribeProducers, API key 61.

The producer state of a replica.
"""

from __future__ import annotations

from ottla.wire.message import EMPTY, Message, Request, Structure

__all__ = [
    "DescribeProducersRequest",
    "DescribeProducersResponse",
    "PartitionResponse",
    "ProducerState",
    "TopicRequest",
    "TopicResponse",
]


class TopicRequest(Structure):
    """An element of `DescribeProducersRequest.topics`."""

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


class DescribeProducersRequest(Request["DescribeProducersResponse"]):
    """Request, version 0, flexible."""

    __slots__ = ("topics",)

    API_KEY = 61
    VERSIONS = (0, 0)
    FLEXIBLE_SINCE = 0
    FIELDS = (("topics", "[TopicRequest]", (0, 32767), None, None, (), False),)

    def __init__(
        self,
        *,
        topics: list[TopicRequest] = EMPTY,
    ) -> None:
        self.topics = [] if topics is EMPTY else topics


class ProducerState(Structure):
    """An element of `PartitionResponse.active_producers`."""

    __slots__ = (
        "producer_id",
        "producer_epoch",
        "last_sequence",
        "last_timestamp",
        "coordinator_epoch",
        "current_txn_start_offset",
    )

    FIELDS = (
        ("producer_id", "int64", (0, 32767), None, None, 0, False),
        ("producer_epoch", "int32", (0, 32767), None, None, 0, False),
        ("last_sequence", "int32", (0, 32767), None, None, -1, False),
        ("last_timestamp", "int64", (0, 32767), None, None, -1, False),
        ("coordinator_epoch", "int32", (0, 32767), None, None, 0, False),
        ("current_txn_start_offset", "int64", (0, 32767), None, None, -1, False),
    )

    def __init__(
        self,
        *,
        producer_id: int = 0,
        producer_epoch: int = 0,
        last_sequence: int = -1,
        last_timestamp: int = -1,
        coordinator_epoch: int = 0,
        current_txn_start_offset: int = -1,
    ) -> None:
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.last_sequence = last_sequence
        self.last_timestamp = last_timestamp
        self.coordinator_epoch = coordinator_epoch
        self.current_txn_start_offset = current_txn_start_offset


class PartitionResponse(Structure):
    """An element of `TopicResponse.partitions`."""

    __slots__ = ("partition_index", "error_code", "error_message", "active_producers")

    FIELDS = (
        ("partition_index", "int32", (0, 32767), None, None, 0, False),
        ("error_code", "int16", (0, 32767), None, None, 0, False),
        ("error_message", "string", (0, 32767), (0, 32767), None, None, False),
        ("active_producers", "[ProducerState]", (0, 32767), None, None, (), False),
    )

    def __init__(
        self,
        *,
        partition_index: int = 0,
        error_code: int = 0,
        error_message: str | None = None,
        active_producers: list[ProducerState] = EMPTY,
    ) -> None:
        self.partition_index = partition_index
        self.error_code = error_code
        self.error_message = error_message
        self.active_producers = [] if active_producers is EMPTY else active_producers


class TopicResponse(Structure):
    """An element of `DescribeProducersResponse.topics`."""

    __slots__ = ("name", "partitions")

    FIELDS = (
        ("name", "string", (0, 32767), None, None, "", False),
        ("partitions", "[PartitionResponse]", (0, 32767), None, None, (), False),
    )

    def __init__(
        self,
        *,
        name: str = "",
        partitions: list[PartitionResponse] = EMPTY,
    ) -> None:
        self.name = name
        self.partitions = [] if partitions is EMPTY else partitions


class DescribeProducersResponse(Message):
    """Response, version 0, flexible."""

    __slots__ = ("throttle_time_ms", "topics")

    API_KEY = 61
    VERSIONS = (0, 0)
    FLEXIBLE_SINCE = 0
    FIELDS = (
        ("throttle_time_ms", "int32", (0, 32767), None, None, 0, False),
        ("topics", "[TopicResponse]", (0, 32767), None, None, (), False),
    )

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        topics: list[TopicResponse] = EMPTY,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.topics = [] if topics is EMPTY else topics
