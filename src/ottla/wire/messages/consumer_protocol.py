# Written by tools/generate_messages.py from definitions/consumer_protocol.txt: change the definition, not this file.
"""Consumer protocol.

The metadata and assignments in JoinGroup and SyncGroup of classic consumer groups.
A two-byte version precedes each message.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.wire.message import EMPTY, Message, Structure

if TYPE_CHECKING:
    from ottla.wire.message import Buffer

__all__ = [
    "ConsumerProtocolAssignment",
    "ConsumerProtocolSubscription",
    "TopicPartition",
]


class TopicPartition(Structure):
    """Shared by several fields."""

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


class ConsumerProtocolAssignment(Message):
    """Data, versions 0 to 3."""

    __slots__ = ("assigned_partitions", "user_data")

    VERSIONS = (0, 3)
    FIELDS = (
        ("assigned_partitions", "[TopicPartition]", (0, 32767), None, None, (), False),
        ("user_data", "bytes", (0, 32767), (0, 32767), None, None, False),
    )

    def __init__(
        self,
        *,
        assigned_partitions: list[TopicPartition] = EMPTY,
        user_data: Buffer | None = None,
    ) -> None:
        self.assigned_partitions = [] if assigned_partitions is EMPTY else assigned_partitions
        self.user_data = user_data


class ConsumerProtocolSubscription(Message):
    """Data, versions 0 to 3."""

    __slots__ = ("topics", "user_data", "owned_partitions", "generation_id", "rack_id")

    VERSIONS = (0, 3)
    FIELDS = (
        ("topics", "[string]", (0, 32767), None, None, (), False),
        ("user_data", "bytes", (0, 32767), (0, 32767), None, None, False),
        ("owned_partitions", "[TopicPartition]", (1, 32767), None, None, (), True),
        ("generation_id", "int32", (2, 32767), None, None, -1, True),
        ("rack_id", "string", (3, 32767), (0, 32767), None, None, True),
    )

    def __init__(
        self,
        *,
        topics: list[str] = EMPTY,
        user_data: Buffer | None = None,
        owned_partitions: list[TopicPartition] = EMPTY,
        generation_id: int = -1,
        rack_id: str | None = None,
    ) -> None:
        self.topics = [] if topics is EMPTY else topics
        self.user_data = user_data
        self.owned_partitions = [] if owned_partitions is EMPTY else owned_partitions
        self.generation_id = generation_id
        self.rack_id = rack_id
