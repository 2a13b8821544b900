# Written by tools/generate_messages.py from definitions/85_write_share_group_state.txt: change the definition, not this file.
"""WriteShareGroupState, API key 85.

Writes the persistent state of a share group's partition.
"""

from __future__ import annotations

from ottla.model.ids import Uuid
from ottla.wire.message import EMPTY, Message, Request, Structure

__all__ = [
    "PartitionData",
    "PartitionResult",
    "StateBatch",
    "WriteShareGroupStateRequest",
    "WriteShareGroupStateResponse",
    "WriteStateData",
    "WriteStateResult",
]


class StateBatch(Structure):
    """An element of `PartitionData.state_batches`."""

    __slots__ = ("first_offset", "last_offset", "delivery_state", "delivery_count")

    FIELDS = (
        ("first_offset", "int64", (0, 32767), None, None, 0, False),
        ("last_offset", "int64", (0, 32767), None, None, 0, False),
        ("delivery_state", "int8", (0, 32767), None, None, 0, False),
        ("delivery_count", "int16", (0, 32767), None, None, 0, False),
    )

    def __init__(
        self,
        *,
        first_offset: int = 0,
        last_offset: int = 0,
        delivery_state: int = 0,
        delivery_count: int = 0,
    ) -> None:
        self.first_offset = first_offset
        self.last_offset = last_offset
        self.delivery_state = delivery_state
        self.delivery_count = delivery_count


class PartitionData(Structure):
    """An element of `WriteStateData.partitions`."""

    __slots__ = ("partition", "state_epoch", "leader_epoch", "start_offset", "delivery_complete_count", "state_batches")

    FIELDS = (
        ("partition", "int32", (0, 32767), None, None, 0, False),
        ("state_epoch", "int32", (0, 32767), None, None, 0, False),
        ("leader_epoch", "int32", (0, 32767), None, None, 0, False),
        ("start_offset", "int64", (0, 32767), None, None, 0, False),
        ("delivery_complete_count", "int32", (1, 32767), None, None, -1, True),
        ("state_batches", "[StateBatch]", (0, 32767), None, None, (), False),
    )

    def __init__(
        self,
        *,
        partition: int = 0,
        state_epoch: int = 0,
        leader_epoch: int = 0,
        start_offset: int = 0,
        delivery_complete_count: int = -1,
        state_batches: list[StateBatch] = EMPTY,
    ) -> None:
        self.partition = partition
        self.state_epoch = state_epoch
        self.leader_epoch = leader_epoch
        self.start_offset = start_offset
        self.delivery_complete_count = delivery_complete_count
        self.state_batches = [] if state_batches is EMPTY else state_batches


class WriteStateData(Structure):
    """An element of `WriteShareGroupStateRequest.topics`."""

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


class WriteShareGroupStateRequest(Request["WriteShareGroupStateResponse"]):
    """Request, versions 0 to 1, flexible."""

    __slots__ = ("group_id", "topics")

    API_KEY = 85
    VERSIONS = (0, 1)
    FLEXIBLE_SINCE = 0
    FIELDS = (
        ("group_id", "string", (0, 32767), None, None, "", False),
        ("topics", "[WriteStateData]", (0, 32767), None, None, (), False),
    )

    def __init__(
        self,
        *,
        group_id: str = "",
        topics: list[WriteStateData] = EMPTY,
    ) -> None:
        self.group_id = group_id
        self.topics = [] if topics is EMPTY else topics


class PartitionResult(Structure):
    """An element of `WriteStateResult.partitions`."""

    __slots__ = ("partition", "error_code", "error_message")

    FIELDS = (
        ("partition", "int32", (0, 32767), None, None, 0, False),
        ("error_code", "int16", (0, 32767), None, None, 0, False),
        ("error_message", "string", (0, 32767), (0, 32767), None, None, False),
    )

    def __init__(
        self,
        *,
        partition: int = 0,
        error_code: int = 0,
        error_message: str | None = None,
    ) -> None:
        self.partition = partition
        self.error_code = error_code
        self.error_message = error_message


class WriteStateResult(Structure):
    """An element of `WriteShareGroupStateResponse.results`."""

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


class WriteShareGroupStateResponse(Message):
    """Response, versions 0 to 1, flexible."""

    __slots__ = ("results",)

    API_KEY = 85
    VERSIONS = (0, 1)
    FLEXIBLE_SINCE = 0
    FIELDS = (("results", "[WriteStateResult]", (0, 32767), None, None, (), False),)

    def __init__(
        self,
        *,
        results: list[WriteStateResult] = EMPTY,
    ) -> None:
        self.results = [] if results is EMPTY else results
