# Written by tools/generate_messages.py from definitions/55_describe_quorum.txt: change the definition, not this file.
"""DescribeQuorum, API key 55.

Leader, voters and observers of the metadata quorum, with their log end offsets.
"""

from __future__ import annotations

from ottla.model.ids import Uuid
from ottla.wire.message import EMPTY, Message, Request, Structure

__all__ = [
    "DescribeQuorumRequest",
    "DescribeQuorumResponse",
    "Listener",
    "Node",
    "ReplicaState",
    "RequestPartitionData",
    "RequestTopicData",
    "ResponsePartitionData",
    "ResponseTopicData",
]


class ReplicaState(Structure):
    """Shared by several fields."""

    __slots__ = (
        "replica_id",
        "replica_directory_id",
        "log_end_offset",
        "last_fetch_timestamp",
        "last_caught_up_timestamp",
    )

    FIELDS = (
        ("replica_id", "int32", (0, 32767), None, None, 0, False),
        ("replica_directory_id", "uuid", (2, 32767), None, None, 0, False),
        ("log_end_offset", "int64", (0, 32767), None, None, 0, False),
        ("last_fetch_timestamp", "int64", (1, 32767), None, None, -1, True),
        ("last_caught_up_timestamp", "int64", (1, 32767), None, None, -1, True),
    )

    def __init__(
        self,
        *,
        replica_id: int = 0,
        replica_directory_id: Uuid = Uuid.ZERO,
        log_end_offset: int = 0,
        last_fetch_timestamp: int = -1,
        last_caught_up_timestamp: int = -1,
    ) -> None:
        self.replica_id = replica_id
        self.replica_directory_id = replica_directory_id
        self.log_end_offset = log_end_offset
        self.last_fetch_timestamp = last_fetch_timestamp
        self.last_caught_up_timestamp = last_caught_up_timestamp


class RequestPartitionData(Structure):
    """An element of `RequestTopicData.partitions`."""

    __slots__ = ("partition_index",)

    FIELDS = (("partition_index", "int32", (0, 32767), None, None, 0, False),)

    def __init__(
        self,
        *,
        partition_index: int = 0,
    ) -> None:
        self.partition_index = partition_index


class RequestTopicData(Structure):
    """An element of `DescribeQuorumRequest.topics`."""

    __slots__ = ("topic_name", "partitions")

    FIELDS = (
        ("topic_name", "string", (0, 32767), None, None, "", False),
        ("partitions", "[RequestPartitionData]", (0, 32767), None, None, (), False),
    )

    def __init__(
        self,
        *,
        topic_name: str = "",
        partitions: list[RequestPartitionData] = EMPTY,
    ) -> None:
        self.topic_name = topic_name
        self.partitions = [] if partitions is EMPTY else partitions


class DescribeQuorumRequest(Request["DescribeQuorumResponse"]):
    """Request, versions 0 to 2, flexible."""

    __slots__ = ("topics",)

    API_KEY = 55
    VERSIONS = (0, 2)
    FLEXIBLE_SINCE = 0
    FIELDS = (("topics", "[RequestTopicData]", (0, 32767), None, None, (), False),)

    def __init__(
        self,
        *,
        topics: list[RequestTopicData] = EMPTY,
    ) -> None:
        self.topics = [] if topics is EMPTY else topics


class ResponsePartitionData(Structure):
    """An element of `ResponseTopicData.partitions`."""

    __slots__ = (
        "partition_index",
        "error_code",
        "error_message",
        "leader_id",
        "leader_epoch",
        "high_watermark",
        "current_voters",
        "observers",
    )

    FIELDS = (
        ("partition_index", "int32", (0, 32767), None, None, 0, False),
        ("error_code", "int16", (0, 32767), None, None, 0, False),
        ("error_message", "string", (2, 32767), (0, 32767), None, "", True),
        ("leader_id", "int32", (0, 32767), None, None, 0, False),
        ("leader_epoch", "int32", (0, 32767), None, None, 0, False),
        ("high_watermark", "int64", (0, 32767), None, None, 0, False),
        ("current_voters", "[ReplicaState]", (0, 32767), None, None, (), False),
        ("observers", "[ReplicaState]", (0, 32767), None, None, (), False),
    )

    def __init__(
        self,
        *,
        partition_index: int = 0,
        error_code: int = 0,
        error_message: str | None = "",
        leader_id: int = 0,
        leader_epoch: int = 0,
        high_watermark: int = 0,
        current_voters: list[ReplicaState] = EMPTY,
        observers: list[ReplicaState] = EMPTY,
    ) -> None:
        self.partition_index = partition_index
        self.error_code = error_code
        self.error_message = error_message
        self.leader_id = leader_id
        self.leader_epoch = leader_epoch
        self.high_watermark = high_watermark
        self.current_voters = [] if current_voters is EMPTY else current_voters
        self.observers = [] if observers is EMPTY else observers


class ResponseTopicData(Structure):
    """An element of `DescribeQuorumResponse.topics`."""

    __slots__ = ("topic_name", "partitions")

    FIELDS = (
        ("topic_name", "string", (0, 32767), None, None, "", False),
        ("partitions", "[ResponsePartitionData]", (0, 32767), None, None, (), False),
    )

    def __init__(
        self,
        *,
        topic_name: str = "",
        partitions: list[ResponsePartitionData] = EMPTY,
    ) -> None:
        self.topic_name = topic_name
        self.partitions = [] if partitions is EMPTY else partitions


class Listener(Structure):
    """An element of `Node.listeners`."""

    __slots__ = ("name", "host", "port")

    FIELDS = (
        ("name", "string", (0, 32767), None, None, "", False),
        ("host", "string", (0, 32767), None, None, "", False),
        ("port", "uint16", (0, 32767), None, None, 0, False),
    )

    def __init__(
        self,
        *,
        name: str = "",
        host: str = "",
        port: int = 0,
    ) -> None:
        self.name = name
        self.host = host
        self.port = port


class Node(Structure):
    """An element of `DescribeQuorumResponse.nodes`."""

    __slots__ = ("node_id", "listeners")

    FIELDS = (
        ("node_id", "int32", (0, 32767), None, None, 0, False),
        ("listeners", "[Listener]", (0, 32767), None, None, (), False),
    )

    def __init__(
        self,
        *,
        node_id: int = 0,
        listeners: list[Listener] = EMPTY,
    ) -> None:
        self.node_id = node_id
        self.listeners = [] if listeners is EMPTY else listeners


class DescribeQuorumResponse(Message):
    """Response, versions 0 to 2, flexible."""

    __slots__ = ("error_code", "error_message", "topics", "nodes")

    API_KEY = 55
    VERSIONS = (0, 2)
    FLEXIBLE_SINCE = 0
    FIELDS = (
        ("error_code", "int16", (0, 32767), None, None, 0, False),
        ("error_message", "string", (2, 32767), (0, 32767), None, "", True),
        ("topics", "[ResponseTopicData]", (0, 32767), None, None, (), False),
        ("nodes", "[Node]", (2, 32767), None, None, (), False),
    )

    def __init__(
        self,
        *,
        error_code: int = 0,
        error_message: str | None = "",
        topics: list[ResponseTopicData] = EMPTY,
        nodes: list[Node] = EMPTY,
    ) -> None:
        self.error_code = error_code
        self.error_message = error_message
        self.topics = [] if topics is EMPTY else topics
        self.nodes = [] if nodes is EMPTY else nodes
