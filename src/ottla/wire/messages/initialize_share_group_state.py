# Written by tools/generate_messages.py from definitions/83_initialize_share_group_state.txt: change the definition, not this file.
"""InitializeShareGroupState, API key 83.

Initializes the persistent state of a share group's partition.
"""

from __future__ import annotations

from ottla.model.ids import Uuid
from ottla.wire.message import EMPTY, Message, Request, Structure

__all__ = [
    "InitializeShareGroupStateRequest",
    "InitializeShareGroupStateResponse",
    "InitializeStateData",
    "InitializeStateResult",
    "PartitionData",
    "PartitionResult",
]


class PartitionData(Structure):
    """An element of `InitializeStateData.partitions`."""

    __slots__ = ("partition", "state_epoch", "start_offset")

    FIELDS = (
        ("partition", "int32", (0, 32767), None, None, 0, False),
        ("state_epoch", "int32", (0, 32767), None, None, 0, False),
        ("start_offset", "int64", (0, 32767), None, None, 0, False),
    )

    def __init__(
        self,
        *,
        partition: int = 0,
        state_epoch: int = 0,
        start_offset: int = 0,
    ) -> None:
        self.partition = partition
        self.state_epoch = state_epoch
        self.start_offset = start_offset


class InitializeStateData(Structure):
    """An element of `InitializeShareGroupStateRequest.topics`."""

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


class InitializeShareGroupStateRequest(Request["InitializeShareGroupStateResponse"]):
    """Request, version 0, flexible."""

    __slots__ = ("group_id", "topics")

    API_KEY = 83
    VERSIONS = (0, 0)
    FLEXIBLE_SINCE = 0
    FIELDS = (
        ("group_id", "string", (0, 32767), None, None, "", False),
        ("topics", "[InitializeStateData]", (0, 32767), None, None, (), False),
    )

    def __init__(
        self,
        *,
        group_id: str = "",
        topics: list[InitializeStateData] = EMPTY,
    ) -> None:
        self.group_id = group_id
        self.topics = [] if topics is EMPTY else topics


class PartitionResult(Structure):
    """An element of `InitializeStateResult.partitions`."""

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


class InitializeStateResult(Structure):
    """An element of `InitializeShareGroupStateResponse.results`."""

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


class InitializeShareGroupStateResponse(Message):
    """Response, version 0, flexible."""

    __slots__ = ("results",)

    API_KEY = 83
    VERSIONS = (0, 0)
    FLEXIBLE_SINCE = 0
    FIELDS = (("results", "[InitializeStateResult]", (0, 32767), None, None, (), False),)

    def __init__(
        self,
        *,
        results: list[InitializeStateResult] = EMPTY,
    ) -> None:
        self.results = [] if results is EMPTY else results
