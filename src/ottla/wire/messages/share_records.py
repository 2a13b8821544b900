# Written by tools/generate_messages.py from definitions/share_records.txt: change the definition, not this file.
"""Share records.

Keys and values of __share_group_state (KIP-932).
"""

from __future__ import annotations

from ottla.model.ids import Uuid
from ottla.wire.message import EMPTY, Message, Structure

__all__ = [
    "KEY_CLASSES",
    "ShareSnapshotKey",
    "ShareSnapshotValue",
    "ShareUpdateKey",
    "ShareUpdateValue",
    "StateBatch",
    "VALUE_CLASSES",
]


class StateBatch(Structure):
    """Shared by several fields."""

    __slots__ = ("first_offset", "last_offset", "delivery_state", "delivery_count")

    FIELDS = (
        ("first_offset", "int64", (0, 32767), None, None, 0, False),
        ("last_offset", "int64", (0, 32767), None, None, 0, False),
        ("delivery_state", "int8", (0, 32767), None, None, 0, False),
        ("delivery_count", "int16", (0, 32767), None, None, 0, False),
    )

    def __init__(
        self,
        *,
        first_offset: int = 0,
        last_offset: int = 0,
        delivery_state: int = 0,
        delivery_count: int = 0,
    ) -> None:
        self.first_offset = first_offset
        self.last_offset = last_offset
        self.delivery_state = delivery_state
        self.delivery_count = delivery_count


class ShareSnapshotKey(Message):
    """Key type 0, version 0."""

    __slots__ = ("group_id", "topic_id", "partition")

    API_KEY = 0
    VERSIONS = (0, 0)
    FIELDS = (
        ("group_id", "string", (0, 32767), None, None, "", False),
        ("topic_id", "uuid", (0, 32767), None, None, 0, False),
        ("partition", "int32", (0, 32767), None, None, 0, False),
    )

    def __init__(
        self,
        *,
        group_id: str = "",
        topic_id: Uuid = Uuid.ZERO,
        partition: int = 0,
    ) -> None:
        self.group_id = group_id
        self.topic_id = topic_id
        self.partition = partition


class ShareSnapshotValue(Message):
    """Value of key type 0, version 0, flexible."""

    __slots__ = (
        "snapshot_epoch",
        "state_epoch",
        "leader_epoch",
        "start_offset",
        "delivery_complete_count",
        "create_timestamp",
        "write_timestamp",
        "state_batches",
    )

    API_KEY = 0
    VERSIONS = (0, 0)
    FLEXIBLE_SINCE = 0
    FIELDS = (
        ("snapshot_epoch", "int32", (0, 32767), None, None, 0, False),
        ("state_epoch", "int32", (0, 32767), None, None, 0, False),
        ("leader_epoch", "int32", (0, 32767), None, None, 0, False),
        ("start_offset", "int64", (0, 32767), None, None, 0, False),
        ("delivery_complete_count", "int32", (0, 32767), None, 0, -1, False),
        ("create_timestamp", "int64", (0, 32767), None, None, 0, False),
        ("write_timestamp", "int64", (0, 32767), None, None, 0, False),
        ("state_batches", "[StateBatch]", (0, 32767), None, None, (), False),
    )

    def __init__(
        self,
        *,
        snapshot_epoch: int = 0,
        state_epoch: int = 0,
        leader_epoch: int = 0,
        start_offset: int = 0,
        delivery_complete_count: int = -1,
        create_timestamp: int = 0,
        write_timestamp: int = 0,
        state_batches: list[StateBatch] = EMPTY,
    ) -> None:
        self.snapshot_epoch = snapshot_epoch
        self.state_epoch = state_epoch
        self.leader_epoch = leader_epoch
        self.start_offset = start_offset
        self.delivery_complete_count = delivery_complete_count
        self.create_timestamp = create_timestamp
        self.write_timestamp = write_timestamp
        self.state_batches = [] if state_batches is EMPTY else state_batches


class ShareUpdateKey(Message):
    """Key type 1, version 0."""

    __slots__ = ("group_id", "topic_id", "partition")

    API_KEY = 1
    VERSIONS = (0, 0)
    FIELDS = (
        ("group_id", "string", (0, 32767), None, None, "", False),
        ("topic_id", "uuid", (0, 32767), None, None, 0, False),
        ("partition", "int32", (0, 32767), None, None, 0, False),
    )

    def __init__(
        self,
        *,
        group_id: str = "",
        topic_id: Uuid = Uuid.ZERO,
        partition: int = 0,
    ) -> None:
        self.group_id = group_id
        self.topic_id = topic_id
        self.partition = partition


class ShareUpdateValue(Message):
    """Value of key type 1, version 0, flexible."""

    __slots__ = ("snapshot_epoch", "leader_epoch", "start_offset", "delivery_complete_count", "state_batches")

    API_KEY = 1
    VERSIONS = (0, 0)
    FLEXIBLE_SINCE = 0
    FIELDS = (
        ("snapshot_epoch", "int32", (0, 32767), None, None, 0, False),
        ("leader_epoch", "int32", (0, 32767), None, None, 0, False),
        ("start_offset", "int64", (0, 32767), None, None, 0, False),
        ("delivery_complete_count", "int32", (0, 32767), None, 0, -1, False),
        ("state_batches", "[StateBatch]", (0, 32767), None, None, (), False),
    )

    def __init__(
        self,
        *,
        snapshot_epoch: int = 0,
        leader_epoch: int = 0,
        start_offset: int = 0,
        delivery_complete_count: int = -1,
        state_batches: list[StateBatch] = EMPTY,
    ) -> None:
        self.snapshot_epoch = snapshot_epoch
        self.leader_epoch = leader_epoch
        self.start_offset = start_offset
        self.delivery_complete_count = delivery_complete_count
        self.state_batches = [] if state_batches is EMPTY else state_batches


KEY_CLASSES: dict[int, type[Message]] = {
    0: ShareSnapshotKey,
    1: ShareUpdateKey,
}


VALUE_CLASSES: dict[int, type[Message]] = {
    0: ShareSnapshotValue,
    1: ShareUpdateValue,
}
