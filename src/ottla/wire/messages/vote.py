# Written by tools/generate_messages.py from definitions/52_vote.txt: change the definition, not this file.
"""Vote, API key 52.

A candidate of the metadata quorum requests a vote; from 2 on it may be a pre-vote (KIP-996).
"""

from __future__ import annotations

from ottla.model.ids import Uuid
from ottla.wire.message import EMPTY, Message, Request, Structure

__all__ = [
    "NodeEndpoint",
    "RequestPartitionData",
    "RequestTopicData",
    "ResponsePartitionData",
    "ResponseTopicData",
    "VoteRequest",
    "VoteResponse",
]


class RequestPartitionData(Structure):
    """An element of `RequestTopicData.partitions`."""

    __slots__ = (
        "partition_index",
        "replica_epoch",
        "replica_id",
        "replica_directory_id",
        "voter_directory_id",
        "last_offset_epoch",
        "last_offset",
        "pre_vote",
    )

    FIELDS = (
        ("partition_index", "int32", (0, 32767), None, None, 0, False),
        ("replica_epoch", "int32", (0, 32767), None, None, 0, False),
        ("replica_id", "int32", (0, 32767), None, None, 0, False),
        ("replica_directory_id", "uuid", (1, 32767), None, None, 0, True),
        ("voter_directory_id", "uuid", (1, 32767), None, None, 0, True),
        ("last_offset_epoch", "int32", (0, 32767), None, None, 0, False),
        ("last_offset", "int64", (0, 32767), None, None, 0, False),
        ("pre_vote", "bool", (2, 32767), None, None, False, False),
    )

    def __init__(
        self,
        *,
        partition_index: int = 0,
        replica_epoch: int = 0,
        replica_id: int = 0,
        replica_directory_id: Uuid = Uuid.ZERO,
        voter_directory_id: Uuid = Uuid.ZERO,
        last_offset_epoch: int = 0,
        last_offset: int = 0,
        pre_vote: bool = False,
    ) -> None:
        self.partition_index = partition_index
        self.replica_epoch = replica_epoch
        self.replica_id = replica_id
        self.replica_directory_id = replica_directory_id
        self.voter_directory_id = voter_directory_id
        self.last_offset_epoch = last_offset_epoch
        self.last_offset = last_offset
        self.pre_vote = pre_vote


class RequestTopicData(Structure):
    """An element of `VoteRequest.topics`."""

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


class VoteRequest(Request["VoteResponse"]):
    """Request, versions 0 to 2, flexible."""

    __slots__ = ("cluster_id", "voter_id", "topics")

    API_KEY = 52
    VERSIONS = (0, 2)
    FLEXIBLE_SINCE = 0
    FIELDS = (
        ("cluster_id", "string", (0, 32767), (0, 32767), None, None, False),
        ("voter_id", "int32", (1, 32767), None, None, -1, True),
        ("topics", "[RequestTopicData]", (0, 32767), None, None, (), False),
    )

    def __init__(
        self,
        *,
        cluster_id: str | None = None,
        voter_id: int = -1,
        topics: list[RequestTopicData] = EMPTY,
    ) -> None:
        self.cluster_id = cluster_id
        self.voter_id = voter_id
        self.topics = [] if topics is EMPTY else topics


class ResponsePartitionData(Structure):
    """An element of `ResponseTopicData.partitions`."""

    __slots__ = ("partition_index", "error_code", "leader_id", "leader_epoch", "vote_granted")

    FIELDS = (
        ("partition_index", "int32", (0, 32767), None, None, 0, False),
        ("error_code", "int16", (0, 32767), None, None, 0, False),
        ("leader_id", "int32", (0, 32767), None, None, 0, False),
        ("leader_epoch", "int32", (0, 32767), None, None, 0, False),
        ("vote_granted", "bool", (0, 32767), None, None, False, False),
    )

    def __init__(
        self,
        *,
        partition_index: int = 0,
        error_code: int = 0,
        leader_id: int = 0,
        leader_epoch: int = 0,
        vote_granted: bool = False,
    ) -> None:
        self.partition_index = partition_index
        self.error_code = error_code
        self.leader_id = leader_id
        self.leader_epoch = leader_epoch
        self.vote_granted = vote_granted


class ResponseTopicData(Structure):
    """An element of `VoteResponse.topics`."""

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
    """An element of `VoteResponse.node_endpoints`."""

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


class VoteResponse(Message):
    """Response, versions 0 to 2, flexible."""

    __slots__ = ("error_code", "topics", "node_endpoints")

    API_KEY = 52
    VERSIONS = (0, 2)
    FLEXIBLE_SINCE = 0
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
