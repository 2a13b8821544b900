# Written by tools/generate_messages.py from definitions/87_read_share_group_state_summary.txt: change the definition, not this file.
"""ReadShareGroupStateSummary, API key 87.

The start offset of a share group's partition, without its batches.
"""

from __future__ import annotations

from ottla.model.ids import Uuid
from ottla.wire.message import EMPTY, Message, Request, Structure

__all__ = [
    "PartitionData",
    "PartitionResult",
    "ReadShareGroupStateSummaryRequest",
    "ReadShareGroupStateSummaryResponse",
    "ReadStateSummaryData",
    "ReadStateSummaryResult",
]


class PartitionData(Structure):
    """An element of `ReadStateSummaryData.partitions`."""

    __slots__ = ("partition", "leader_epoch")

    FIELDS = (
        ("partition", "int32", (0, 32767), None, None, 0, False),
        ("leader_epoch", "int32", (0, 32767), None, None, 0, False),
    )

    def __init__(
        self,
        *,
        partition: int = 0,
        leader_epoch: int = 0,
    ) -> None:
        self.partition = partition
        self.leader_epoch = leader_epoch


class ReadStateSummaryData(Structure):
    """An element of `ReadShareGroupStateSummaryRequest.topics`."""

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


class ReadShareGroupStateSummaryRequest(Request["ReadShareGroupStateSummaryResponse"]):
    """Request, versions 0 to 1, flexible."""

    __slots__ = ("group_id", "topics")

    API_KEY = 87
    VERSIONS = (0, 1)
    FLEXIBLE_SINCE = 0
    FIELDS = (
        ("group_id", "string", (0, 32767), None, None, "", False),
        ("topics", "[ReadStateSummaryData]", (0, 32767), None, None, (), False),
    )

    def __init__(
        self,
        *,
        group_id: str = "",
        topics: list[ReadStateSummaryData] = EMPTY,
    ) -> None:
        self.group_id = group_id
        self.topics = [] if topics is EMPTY else topics


class PartitionResult(Structure):
    """An element of `ReadStateSummaryResult.partitions`."""

    __slots__ = (
        "partition",
        "error_code",
        "error_message",
        "state_epoch",
        "leader_epoch",
        "start_offset",
        "delivery_complete_count",
    )

    FIELDS = (
        ("partition", "int32", (0, 32767), None, None, 0, False),
        ("error_code", "int16", (0, 32767), None, None, 0, False),
        ("error_message", "string", (0, 32767), (0, 32767), None, None, False),
        ("state_epoch", "int32", (0, 32767), None, None, 0, False),
        ("leader_epoch", "int32", (0, 32767), None, None, 0, False),
        ("start_offset", "int64", (0, 32767), None, None, 0, False),
        ("delivery_complete_count", "int32", (1, 32767), None, None, -1, True),
    )

    def __init__(
        self,
        *,
        partition: int = 0,
        error_code: int = 0,
        error_message: str | None = None,
        state_epoch: int = 0,
        leader_epoch: int = 0,
        start_offset: int = 0,
        delivery_complete_count: int = -1,
    ) -> None:
        self.partition = partition
        self.error_code = error_code
        self.error_message = error_message
        self.state_epoch = state_epoch
        self.leader_epoch = leader_epoch
        self.start_offset = start_offset
        self.delivery_complete_count = delivery_complete_count


class ReadStateSummaryResult(Structure):
    """An element of `ReadShareGroupStateSummaryResponse.results`."""

    __slots__ = ("topic_id", "partitions")

    FIELDS = (
        ("topic_id", "uuid", (0, 32767), None, None, 0, False),
        ("partitions", "[PartitionResult]", (0, 32767), None, None, (), False),
    )

    def __init__(
        self,
        *,
        topic_id: Uuid = Uuid.ZERO,
        partitions: list[PartitionResult] = EMPTY,
    ) -> None:
        self.topic_id = topic_id
        self.partitions = [] if partitions is EMPTY else partitions


class ReadShareGroupStateSummaryResponse(Message):
    """Response, versions 0 to 1, flexible."""

    __slots__ = ("results",)

    API_KEY = 87
    VERSIONS = (0, 1)
    FLEXIBLE_SINCE = 0
    FIELDS = (("results", "[ReadStateSummaryResult]", (0, 32767), None, None, (), False),)

    def __init__(
        self,
        *,
        results: list[ReadStateSummaryResult] = EMPTY,
    ) -> None:
        self.results = [] if results is EMPTY else results
