"""The changes that metadata records make to topics and partitions.

The partitions of a topic are copied once per delta, however many of them change. Creating a topic with a thousand
partitions, or moving a thousand leaders, therefore costs one pass. Of a large topic only chunks are copied
(`partition_map`). The changes of a snapshot are applied in slices.
"""

from __future__ import annotations

from collections.abc import Generator
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

from ottla.metadata.image import PartitionImage, TopicImage, TopicsImage
from ottla.metadata.partition_map import PartitionMap, PartitionMapBuilder, frozen_partitions
from ottla.model.ids import Uuid

if TYPE_CHECKING:
    from ottla.wire.messages import metadata_records as r

__all__ = ["PARTITIONS_PER_SLICE", "CorruptMetadataError", "TopicDelta", "TopicsDelta", "collision_key"]

NO_LEADER_CHANGE = -2

# Comparing this many partitions, or building their topics, takes a few milliseconds. A topic takes as long as ten.
PARTITIONS_PER_SLICE = 10_000
PARTITIONS_PER_TOPIC = 10

# Makes a partition of all its fields, in the order of the class: a third of the time of a call with names, which a
# decision on thousands of partitions would mostly consist of.
_new_partition = partial(tuple.__new__, PartitionImage)

# Distinct tuples of replicas, in-sync sets and directories.
_SHARED_MAX = 1 << 14


class CorruptMetadataError(Exception):
    """The metadata log cannot be read, or it contains a record that contradicts the records before it."""


def collision_key(name: str) -> str | None:
    """The name with every '.' replaced by '_', as metrics systems do; None if the name contains neither."""
    if "." in name:
        return name.replace(".", "_")
    return name if "_" in name else None


class TopicDelta:
    """The changes of a topic: its previous image (None for a new topic) and the changed partitions."""

    __slots__ = ("_partitions", "before", "changed", "name", "topic_id")

    def __init__(self, name: str, topic_id: Uuid, before: TopicImage | None) -> None:
        self.name = name
        self.topic_id = topic_id
        self.before = before
        # Partitions that this delta created or changed, with their new state.
        self.changed: dict[int, PartitionImage] = {}
        partitions = {} if before is None else before.partitions
        self._partitions: dict[int, PartitionImage] | PartitionMapBuilder[PartitionImage] = (
            partitions.builder() if isinstance(partitions, PartitionMap) else dict(partitions)
        )

    @property
    def created(self) -> bool:
        return self.before is None

    def partition(self, index: int) -> PartitionImage | None:
        return self._partitions.get(index)

    def partition_before(self, index: int) -> PartitionImage | None:
        return None if self.before is None else self.before.partitions.get(index)

    def set_partition(self, index: int, partition: PartitionImage) -> None:
        self._partitions[index] = partition
        self.changed[index] = partition

    def apply(self) -> TopicImage:
        partitions = self._partitions
        frozen = frozen_partitions(partitions) if isinstance(partitions, dict) else partitions.build()
        return TopicImage(self.name, self.topic_id, frozen)


