# Written by tools/generate_messages.py from definitions/75_describe_topic_partitions.txt: change the definition, not this file.
"""DescribeTopicPartitions, API key 75.

Topics page by page, with eligible leader replicas (KIP-966).
"""

from __future__ import annotations

from ottla.model.ids import Uuid
from ottla.wire.message import EMPTY, Message, Request, Structure

__all__ = [
    "Cursor",
    "DescribeTopicPartitionsRequest",
    "DescribeTopicPartitionsResponse",
    "DescribeTopicPartitionsResponsePartition",
    "DescribeTopicPartitionsResponseTopic",
    "TopicRequest",
]


class Cursor(Structure):
    """Shared by several fields."""

    __slots__ = ("topic_name", "partition_index")

    FIELDS = (
        ("topic_name", "string", (0, 32767), None, None, "", False),
        ("partition_index", "int32", (0, 32767), None, None, 0, False),
    )

    def __init__(
        self,
        *,
        topic_name: str = "",
        partition_index: int = 0,
    ) -> None:
        self.topic_name = topic_name
        self.partition_index = partition_index


class TopicRequest(Structure):
    """An element of `DescribeTopicPartitionsRequest.topics`."""

    __slots__ = ("name",)

    FIELDS = (("name", "string", (0, 32767), None, None, "", False),)

    def __init__(
        self,
        *,
        name: str = "",
    ) -> None:
        self.name = name


class DescribeTopicPartitionsRequest(Request["DescribeTopicPartitionsResponse"]):
    """Request, version 0, flexible."""

    __slots__ = ("topics", "response_partition_limit", "cursor")

    API_KEY = 75
    VERSIONS = (0, 0)
    FLEXIBLE_SINCE = 0
    FIELDS = (
        ("topics", "[TopicRequest]", (0, 32767), None, None, (), False),
        ("response_partition_limit", "int32", (0, 32767), None, None, 2000, False),
        ("cursor", "Cursor", (0, 32767), (0, 32767), None, None, False),
    )

    def __init__(
        self,
        *,
        topics: list[TopicRequest] = EMPTY,
        response_partition_limit: int = 2000,
        cursor: Cursor | None = None,
    ) -> None:
        self.topics = [] if topics is EMPTY else topics
        self.response_partition_limit = response_partition_limit
        self.cursor = cursor


class DescribeTopicPartitionsResponsePartition(Structure):
    """An element of `DescribeTopicPartitionsResponseTopic.partitions`."""

    __slots__ = (
        "error_code",
        "partition_index",
        "leader_id",
        "leader_epoch",
        "replica_nodes",
        "isr_nodes",
        "eligible_leader_replicas",
        "last_known_elr",
        "offline_replicas",
    )

    FIELDS = (
        ("error_code", "int16", (0, 32767), None, None, 0, False),
        ("partition_index", "int32", (0, 32767), None, None, 0, False),
        ("leader_id", "int32", (0, 32767), None, None, 0, False),
        ("leader_epoch", "int32", (0, 32767), None, None, -1, True),
        ("replica_nodes", "[int32]", (0, 32767), None, None, (), False),
        ("isr_nodes", "[int32]", (0, 32767), None, None, (), False),
        ("eligible_leader_replicas", "[int32]", (0, 32767), (0, 32767), None, None, False),
        ("last_known_elr", "[int32]", (0, 32767), (0, 32767), None, None, False),
        ("offline_replicas", "[int32]", (0, 32767), None, None, (), True),
    )

    def __init__(
        self,
        *,
        error_code: int = 0,
        partition_index: int = 0,
        leader_id: int = 0,
        leader_epoch: int = -1,
        replica_nodes: list[int] = EMPTY,
        isr_nodes: list[int] = EMPTY,
        eligible_leader_replicas: list[int] | None = None,
        last_known_elr: list[int] | None = None,
        offline_replicas: list[int] = EMPTY,
    ) -> None:
        self.error_code = error_code
        self.partition_index = partition_index
        self.leader_id = leader_id
        self.leader_epoch = leader_epoch
        self.replica_nodes = [] if replica_nodes is EMPTY else replica_nodes
        self.isr_nodes = [] if isr_nodes is EMPTY else isr_nodes
        self.eligible_leader_replicas = eligible_leader_replicas
        self.last_known_elr = last_known_elr
        self.offline_replicas = [] if offline_replicas is EMPTY else offline_replicas


class DescribeTopicPartitionsResponseTopic(Structure):
    """An element of `DescribeTopicPartitionsResponse.topics`."""

    __slots__ = ("error_code", "name", "topic_id", "is_internal", "partitions", "topic_authorized_operations")

    FIELDS = (
        ("error_code", "int16", (0, 32767), None, None, 0, False),
        ("name", "string", (0, 32767), (0, 32767), None, "", False),
        ("topic_id", "uuid", (0, 32767), None, None, 0, True),
        ("is_internal", "bool", (0, 32767), None, None, False, True),
        ("partitions", "[DescribeTopicPartitionsResponsePartition]", (0, 32767), None, None, (), False),
        ("topic_authorized_operations", "int32", (0, 32767), None, None, -2147483648, False),
    )

    def __init__(
        self,
        *,
        error_code: int = 0,
        name: str | None = "",
        topic_id: Uuid = Uuid.ZERO,
        is_internal: bool = False,
        partitions: list[DescribeTopicPartitionsResponsePartition] = EMPTY,
        topic_authorized_operations: int = -2147483648,
    ) -> None:
        self.error_code = error_code
        self.name = name
        self.topic_id = topic_id
        self.is_internal = is_internal
        self.partitions = [] if partitions is EMPTY else partitions
        self.topic_authorized_operations = topic_authorized_operations


class DescribeTopicPartitionsResponse(Message):
    """Response, version 0, flexible."""

    __slots__ = ("throttle_time_ms", "topics", "next_cursor")

    API_KEY = 75
    VERSIONS = (0, 0)
    FLEXIBLE_SINCE = 0
    FIELDS = (
        ("throttle_time_ms", "int32", (0, 32767), None, None, 0, True),
        ("topics", "[DescribeTopicPartitionsResponseTopic]", (0, 32767), None, None, (), False),
        ("next_cursor", "Cursor", (0, 32767), (0, 32767), None, None, False),
    )

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        topics: list[DescribeTopicPartitionsResponseTopic] = EMPTY,
        next_cursor: Cursor | None = None,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.topics = [] if topics is EMPTY else topics
        self.next_cursor = next_cursor
