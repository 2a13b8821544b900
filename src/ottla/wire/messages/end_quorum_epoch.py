# Written by tools/generate_messages.py from definitions/54_end_quorum_epoch.txt: change the definition, not this file.
"""EndQuorumEpoch, API key 54.

A leader of the metadata quorum resigns and names its preferred successors.
"""

from __future__ import annotations

from ottla.model.ids import Uuid
from ottla.wire.message import EMPTY, Message, Request, Structure

__all__ = [
    "EndQuorumEpochRequest",
    "EndQuorumEpochResponse",
    "LeaderEndpoint",
    "NodeEndpoint",
    "ReplicaInfo",
    "RequestPartitionData",
    "RequestTopicData",
    "ResponsePartitionData",
    "ResponseTopicData",
]


class ReplicaInfo(Structure):
    """An element of `RequestPartitionData.preferred_candidates`."""

    __slots__ = ("candidate_id", "candidate_directory_id")

    FIELDS = (
        ("candidate_id", "int32", (0, 32767), None, None, 0, False),
        ("candidate_directory_id", "uuid", (0, 32767), None, None, 0, False),
    )

    def __init__(
        self,
        *,
        candidate_id: int = 0,
        candidate_directory_id: Uuid = Uuid.ZERO,
    ) -> None:
        self.candidate_id = candidate_id
        self.candidate_directory_id = candidate_directory_id


class RequestPartitionData(Structure):
    """An element of `RequestTopicData.partitions`."""

    __slots__ = ("partition_index", "leader_id", "leader_epoch", "preferred_successors", "preferred_candidates")

    FIELDS = (
        ("partition_index", "int32", (0, 32767), None, None, 0, False),
        ("leader_id", "int32", (0, 32767), None, None, 0, False),
        ("leader_epoch", "int32", (0, 32767), None, None, 0, False),
        ("preferred_successors", "[int32]", (0, 0), None, None, (), True),
        ("preferred_candidates", "[ReplicaInfo]", (1, 32767), None, None, (), True),
    )

    def __init__(
        self,
        *,
        partition_index: int = 0,
        leader_id: int = 0,
        leader_epoch: int = 0,
        preferred_successors: list[int] = EMPTY,
        preferred_candidates: list[ReplicaInfo] = EMPTY,
    ) -> None:
        self.partition_index = partition_index
        self.leader_id = leader_id
        self.leader_epoch = leader_epoch
        self.preferred_successors = [] if preferred_successors is EMPTY else preferred_successors
        self.preferred_candidates = [] if preferred_candidates is EMPTY else preferred_candidates


class RequestTopicData(Structure):
    """An element of `EndQuorumEpochRequest.topics`."""

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
    """An element of `EndQuorumEpochRequest.leader_endpoints`."""

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


class EndQuorumEpochRequest(Request["EndQuorumEpochResponse"]):
    """Request, versions 0 to 1, flexible since 1."""

    __slots__ = ("cluster_id", "topics", "leader_endpoints")

    API_KEY = 54
    VERSIONS = (0, 1)
    FLEXIBLE_SINCE = 1
    FIELDS = (
        ("cluster_id", "string", (0, 32767), (0, 32767), None, None, False),
        ("topics", "[RequestTopicData]", (0, 32767), None, None, (), False),
        ("leader_endpoints", "[LeaderEndpoint]", (1, 32767), None, None, (), True),
    )

    def __init__(
        self,
        *,
        cluster_id: str | None = None,
        topics: list[RequestTopicData] = EMPTY,
        leader_endpoints: list[LeaderEndpoint] = EMPTY,
    ) -> None:
        self.cluster_id = cluster_id
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
    """An element of `EndQuorumEpochResponse.topics`."""

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
    """An element of `EndQuorumEpochResponse.node_endpoints`."""

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


class EndQuorumEpochResponse(Message):
    """Response, versions 0 to 1, flexible since 1."""

    __slots__ = ("error_code", "topics", "node_endpoints")

    API_KEY = 54
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
