# Written by tools/generate_messages.py from definitions/46_list_partition_reassignments.txt: change the definition, not this file.
"""ListPartitionReassignments, API key 46.

Ongoing reassignments.
"""

from __future__ import annotations

from ottla.wire.message import EMPTY, Message, Request, Structure

__all__ = [
    "ListPartitionReassignmentsRequest",
    "ListPartitionReassignmentsResponse",
    "ListPartitionReassignmentsTopics",
    "OngoingPartitionReassignment",
    "OngoingTopicReassignment",
]


class ListPartitionReassignmentsTopics(Structure):
    """An element of `ListPartitionReassignmentsRequest.topics`."""

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


class ListPartitionReassignmentsRequest(Request["ListPartitionReassignmentsResponse"]):
    """Request, version 0, flexible."""

    __slots__ = ("timeout_ms", "topics")

    API_KEY = 46
    VERSIONS = (0, 0)
    FLEXIBLE_SINCE = 0
    FIELDS = (
        ("timeout_ms", "int32", (0, 32767), None, None, 60000, False),
        ("topics", "[ListPartitionReassignmentsTopics]", (0, 32767), (0, 32767), None, None, False),
    )

    def __init__(
        self,
        *,
        timeout_ms: int = 60000,
        topics: list[ListPartitionReassignmentsTopics] | None = None,
    ) -> None:
        self.timeout_ms = timeout_ms
        self.topics = topics


class OngoingPartitionReassignment(Structure):
    """An element of `OngoingTopicReassignment.partitions`."""

    __slots__ = ("partition_index", "replicas", "adding_replicas", "removing_replicas")

    FIELDS = (
        ("partition_index", "int32", (0, 32767), None, None, 0, False),
        ("replicas", "[int32]", (0, 32767), None, None, (), False),
        ("adding_replicas", "[int32]", (0, 32767), None, None, (), False),
        ("removing_replicas", "[int32]", (0, 32767), None, None, (), False),
    )

    def __init__(
        self,
        *,
        partition_index: int = 0,
        replicas: list[int] = EMPTY,
        adding_replicas: list[int] = EMPTY,
        removing_replicas: list[int] = EMPTY,
    ) -> None:
        self.partition_index = partition_index
        self.replicas = [] if replicas is EMPTY else replicas
        self.adding_replicas = [] if adding_replicas is EMPTY else adding_replicas
        self.removing_replicas = [] if removing_replicas is EMPTY else removing_replicas


class OngoingTopicReassignment(Structure):
    """An element of `ListPartitionReassignmentsResponse.topics`."""

    __slots__ = ("name", "partitions")

    FIELDS = (
        ("name", "string", (0, 32767), None, None, "", False),
        ("partitions", "[OngoingPartitionReassignment]", (0, 32767), None, None, (), False),
    )

    def __init__(
        self,
        *,
        name: str = "",
        partitions: list[OngoingPartitionReassignment] = EMPTY,
    ) -> None:
        self.name = name
        self.partitions = [] if partitions is EMPTY else partitions


class ListPartitionReassignmentsResponse(Message):
    """Response, version 0, flexible."""

    __slots__ = ("throttle_time_ms", "error_code", "error_message", "topics")

    API_KEY = 46
    VERSIONS = (0, 0)
    FLEXIBLE_SINCE = 0
    FIELDS = (
        ("throttle_time_ms", "int32", (0, 32767), None, None, 0, False),
        ("error_code", "int16", (0, 32767), None, None, 0, False),
        ("error_message", "string", (0, 32767), (0, 32767), None, "", False),
        ("topics", "[OngoingTopicReassignment]", (0, 32767), None, None, (), False),
    )

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        error_message: str | None = "",
        topics: list[OngoingTopicReassignment] = EMPTY,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.error_message = error_message
        self.topics = [] if topics is EMPTY else topics
