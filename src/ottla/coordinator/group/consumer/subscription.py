"""The subscribed topics of a group, and a hash that detects changes of them (KIP-1101).

The hash is in the group's record. It covers everything that an assignment depends on: the ids of the topics, their
numbers of partitions, and the racks of the replicas.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING
from zlib import crc32

from ottla.coordinator.group.consumer.member import ConsumerMember
from ottla.records.checksum import crc32c

if TYPE_CHECKING:
    from ottla.coordinator.group.consumer.group import ConsumerGroup, ResolvedRegex
    from ottla.coordinator.group.state import GroupContext
    from ottla.metadata.image import ClusterImage, MetadataImage, TopicImage
    from ottla.model.ids import Uuid

__all__ = [
    "TopicHashes",
    "is_metadata_stale",
    "metadata_hash",
    "partition_racks",
    "subscribed_ids",
    "subscribed_names",
    "topics_of_members",
]


def subscribed_names(member: ConsumerMember, resolved: Mapping[str, ResolvedRegex]) -> frozenset[str]:
    """Subscribed by name or by regular expression."""
    names = frozenset(member.subscribed_topics)
    matches = resolved.get(member.subscribed_regex) if member.subscribed_regex else None
    return names if matches is None else names | matches.topics


def subscribed_ids(
    member: ConsumerMember, resolved: Mapping[str, ResolvedRegex], image: MetadataImage
) -> frozenset[Uuid]:
    """The ids of the existing topics."""
    by_name = image.topics.by_name
    topics = (by_name.get(name) for name in subscribed_names(member, resolved))
    return frozenset(topic.topic_id for topic in topics if topic is not None)


def topics_of_members(members: Iterable[ConsumerMember], resolved: Mapping[str, ResolvedRegex]) -> set[str]:
    topics: set[str] = set()
    for member in members:
        topics.update(member.subscribed_topics)
        matches = resolved.get(member.subscribed_regex) if member.subscribed_regex else None
        if matches is not None:
            topics.update(matches.topics)
    return topics


def partition_racks(topic: TopicImage, cluster: ClusterImage) -> tuple[frozenset[str], ...]:
    """For each partition, the racks of its replicas."""
    racks = {broker_id: broker.rack for broker_id, broker in cluster.brokers.items() if broker.rack is not None}
    if not racks:
        return ()
    partitions = topic.partitions
    return tuple(
        frozenset(racks[replica] for replica in partitions[index].replicas if replica in racks)
        for index in range(len(partitions))
    )


class TopicHashes:
    """The hash of each topic, cached for all groups until the topic or a broker's rack changes."""

    __slots__ = ("_by_name", "_cluster")

    def __init__(self) -> None:
        self._by_name: dict[str, tuple[TopicImage, bytes]] = {}
        self._cluster: ClusterImage | None = None

    def get(self, name: str, image: MetadataImage) -> bytes | None:
        if self._cluster is not image.cluster:
            self._cluster = image.cluster
            self._by_name.clear()
        topic = image.topics.by_name.get(name)
        if topic is None:
            self._by_name.pop(name, None)
            return None
        cached = self._by_name.get(name)
        if cached is None or cached[0] is not topic:
            cached = self._by_name[name] = (topic, _topic_digest(topic, image.cluster))
        return cached[1]

    def forget_topics(self, names: Iterable[str]) -> None:
        for name in names:
            self._by_name.pop(name, None)

    def __len__(self) -> int:
        return len(self._by_name)


def metadata_hash(topics: Iterable[str], context: GroupContext) -> int:
    """A signed 64-bit number, 0 if none of the topics exists; the same as long as the topics do not change."""
    digests = [
        digest for name in sorted(topics) if (digest := context.topic_hashes.get(name, context.image)) is not None
    ]
    return _hash(b"".join(digests)) if digests else 0


def is_metadata_stale(group: ConsumerGroup, image: MetadataImage) -> bool:
    """True if any topics or brokers have changed since the group's hash was last computed."""
    has_new_metadata = group.seen_topics is not image.topics or group.seen_cluster is not image.cluster
    return has_new_metadata or group.epoch < group.seen_epoch


def _topic_digest(topic: TopicImage, cluster: ClusterImage) -> bytes:
    racks = [",".join(sorted(of_partition)) for of_partition in partition_racks(topic, cluster)]
    text = f"{topic.name}\0{len(topic.partitions)}\0" + "\0".join(racks)
    return _hash(topic.topic_id.bytes + text.encode()).to_bytes(8, "big", signed=True)


def _hash(data: bytes) -> int:
    """Two checksums side by side: fast, the same in every process, and only compared for equality."""
    value = crc32c(data) << 32 | crc32(data)
    return value - (1 << 64) if value >= 1 << 63 else value
