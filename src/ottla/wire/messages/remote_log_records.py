# Written by tools/generate_messages.py from definitions/remote_log_records.txt: change the definition, not this file.
"""Remote log records.

Records of __remote_log_metadata (KIP-405).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.model.ids import Uuid
from ottla.wire.message import EMPTY, Message, Structure

if TYPE_CHECKING:
    from ottla.wire.message import Buffer

__all__ = [
    "RECORD_CLASSES",
    "RemoteLogSegmentIdEntry",
    "RemoteLogSegmentMetadataRecord",
    "RemoteLogSegmentMetadataSnapshotRecord",
    "RemoteLogSegmentMetadataUpdateRecord",
    "RemotePartitionDeleteMetadataRecord",
    "SegmentLeaderEpochEntry",
    "TopicIdPartitionEntry",
]


class RemoteLogSegmentIdEntry(Structure):
    """Shared by several fields."""

    __slots__ = ("topic_id_partition", "id")

    FIELDS = (
        ("topic_id_partition", "TopicIdPartitionEntry", (0, 32767), None, None, (), False),
        ("id", "uuid", (0, 32767), None, None, 0, False),
    )

    def __init__(
        self,
        *,
        topic_id_partition: TopicIdPartitionEntry = EMPTY,
        id: Uuid = Uuid.ZERO,
    ) -> None:
        self.topic_id_partition = TopicIdPartitionEntry() if topic_id_partition is EMPTY else topic_id_partition
        self.id = id


class TopicIdPartitionEntry(Structure):
    """Shared by several fields."""

    __slots__ = ("name", "id", "partition")

    FIELDS = (
        ("name", "string", (0, 32767), None, None, "", False),
        ("id", "uuid", (0, 32767), None, None, 0, False),
        ("partition", "int32", (0, 32767), None, None, 0, False),
    )

    def __init__(
        self,
        *,
        name: str = "",
        id: Uuid = Uuid.ZERO,
        partition: int = 0,
    ) -> None:
        self.name = name
        self.id = id
        self.partition = partition


class SegmentLeaderEpochEntry(Structure):
    """Shared by several fields."""

    __slots__ = ("leader_epoch", "offset")

    FIELDS = (
        ("leader_epoch", "int32", (0, 32767), None, None, 0, False),
        ("offset", "int64", (0, 32767), None, None, 0, False),
    )

    def __init__(
        self,
        *,
        leader_epoch: int = 0,
        offset: int = 0,
    ) -> None:
        self.leader_epoch = leader_epoch
        self.offset = offset


class RemoteLogSegmentMetadataRecord(Message):
    """Record type 0, version 0, flexible."""

    __slots__ = (
        "remote_log_segment_id",
        "start_offset",
        "end_offset",
        "broker_id",
        "max_timestamp_ms",
        "event_timestamp_ms",
        "segment_leader_epochs",
        "segment_size_in_bytes",
        "custom_metadata",
        "remote_log_segment_state",
        "txn_index_empty",
    )

    API_KEY = 0
    VERSIONS = (0, 0)
    FLEXIBLE_SINCE = 0
    FIELDS = (
        ("remote_log_segment_id", "RemoteLogSegmentIdEntry", (0, 32767), None, None, (), False),
        ("start_offset", "int64", (0, 32767), None, None, 0, False),
        ("end_offset", "int64", (0, 32767), None, None, 0, False),
        ("broker_id", "int32", (0, 32767), None, None, 0, False),
        ("max_timestamp_ms", "int64", (0, 32767), None, None, 0, False),
        ("event_timestamp_ms", "int64", (0, 32767), None, None, 0, False),
        ("segment_leader_epochs", "[SegmentLeaderEpochEntry]", (0, 32767), None, None, (), False),
        ("segment_size_in_bytes", "int32", (0, 32767), None, None, 0, False),
        ("custom_metadata", "bytes", (0, 32767), (0, 32767), None, None, False),
        ("remote_log_segment_state", "int8", (0, 32767), None, None, 0, False),
        ("txn_index_empty", "bool", (0, 32767), None, 0, False, False),
    )

    def __init__(
        self,
        *,
        remote_log_segment_id: RemoteLogSegmentIdEntry = EMPTY,
        start_offset: int = 0,
        end_offset: int = 0,
        broker_id: int = 0,
        max_timestamp_ms: int = 0,
        event_timestamp_ms: int = 0,
        segment_leader_epochs: list[SegmentLeaderEpochEntry] = EMPTY,
        segment_size_in_bytes: int = 0,
        custom_metadata: Buffer | None = None,
        remote_log_segment_state: int = 0,
        txn_index_empty: bool = False,
    ) -> None:
        self.remote_log_segment_id = (
            RemoteLogSegmentIdEntry() if remote_log_segment_id is EMPTY else remote_log_segment_id
        )
        self.start_offset = start_offset
        self.end_offset = end_offset
        self.broker_id = broker_id
        self.max_timestamp_ms = max_timestamp_ms
        self.event_timestamp_ms = event_timestamp_ms
        self.segment_leader_epochs = [] if segment_leader_epochs is EMPTY else segment_leader_epochs
        self.segment_size_in_bytes = segment_size_in_bytes
        self.custom_metadata = custom_metadata
        self.remote_log_segment_state = remote_log_segment_state
        self.txn_index_empty = txn_index_empty


class RemoteLogSegmentMetadataUpdateRecord(Message):
    """Record type 1, version 0, flexible."""

    __slots__ = (
        "remote_log_segment_id",
        "broker_id",
        "event_timestamp_ms",
        "custom_metadata",
        "remote_log_segment_state",
    )

    API_KEY = 1
    VERSIONS = (0, 0)
    FLEXIBLE_SINCE = 0
    FIELDS = (
        ("remote_log_segment_id", "RemoteLogSegmentIdEntry", (0, 32767), None, None, (), False),
        ("broker_id", "int32", (0, 32767), None, None, 0, False),
        ("event_timestamp_ms", "int64", (0, 32767), None, None, 0, False),
        ("custom_metadata", "bytes", (0, 32767), (0, 32767), None, None, False),
        ("remote_log_segment_state", "int8", (0, 32767), None, None, 0, False),
    )

    def __init__(
        self,
        *,
        remote_log_segment_id: RemoteLogSegmentIdEntry = EMPTY,
        broker_id: int = 0,
        event_timestamp_ms: int = 0,
        custom_metadata: Buffer | None = None,
        remote_log_segment_state: int = 0,
    ) -> None:
        self.remote_log_segment_id = (
            RemoteLogSegmentIdEntry() if remote_log_segment_id is EMPTY else remote_log_segment_id
        )
        self.broker_id = broker_id
        self.event_timestamp_ms = event_timestamp_ms
        self.custom_metadata = custom_metadata
        self.remote_log_segment_state = remote_log_segment_state


class RemotePartitionDeleteMetadataRecord(Message):
    """Record type 2, version 0, flexible."""

    __slots__ = ("topic_id_partition", "broker_id", "event_timestamp_ms", "remote_partition_delete_state")

    API_KEY = 2
    VERSIONS = (0, 0)
    FLEXIBLE_SINCE = 0
    FIELDS = (
        ("topic_id_partition", "TopicIdPartitionEntry", (0, 32767), None, None, (), False),
        ("broker_id", "int32", (0, 32767), None, None, 0, False),
        ("event_timestamp_ms", "int64", (0, 32767), None, None, 0, False),
        ("remote_partition_delete_state", "int8", (0, 32767), None, None, 0, False),
    )

    def __init__(
        self,
        *,
        topic_id_partition: TopicIdPartitionEntry = EMPTY,
        broker_id: int = 0,
        event_timestamp_ms: int = 0,
        remote_partition_delete_state: int = 0,
    ) -> None:
        self.topic_id_partition = TopicIdPartitionEntry() if topic_id_partition is EMPTY else topic_id_partition
        self.broker_id = broker_id
        self.event_timestamp_ms = event_timestamp_ms
        self.remote_partition_delete_state = remote_partition_delete_state


class RemoteLogSegmentMetadataSnapshotRecord(Message):
    """Record type 3, version 0, flexible."""

    __slots__ = (
        "segment_id",
        "start_offset",
        "end_offset",
        "broker_id",
        "max_timestamp_ms",
        "event_timestamp_ms",
        "segment_leader_epochs",
        "segment_size_in_bytes",
        "custom_metadata",
        "remote_log_segment_state",
        "txn_index_empty",
    )

    API_KEY = 3
    VERSIONS = (0, 0)
    FLEXIBLE_SINCE = 0
    FIELDS = (
        ("segment_id", "uuid", (0, 32767), None, None, 0, False),
        ("start_offset", "int64", (0, 32767), None, None, 0, False),
        ("end_offset", "int64", (0, 32767), None, None, 0, False),
        ("broker_id", "int32", (0, 32767), None, None, 0, False),
        ("max_timestamp_ms", "int64", (0, 32767), None, None, 0, False),
        ("event_timestamp_ms", "int64", (0, 32767), None, None, 0, False),
        ("segment_leader_epochs", "[SegmentLeaderEpochEntry]", (0, 32767), None, None, (), False),
        ("segment_size_in_bytes", "int32", (0, 32767), None, None, 0, False),
        ("custom_metadata", "bytes", (0, 32767), (0, 32767), None, None, False),
        ("remote_log_segment_state", "int8", (0, 32767), None, None, 0, False),
        ("txn_index_empty", "bool", (0, 32767), None, 0, False, False),
    )

    def __init__(
        self,
        *,
        segment_id: Uuid = Uuid.ZERO,
        start_offset: int = 0,
        end_offset: int = 0,
        broker_id: int = 0,
        max_timestamp_ms: int = 0,
        event_timestamp_ms: int = 0,
        segment_leader_epochs: list[SegmentLeaderEpochEntry] = EMPTY,
        segment_size_in_bytes: int = 0,
        custom_metadata: Buffer | None = None,
        remote_log_segment_state: int = 0,
        txn_index_empty: bool = False,
    ) -> None:
        self.segment_id = segment_id
        self.start_offset = start_offset
        self.end_offset = end_offset
        self.broker_id = broker_id
        self.max_timestamp_ms = max_timestamp_ms
        self.event_timestamp_ms = event_timestamp_ms
        self.segment_leader_epochs = [] if segment_leader_epochs is EMPTY else segment_leader_epochs
        self.segment_size_in_bytes = segment_size_in_bytes
        self.custom_metadata = custom_metadata
        self.remote_log_segment_state = remote_log_segment_state
        self.txn_index_empty = txn_index_empty


RECORD_CLASSES: dict[int, type[Message]] = {
    0: RemoteLogSegmentMetadataRecord,
    1: RemoteLogSegmentMetadataUpdateRecord,
    2: RemotePartitionDeleteMetadataRecord,
    3: RemoteLogSegmentMetadataSnapshotRecord,
}
