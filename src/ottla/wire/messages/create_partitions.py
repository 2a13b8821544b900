# Written by tools/generate_messages.py from definitions/37_create_partitions.txt: change the definition, not this file.
"""CreatePartitions, API key 37.

Adds partitions to topics.
"""

from __future__ import annotations

from ottla.wire.message import EMPTY, Message, Request, Structure

__all__ = [
    "CreatePartitionsAssignment",
    "CreatePartitionsRequest",
    "CreatePartitionsResponse",
    "CreatePartitionsTopic",
    "CreatePartitionsTopicResult",
]


class CreatePartitionsAssignment(Structure):
    """An element of `CreatePartitionsTopic.assignments`."""

    __slots__ = ("broker_ids",)

    FIELDS = (("broker_ids", "[int32]", (0, 32767), None, None, (), False),)

    def __init__(
        self,
        *,
        broker_ids: list[int] = EMPTY,
    ) -> None:
        self.broker_ids = [] if broker_ids is EMPTY else broker_ids


class CreatePartitionsTopic(Structure):
    """An element of `CreatePartitionsRequest.topics`."""

    __slots__ = ("name", "count", "assignments")

    FIELDS = (
        ("name", "string", (0, 32767), None, None, "", False),
        ("count", "int32", (0, 32767), None, None, 0, False),
        ("assignments", "[CreatePartitionsAssignment]", (0, 32767), (0, 32767), None, (), False),
    )

    def __init__(
        self,
        *,
        name: str = "",
        count: int = 0,
        assignments: list[CreatePartitionsAssignment] | None = EMPTY,
    ) -> None:
        self.name = name
        self.count = count
        self.assignments = [] if assignments is EMPTY else assignments


class CreatePartitionsRequest(Request["CreatePartitionsResponse"]):
    """Request, versions 0 to 3, flexible since 2."""

    __slots__ = ("topics", "timeout_ms", "validate_only")

    API_KEY = 37
    VERSIONS = (0, 3)
    FLEXIBLE_SINCE = 2
    FIELDS = (
        ("topics", "[CreatePartitionsTopic]", (0, 32767), None, None, (), False),
        ("timeout_ms", "int32", (0, 32767), None, None, 0, False),
        ("validate_only", "bool", (0, 32767), None, None, False, False),
    )

    def __init__(
        self,
        *,
        topics: list[CreatePartitionsTopic] = EMPTY,
        timeout_ms: int = 0,
        validate_only: bool = False,
    ) -> None:
        self.topics = [] if topics is EMPTY else topics
        self.timeout_ms = timeout_ms
        self.validate_only = validate_only


class CreatePartitionsTopicResult(Structure):
    """An element of `CreatePartitionsResponse.results`."""

    __slots__ = ("name", "error_code", "error_message")

    FIELDS = (
        ("name", "string", (0, 32767), None, None, "", False),
        ("error_code", "int16", (0, 32767), None, None, 0, False),
        ("error_message", "string", (0, 32767), (0, 32767), None, None, False),
    )

    def __init__(
        self,
        *,
        name: str = "",
        error_code: int = 0,
        error_message: str | None = None,
    ) -> None:
        self.name = name
        self.error_code = error_code
        self.error_message = error_message


class CreatePartitionsResponse(Message):
    """Response, versions 0 to 3, flexible since 2."""

    __slots__ = ("throttle_time_ms", "results")

    API_KEY = 37
    VERSIONS = (0, 3)
    FLEXIBLE_SINCE = 2
    FIELDS = (
        ("throttle_time_ms", "int32", (0, 32767), None, None, 0, False),
        ("results", "[CreatePartitionsTopicResult]", (0, 32767), None, None, (), False),
    )

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        results: list[CreatePartitionsTopicResult] = EMPTY,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.results = [] if results is EMPTY else results
