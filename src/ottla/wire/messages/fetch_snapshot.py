# Written by tools/generate_messages.py from definitions/59_fetch_snapshot.txt: change the definition, not this file.
"""FetchSnapshot, API key 59.

A range of bytes of a snapshot of the metadata log.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.model.ids import Uuid
from ottla.wire.message import EMPTY, Message, Request, Structure

if TYPE_CHECKING:
    from ottla.wire.message import Records

__all__ = [
    "FetchSnapshotRequest",
    "FetchSnapshotResponse",
    "LeaderIdAndEpoch",
    "NodeEndpoint",
    "RequestPartitionSnapshot",
    "RequestTopicSnapshot",
    "ResponsePartitionSnapshot",
    "ResponseTopicSnapshot",
    "SnapshotId",
]


class SnapshotId(Structure):
    """Shared by several fields."""

    __slots__ = ("end_offset", "epoch")

    FIELDS = (
        ("end_offset", "int64", (0, 32767), None, None, 0, False),
        ("epoch", "int32", (0, 32767), None, None, 0, False),
    )

    def __init__(
        self,
        *,
        end_offset: int = 0,
        epoch: int = 0,
    ) -> None:
        self.end_offset = end_offset
        self.epoch = epoch


class RequestPartitionSnapshot(Structure):
    """An element of `RequestTopicSnapshot.partitions`."""

    __slots__ = ("partition", "current_leader_epoch", "snapshot_id", "position", "replica_directory_id")

    FIELDS = (
        ("partition", "int32", (0, 32767), None, None, 0, False),
        ("current_leader_epoch", "int32", (0, 32767), None, None, 0, False),
        ("snapshot_id", "SnapshotId", (0, 32767), None, None, (), False),
        ("position", "int64", (0, 32767), None, None, 0, False),
        ("replica_directory_id", "uuid", (1, 32767), None, 0, 0, True),
    )

    def __init__(
        self,
        *,
        partition: int = 0,
        current_leader_epoch: int = 0,
        snapshot_id: SnapshotId = EMPTY,
        position: int = 0,
        replica_directory_id: Uuid = Uuid.ZERO,
    ) -> None:
        self.partition = partition
        self.current_leader_epoch = current_leader_epoch
        self.snapshot_id = SnapshotId() if snapshot_id is EMPTY else snapshot_id
        self.position = position
        self.replica_directory_id = replica_directory_id


class RequestTopicSnapshot(Structure):
    """An element of `FetchSnapshotRequest.topics`."""

    __slots__ = ("name", "partitions")

    FIELDS = (
        ("name", "string", (0, 32767), None, None, "", False),
        ("partitions", "[RequestPartitionSnapshot]", (0, 32767), None, None, (), False),
    )

    def __init__(
        self,
        *,
        name: str = "",
        partitions: list[RequestPartitionSnapshot] = EMPTY,
    ) -> None:
        self.name = name
        self.partitions = [] if partitions is EMPTY else partitions


class FetchSnapshotRequest(Request["FetchSnapshotResponse"]):
    """Request, versions 0 to 1, flexible."""

    __slots__ = ("cluster_id", "replica_id", "max_bytes", "topics")

    API_KEY = 59
    VERSIONS = (0, 1)
    FLEXIBLE_SINCE = 0
    FIELDS = (
        ("cluster_id", "string", (0, 32767), (0, 32767), 0, None, False),
        ("replica_id", "int32", (0, 32767), None, None, -1, False),
        ("max_bytes", "int32", (0, 32767), None, None, 2147483647, False),
        ("topics", "[RequestTopicSnapshot]", (0, 32767), None, None, (), False),
    )

    def __init__(
        self,
        *,
        cluster_id: str | None = None,
        replica_id: int = -1,
        max_bytes: int = 2147483647,
        topics: list[RequestTopicSnapshot] = EMPTY,
    ) -> None:
        self.cluster_id = cluster_id
        self.replica_id = replica_id
        self.max_bytes = max_bytes
        self.topics = [] if topics is EMPTY else topics


class LeaderIdAndEpoch(Structure):
    """The value of `ResponsePartitionSnapshot.current_leader`."""

    __slots__ = ("leader_id", "leader_epoch")

    FIELDS = (
        ("leader_id", "int32", (0, 32767), None, None, 0, False),
        ("leader_epoch", "int32", (0, 32767), None, None, 0, False),
    )

    def __init__(
        self,
        *,
        leader_id: int = 0,
        leader_epoch: int = 0,
    ) -> None:
        self.leader_id = leader_id
        self.leader_epoch = leader_epoch


class ResponsePartitionSnapshot(Structure):
    """An element of `ResponseTopicSnapshot.partitions`."""

    __slots__ = ("index", "error_code", "snapshot_id", "current_leader", "size", "position", "unaligned_records")

    FIELDS = (
        ("index", "int32", (0, 32767), None, None, 0, False),
        ("error_code", "int16", (0, 32767), None, None, 0, False),
        ("snapshot_id", "SnapshotId", (0, 32767), None, None, (), False),
        ("current_leader", "LeaderIdAndEpoch", (0, 32767), None, 0, None, False),
        ("size", "int64", (0, 32767), None, None, 0, False),
        ("position", "int64", (0, 32767), None, None, 0, False),
        ("unaligned_records", "records", (0, 32767), None, None, None, False),
    )

    def __init__(
        self,
        *,
        index: int = 0,
        error_code: int = 0,
        snapshot_id: SnapshotId = EMPTY,
        current_leader: LeaderIdAndEpoch | None = None,
        size: int = 0,
        position: int = 0,
        unaligned_records: Records = None,
    ) -> None:
        self.index = index
        self.error_code = error_code
        self.snapshot_id = SnapshotId() if snapshot_id is EMPTY else snapshot_id
        self.current_leader = current_leader
        self.size = size
        self.position = position
        self.unaligned_records = unaligned_records


class ResponseTopicSnapshot(Structure):
    """An element of `FetchSnapshotResponse.topics`."""

    __slots__ = ("name", "partitions")

    FIELDS = (
        ("name", "string", (0, 32767), None, None, "", False),
        ("partitions", "[ResponsePartitionSnapshot]", (0, 32767), None, None, (), False),
    )

    def __init__(
        self,
        *,
        name: str = "",
        partitions: list[ResponsePartitionSnapshot] = EMPTY,
    ) -> None:
        self.name = name
        self.partitions = [] if partitions is EMPTY else partitions


class NodeEndpoint(Structure):
    """An element of `FetchSnapshotResponse.node_endpoints`."""

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


class FetchSnapshotResponse(Message):
    """Response, versions 0 to 1, flexible."""

    __slots__ = ("throttle_time_ms", "error_code", "topics", "node_endpoints")

    API_KEY = 59
    VERSIONS = (0, 1)
    FLEXIBLE_SINCE = 0
    FIELDS = (
        ("throttle_time_ms", "int32", (0, 32767), None, None, 0, True),
        ("error_code", "int16", (0, 32767), None, None, 0, False),
        ("topics", "[ResponseTopicSnapshot]", (0, 32767), None, None, (), False),
        ("node_endpoints", "[NodeEndpoint]", (1, 32767), None, 0, (), False),
    )

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        topics: list[ResponseTopicSnapshot] = EMPTY,
        node_endpoints: list[NodeEndpoint] = EMPTY,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.topics = [] if topics is EMPTY else topics
        self.node_endpoints = [] if node_endpoints is EMPTY else node_endpoints
