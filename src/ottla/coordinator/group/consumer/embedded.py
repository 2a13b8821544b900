"""The subscriptions and assignments inside JoinGroup and SyncGroup: a two-byte version, then the message.

The broker reads and writes them only for groups with members of both protocols. Newer versions than this software knows
append fields to the known ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from struct import Struct
from struct import error as struct_error
from typing import TYPE_CHECKING

from ottla.coordinator.group.consumer.reconcile import Owned
from ottla.model.ids import Uuid
from ottla.wire.codec import MalformedMessage, decode, encode
from ottla.wire.messages.consumer_group_heartbeat import TopicPartitions
from ottla.wire.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartition,
)

if TYPE_CHECKING:
    from ottla.metadata.image import TopicsImage

__all__ = ["CustomAssignor", "encode_assignment", "owned_partitions", "read_assignment", "read_subscription"]

_VERSION = Struct(">h")


class CustomAssignor(Exception):
    """The assignment holds user data of a custom assignor, which would be lost."""


def read_subscription(metadata: bytes) -> ConsumerProtocolSubscription:
    """Raises MalformedMessage."""
    version = min(_version(metadata), ConsumerProtocolSubscription.VERSIONS[1])
    subscription, _ = decode(ConsumerProtocolSubscription, memoryview(metadata), version, _VERSION.size)
    return subscription


def read_assignment(assignment: bytes, topics: TopicsImage) -> dict[Uuid, list[int]]:
    """The partitions of existing topics by topic id. A member without an assignment has no bytes."""
    if not assignment:
        return {}
    version = min(_version(assignment), ConsumerProtocolAssignment.VERSIONS[1])
    message, _ = decode(ConsumerProtocolAssignment, memoryview(assignment), version, _VERSION.size)
    if message.user_data:
        raise CustomAssignor
    return _by_id(message.assigned_partitions, topics)


def encode_assignment(held: Mapping[Uuid, Iterable[int]], metadata: bytes, topics: TopicsImage) -> bytes:
    """In the version of the member's own subscription."""
    version = min(_version(metadata), ConsumerProtocolAssignment.VERSIONS[1])
    message = ConsumerProtocolAssignment(
        assigned_partitions=[
            TopicPartition(topic=topic.name, partitions=sorted(partitions))
            for topic_id, partitions in held.items()
            if (topic := topics.by_id.get(topic_id)) is not None
        ]
    )
    return _VERSION.pack(version) + encode(message, version)


def owned_partitions(subscription: ConsumerProtocolSubscription, topics: TopicsImage) -> Owned:
    return [
        TopicPartitions(topic_id=topic_id, partitions=partitions)
        for topic_id, partitions in _by_id(subscription.owned_partitions, topics).items()
    ]


def _version(data: bytes) -> int:
    try:
        (version,) = _VERSION.unpack_from(data)
    except struct_error as error:
        raise MalformedMessage("no version before the embedded protocol") from error
    if version < 0:
        raise MalformedMessage(f"version {version} of the embedded protocol")
    return int(version)


def _by_id(partitions: Iterable[TopicPartition], topics: TopicsImage) -> dict[Uuid, list[int]]:
    return {
        topic.topic_id: list(assigned.partitions)
        for assigned in partitions
        if (topic := topics.by_name.get(assigned.topic)) is not None
    }
