# Written by tools/generate_messages.py from definitions/86_delete_share_group_state.txt: change the definition, not this file.
"""DeleteShareGroupState, API key 86.

Deletes the persistent state of a share group's partition.
"""

from __future__ import annotations

from ottla.model.ids import Uuid
from ottla.wire.message import EMPTY, Message, Request, Structure

__all__ = [
    "DeleteShareGroupStateRequest",
    "DeleteShareGroupStateResponse",
    "DeleteStateData",
    "DeleteStateResult",
    "PartitionData",
    "PartitionResult",
]


class PartitionData(Structure):
    """An element of `DeleteStateData.partitions`."""

    __slots__ = ("partition",)

    FIELDS = (("partition", "int32", (0, 32767), None, None, 0, False),)

    def __init__(
        self,
        *,
        partition: int = 0,
    ) -> None:
        self.partition = partition


class DeleteStateData(Structure):
    """An element of `DeleteShareGroupStateRequest.topics`."""

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


class DeleteShareGroupStateRequest(Request["DeleteShareGroupStateResponse"]):
    """Request, version 0, flexible."""

    __slots__ = ("group_id", "topics")

    API_KEY = 86
    VERSIONS = (0, 0)
    FLEXIBLE_SINCE = 0
    FIELDS = (
        ("group_id", "string", (0, 32767), None, None, "", False),
        ("topics", "[DeleteStateData]", (0, 32767), None, None, (), False),
    )

    def __init__(
        self,
        *,
        group_id: str = "",
        topics: list[DeleteStateData] = EMPTY,
    ) -> None:
        self.group_id = group_id
        self.topics = [] if topics is EMPTY else topics


class PartitionResult(Structure):
    """An element of `DeleteStateResult.partitions`."""

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


class DeleteStateResult(Structure):
    """An element of `DeleteShareGroupStateResponse.results`."""

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


class DeleteShareGroupStateResponse(Message):
    """Response, version 0, flexible."""

    __slots__ = ("results",)

    API_KEY = 86
    VERSIONS = (0, 0)
    FLEXIBLE_SINCE = 0
    FIELDS = (("results", "[DeleteStateResult]", (0, 32767), None, None, (), False),)

    def __init__(
        self,
        *,
        results: list[DeleteStateResult] = EMPTY,
    ) -> None:
        self.results = [] if results is EMPTY else results
