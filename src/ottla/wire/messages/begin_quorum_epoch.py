# Written by tools/generate_messages.py from definitions/53_begin_quorum_epoch.txt: change the definition, not this file.
"""BeginQuorumEpoch, API key 53.

A new leader of the metadata quorum announces itself to the voters.
"""

from __future__ import annotations

from ottla.model.ids import Uuid
from ottla.wire.message import EMPTY, Message, Request, Structure

__all__ = [
    "BeginQuorumEpochRequest",
    "BeginQuorumEpochResponse",
    "LeaderEndpoint",
    "NodeEndpoint",
    "RequestPartitionData",
    "RequestTopicData",
    "ResponsePartitionData",
    "ResponseTopicData",
]


class RequestPartitionData(Structure):
    """An element of `RequestTopicData.partitions`."""

    __slots__ = ("partition_index", "voter_directory_id", "leader_id", "leader_epoch")

    FIELDS = (
        ("partition_index", "int32", (0, 32767), None, None, 0, False),
        ("voter_directory_id", "uuid", (1, 32767), None, None, 0, True),
        ("leader_id", "int32", (0, 32767), None, None, 0, False),
        ("leader_epoch", "int32", (0, 32767), None, None, 0, False),
    )

    def __init__(
        self,
        *,
        partition_index: int = 0,
        voter_directory_id: Uuid = Uuid.ZERO,
        leader_id: int = 0,
        leader_epoch: int = 0,
    ) -> None:
        self.partition_index = partition_index
        self.voter_directory_id = voter_directory_id
        self.leader_id = leader_id
        self.leader_epoch = leader_epoch


class RequestTopicData(Structure):
    """An element of `BeginQuorumEpochRequest.topics`."""

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


class LeaderEndpoint(Structure):
    """An element of `BeginQuorumEpochRequest.leader_endpoints`."""

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


class BeginQuorumEpochRequest(Request["BeginQuorumEpochResponse"]):
    """Request, versions 0 to 1, flexible since 1."""

    __slots__ = ("cluster_id", "voter_id", "topics", "leader_endpoints")

    API_KEY = 53
    VERSIONS = (0, 1)
    FLEXIBLE_SINCE = 1
    FIELDS = (
        ("cluster_id", "string", (0, 32767), (0, 32767), None, None, False),
        ("voter_id", "int32", (1, 32767), None, None, -1, True),
        ("topics", "[RequestTopicData]", (0, 32767), None, None, (), False),
        ("leader_endpoints", "[LeaderEndpoint]", (1, 32767), None, None, (), True),
    )

    def __init__(
        self,
        *,
        cluster_id: str | None = None,
        voter_id: int = -1,
        topics: list[RequestTopicData] = EMPTY,
        leader_endpoints: list[LeaderEndpoint] = EMPTY,
    ) -> None:
        self.cluster_id = cluster_id
        self.voter_id = voter_id
        self.topics = [] if topics is EMPTY else topics
        self.leader_endpoints = [] if leader_endpoints is EMPTY else leader_endpoints


class ResponsePartitionData(Structure):
    """An element of `ResponseTopicData.partitions`."""

    __slots__ = ("partition_index", "error_code", "leader_id", "leader_epoch")

    FIELDS = (
        ("partition_index", "int32", (0, 32767), None, None, 0, False),
        ("error_code", "int16", (0, 32767), None, None, 0, False),
        ("leader_id", "int32", (0, 32767), None, None, 0, False),
        ("leader_epoch", "int32", (0, 32767), None, None, 0, False),
    )

    def __init__(
        self,
        *,
        partition_index: int = 0,
        error_code: int = 0,
        leader_id: int = 0,
        leader_epoch: int = 0,
    ) -> None:
        self.partition_index = partition_index
        self.error_code = error_code
        self.leader_id = leader_id
        self.leader_epoch = leader_epoch


class ResponseTopicData(Structure):
    """An element of `BeginQuorumEpochResponse.topics`."""

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


class NodeEndpoint(Structure):
    """An element of `BeginQuorumEpochResponse.node_endpoints`."""

    __slots__ = ("node_id", "host", "port")

    FIELDS = (
        ("node_id", "int32", (0, 32767), None, None, 0, False),
        ("host", "string", (0, 32767), None, None, "", False),
        ("port", "uint16", (0, 32767), None, None, 0, False),
    )

    def __init__(
        self,
        *,
        node_id: int = 0,
        host: str = "",
        port: int = 0,
    ) -> None:
        self.node_id = node_id
        self.host = host
        self.port = port


class BeginQuorumEpochResponse(Message):
    """Response, versions 0 to 1, flexible since 1."""

    __slots__ = ("error_code", "topics", "node_endpoints")

    API_KEY = 53
    VERSIONS = (0, 1)
    FLEXIBLE_SINCE = 1
    FIELDS = (
        ("error_code", "int16", (0, 32767), None, None, 0, False),
        ("topics", "[ResponseTopicData]", (0, 32767), None, None, (), False),
        ("node_endpoints", "[NodeEndpoint]", (1, 32767), None, 0, (), False),
    )

    def __init__(
        self,
        *,
        error_code: int = 0,
        topics: list[ResponseTopicData] = EMPTY,
        node_endpoints: list[NodeEndpoint] = EMPTY,
    ) -> None:
        self.error_code = error_code
        self.topics = [] if topics is EMPTY else topics
        self.node_endpoints = [] if node_endpoints is EMPTY else node_endpoints