class TopicsDelta:
    """`changed` has the created and changed topics that still exist; `deleted` has the topics that existed before."""

    __slots__ = ("before", "changed", "deleted")

    def __init__(self, before: TopicsImage) -> None:
        self.before = before
        self.changed: dict[Uuid, TopicDelta] = {}
        self.deleted: dict[Uuid, TopicImage] = {}

    def topic(self, topic_id: Uuid, record_name: str) -> TopicDelta:
        delta = self.changed.get(topic_id)
        if delta is None:
            image = None if topic_id in self.deleted else self.before.by_id.get(topic_id)
            if image is None:
                raise CorruptMetadataError(f"{record_name} names topic id {topic_id}, which does not exist")
            delta = self.changed[topic_id] = TopicDelta(image.name, topic_id, image)
        return delta

    def replay_topic(self, record: r.TopicRecord) -> None:
        self.changed[record.topic_id] = TopicDelta(record.name, record.topic_id, None)

    def replay_partition(self, record: r.PartitionRecord) -> None:
        self.topic(record.topic_id, "PartitionRecord").set_partition(
            record.partition_id,
            _new_partition(
                (
                    _tuple(record.replicas),
                    _tuple(record.isr),
                    record.leader,
                    record.leader_epoch,
                    record.partition_epoch,
                    _tuple(record.directories),
                    record.leader_recovery_state,
                    _tuple(record.adding_replicas) if record.adding_replicas else (),
                    _tuple(record.removing_replicas) if record.removing_replicas else (),
                    _tuple(record.eligible_leader_replicas) if record.eligible_leader_replicas else (),
                    _tuple(record.last_known_elr) if record.last_known_elr else (),
                )
            ),
        )

    def replay_partition_change(self, record: r.PartitionChangeRecord) -> None:
        topic = self.topic(record.topic_id, "PartitionChangeRecord")
        partition = topic.partition(record.partition_id)
        if partition is None:
            raise CorruptMetadataError(
                f"PartitionChangeRecord names partition {record.partition_id} of {topic.name}, which does not exist"
            )
        topic.set_partition(record.partition_id, merge_partition_change(partition, record))

    def replay_remove_topic(self, record: r.RemoveTopicRecord) -> TopicImage:
        delta = self.topic(record.topic_id, "RemoveTopicRecord")
        del self.changed[record.topic_id]
        if delta.before is not None:
            self.deleted[record.topic_id] = delta.before
        return delta.apply()

    def replay_clear_elr(self, record: r.ClearElrRecord) -> None:
        """Clears the eligible leader replicas of one topic, or of all topics if the name is empty (KIP-966)."""
        created = {delta.name: topic_id for topic_id, delta in self.changed.items()}
        if record.topic_name:
            image = self.before.by_name.get(record.topic_name)
            topic_id = created.get(record.topic_name) or (image.topic_id if image is not None else None)
            if topic_id is None:
                raise CorruptMetadataError(f"ClearElrRecord names topic {record.topic_name!r}, which does not exist")
            topic_ids = {topic_id}
        else:
            topic_ids = {identity for identity in self.before.by_id if identity not in self.deleted} | set(self.changed)
        for identity in topic_ids:
            self._clear_elr(identity)

    def apply(self) -> TopicsImage:
        if not self.changed and not self.deleted:
            return self.before
        topics = _NextTopics(self.before)
        for topic_id, image in self.deleted.items():
            topics.remove(topic_id, image)
        for topic_id, delta in self.changed.items():
            topics.put(topic_id, delta)
        return topics.build()

    def applying(self) -> Generator[None, None, TopicsImage]:
        """`apply` that pauses after every slice. No record may be replayed meanwhile."""
        topics = _NextTopics(self.before)
        work = 0
        for topic_id, image in self.deleted.items():
            topics.remove(topic_id, image)
            work += PARTITIONS_PER_TOPIC
            if work >= PARTITIONS_PER_SLICE:
                work = 0
                yield
        for topic_id, delta in self.changed.items():
            topics.put(topic_id, delta)
            work += PARTITIONS_PER_TOPIC + len(delta.changed)
            if work >= PARTITIONS_PER_SLICE:
                work = 0
                yield
        return topics.build()

    def _clear_elr(self, topic_id: Uuid) -> None:
        delta = self.topic(topic_id, "ClearElrRecord")
        for index, partition in delta.apply().partitions.items():
            if partition.elr or partition.last_known_elr:
                delta.set_partition(
                    index, partition._replace(elr=(), last_known_elr=(), partition_epoch=partition.partition_epoch + 1)
                )


class _NextTopics:
    """The topics of an image while the changes of a delta are applied to them."""

    __slots__ = ("_by_collision_key", "_by_id", "_by_name")

    def __init__(self, before: TopicsImage) -> None:
        self._by_name, self._by_id = before.by_name.builder(), before.by_id.builder()
        self._by_collision_key = before.by_collision_key.builder()

    def remove(self, topic_id: Uuid, image: TopicImage) -> None:
        self._by_name.remove(image.name)
        self._by_id.remove(topic_id)
        key = collision_key(image.name)
        if key is not None:
            remaining = tuple(name for name in self._by_collision_key.get(key) or () if name != image.name)
            if remaining:
                self._by_collision_key[key] = remaining
            else:
                self._by_collision_key.remove(key)

    def put(self, topic_id: Uuid, delta: TopicDelta) -> None:
        self._by_id[topic_id] = self._by_name[delta.name] = delta.apply()
        key = collision_key(delta.name) if delta.created else None
        if key is not None:
            self._by_collision_key[key] = (*(self._by_collision_key.get(key) or ()), delta.name)

    def build(self) -> TopicsImage:
        return TopicsImage(
            by_name=self._by_name.build(), by_id=self._by_id.build(), by_collision_key=self._by_collision_key.build()
        )


def merge_partition_change(partition: PartitionImage, record: r.PartitionChangeRecord) -> PartitionImage:
    """The partition after a change record. Absent fields keep their values; every change raises the partition epoch."""
    leader, leader_epoch = partition.leader, partition.leader_epoch
    if record.leader != NO_LEADER_CHANGE:
        # A record that names a leader raises the leader epoch, even if the leader stays the same.
        leader, leader_epoch = record.leader, leader_epoch + 1
    replicas = partition.replicas if record.replicas is None else _shared(tuple(record.replicas))
    return _new_partition(
        (
            replicas,
            partition.isr if record.isr is None else _shared(tuple(record.isr)),
            leader,
            leader_epoch,
            partition.partition_epoch + 1,
            partition.directories if record.directories is None else _shared(tuple(record.directories)),
            partition.leader_recovery_state if record.leader_recovery_state < 0 else record.leader_recovery_state,
            partition.adding_replicas if record.adding_replicas is None else tuple(record.adding_replicas),
            partition.removing_replicas if record.removing_replicas is None else tuple(record.removing_replicas),
            partition.elr if record.eligible_leader_replicas is None else tuple(record.eligible_leader_replicas),
            partition.last_known_elr if record.last_known_elr is None else tuple(record.last_known_elr),
        )
    )


def _tuple(values: list[Any] | None) -> tuple[Any, ...]:
    """The list as a tuple, one object for equal lists."""
    return _shared(tuple(values)) if values else ()


@lru_cache(maxsize=_SHARED_MAX)
def _shared(values: tuple[Any, ...]) -> tuple[Any, ...]:
    """The same object for equal tuples: a million partitions have few distinct replica sets and directories."""
    return values
