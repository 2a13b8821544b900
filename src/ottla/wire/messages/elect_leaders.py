# Written by tools/generate_messages.py from definitions/43_elect_leaders.txt: change the definition, not this file.
"""ElectLeaders, API key 43.

Elects preferred leaders, from 1 on also unclean leaders (KIP-460).
"""

from __future__ import annotations

from ottla.wire.message import EMPTY, Message, Request, Structure

__all__ = [
    "ElectLeadersRequest",
    "ElectLeadersResponse",
    "PartitionResult",
    "ReplicaElectionResult",
    "TopicPartitions",
]


class TopicPartitions(Structure):
    """An element of `ElectLeadersRequest.topic_partitions`."""

    __slots__ = ("topic", "partitions")

    FIELDS = (
        ("topic", "string", (0, 32767), None, None, "", False),
        ("partitions", "[int32]", (0, 32767), None, None, (), False),
    )

    def __init__(
        self,
        *,
        topic: str = "",
        partitions: list[int] = EMPTY,
    ) -> None:
        self.topic = topic
        self.partitions = [] if partitions is EMPTY else partitions


class ElectLeadersRequest(Request["ElectLeadersResponse"]):
    """Request, versions 0 to 2, flexible since 2."""

    __slots__ = ("election_type", "topic_partitions", "timeout_ms")

    API_KEY = 43
    VERSIONS = (0, 2)
    FLEXIBLE_SINCE = 2
    FIELDS = (
        ("election_type", "int8", (1, 32767), None, None, 0, False),
        ("topic_partitions", "[TopicPartitions]", (0, 32767), (0, 32767), None, (), False),
        ("timeout_ms", "int32", (0, 32767), None, None, 60000, False),
    )

    def __init__(
        self,
        *,
        election_type: int = 0,
        topic_partitions: list[TopicPartitions] | None = EMPTY,
        timeout_ms: int = 60000,
    ) -> None:
        self.election_type = election_type
        self.topic_partitions = [] if topic_partitions is EMPTY else topic_partitions
        self.timeout_ms = timeout_ms


class PartitionResult(Structure):
    """An element of `ReplicaElectionResult.partition_result`."""

    __slots__ = ("partition_id", "error_code", "error_message")

    FIELDS = (
        ("partition_id", "int32", (0, 32767), None, None, 0, False),
        ("error_code", "int16", (0, 32767), None, None, 0, False),
        ("error_message", "string", (0, 32767), (0, 32767), None, "", False),
    )

    def __init__(
        self,
        *,
        partition_id: int = 0,
        error_code: int = 0,
        error_message: str | None = "",
    ) -> None:
        self.partition_id = partition_id
        self.error_code = error_code
        self.error_message = error_message


class ReplicaElectionResult(Structure):
    """An element of `ElectLeadersResponse.replica_election_results`."""

    __slots__ = ("topic", "partition_result")

    FIELDS = (
        ("topic", "string", (0, 32767), None, None, "", False),
        ("partition_result", "[PartitionResult]", (0, 32767), None, None, (), False),
    )

    def __init__(
        self,
        *,
        topic: str = "",
        partition_result: list[PartitionResult] = EMPTY,
    ) -> None:
        self.topic = topic
        self.partition_result = [] if partition_result is EMPTY else partition_result


class ElectLeadersResponse(Message):
    """Response, versions 0 to 2, flexible since 2."""

    __slots__ = ("throttle_time_ms", "error_code", "replica_election_results")

    API_KEY = 43
    VERSIONS = (0, 2)
    FLEXIBLE_SINCE = 2
    FIELDS = (
        ("throttle_time_ms", "int32", (0, 32767), None, None, 0, False),
        ("error_code", "int16", (1, 32767), None, None, 0, False),
        ("replica_election_results", "[ReplicaElectionResult]", (0, 32767), None, None, (), False),
    )

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        replica_election_results: list[ReplicaElectionResult] = EMPTY,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.replica_election_results = [] if replica_election_results is EMPTY else replica_election_results
