# Written by tools/generate_messages.py from definitions/27_write_txn_markers.txt: change the definition, not this file.
"""WriteTxnMarkers, API key 27.

Writes commit or abort markers; sent by a transaction coordinator to the leaders of partitions.
"""

from __future__ import annotations

from ottla.wire.message import EMPTY, Message, Request, Structure

__all__ = [
    "WritableTxnMarker",
    "WritableTxnMarkerPartitionResult",
    "WritableTxnMarkerResult",
    "WritableTxnMarkerTopic",
    "WritableTxnMarkerTopicResult",
    "WriteTxnMarkersRequest",
    "WriteTxnMarkersResponse",
]


class WritableTxnMarkerTopic(Structure):
    """An element of `WritableTxnMarker.topics`."""

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


class WritableTxnMarker(Structure):
    """An element of `WriteTxnMarkersRequest.markers`."""

    __slots__ = (
        "producer_id",
        "producer_epoch",
        "transaction_result",
        "topics",
        "coordinator_epoch",
        "transaction_version",
    )

    FIELDS = (
        ("producer_id", "int64", (0, 32767), None, None, 0, False),
        ("producer_epoch", "int16", (0, 32767), None, None, 0, False),
        ("transaction_result", "bool", (0, 32767), None, None, False, False),
        ("topics", "[WritableTxnMarkerTopic]", (0, 32767), None, None, (), False),
        ("coordinator_epoch", "int32", (0, 32767), None, None, 0, False),
        ("transaction_version", "int8", (2, 32767), None, None, 0, True),
    )

    def __init__(
        self,
        *,
        producer_id: int = 0,
        producer_epoch: int = 0,
        transaction_result: bool = False,
        topics: list[WritableTxnMarkerTopic] = EMPTY,
        coordinator_epoch: int = 0,
        transaction_version: int = 0,
    ) -> None:
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.transaction_result = transaction_result
        self.topics = [] if topics is EMPTY else topics
        self.coordinator_epoch = coordinator_epoch
        self.transaction_version = transaction_version


class WriteTxnMarkersRequest(Request["WriteTxnMarkersResponse"]):
    """Request, versions 1 to 2, flexible."""

    __slots__ = ("markers",)

    API_KEY = 27
    VERSIONS = (1, 2)
    FLEXIBLE_SINCE = 1
    FIELDS = (("markers", "[WritableTxnMarker]", (0, 32767), None, None, (), False),)

    def __init__(
        self,
        *,
        markers: list[WritableTxnMarker] = EMPTY,
    ) -> None:
        self.markers = [] if markers is EMPTY else markers


class WritableTxnMarkerPartitionResult(Structure):
    """An element of `WritableTxnMarkerTopicResult.partitions`."""

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


class WritableTxnMarkerTopicResult(Structure):
    """An element of `WritableTxnMarkerResult.topics`."""

    __slots__ = ("name", "partitions")

    FIELDS = (
        ("name", "string", (0, 32767), None, None, "", False),
        ("partitions", "[WritableTxnMarkerPartitionResult]", (0, 32767), None, None, (), False),
    )

    def __init__(
        self,
        *,
        name: str = "",
        partitions: list[WritableTxnMarkerPartitionResult] = EMPTY,
    ) -> None:
        self.name = name
        self.partitions = [] if partitions is EMPTY else partitions


class WritableTxnMarkerResult(Structure):
    """An element of `WriteTxnMarkersResponse.markers`."""

    __slots__ = ("producer_id", "topics")

    FIELDS = (
        ("producer_id", "int64", (0, 32767), None, None, 0, False),
        ("topics", "[WritableTxnMarkerTopicResult]", (0, 32767), None, None, (), False),
    )

    def __init__(
        self,
        *,
        producer_id: int = 0,
        topics: list[WritableTxnMarkerTopicResult] = EMPTY,
    ) -> None:
        self.producer_id = producer_id
        self.topics = [] if topics is EMPTY else topics


class WriteTxnMarkersResponse(Message):
    """Response, versions 1 to 2, flexible."""

    __slots__ = ("markers",)

    API_KEY = 27
    VERSIONS = (1, 2)
    FLEXIBLE_SINCE = 1
    FIELDS = (("markers", "[WritableTxnMarkerResult]", (0, 32767), None, None, (), False),)

    def __init__(
        self,
        *,
        markers: list[WritableTxnMarkerResult] = EMPTY,
    ) -> None:
        self.markers = [] if markers is EMPTY else markers
