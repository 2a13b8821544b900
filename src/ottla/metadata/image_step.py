"""The step between two images without the records between them.

A node that is behind the start of the controller's log gets a snapshot. Its publishers are called as if the records had
been replayed: a difference is a change, and a missing entry was deleted.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from ottla.metadata.delta import ENTRIES_PER_SLICE, MetadataDelta
from ottla.metadata.topics_delta import PARTITIONS_PER_SLICE, PARTITIONS_PER_TOPIC, TopicDelta
from ottla.model.slices import in_portions

if TYPE_CHECKING:
    from ottla.metadata.image import MetadataImage

__all__ = ["step_between"]

K = TypeVar("K")


def step_between(before: MetadataImage, after: MetadataImage) -> Generator[None, None, MetadataDelta]:
    """The changes between two images, for publishers that get `after`. Pauses after every slice."""
    delta = MetadataDelta(before)
    for portion in in_portions(before.topics.by_id.items(), PARTITIONS_PER_SLICE // PARTITIONS_PER_TOPIC):
        for topic_id, topic in portion:
            if topic_id not in after.topics.by_id:
                delta.topics.deleted[topic_id] = topic
        yield
    compared = 0
    for topic_id, topic in after.topics.by_id.items():
        compared += PARTITIONS_PER_TOPIC
        topic_before = before.topics.by_id.get(topic_id)
        if topic_before is not topic:
            step = TopicDelta(topic.name, topic_id, topic_before)
            for index, partition in topic.partitions.items():
                if step.partition_before(index) != partition:
                    step.set_partition(index, partition)
                compared += 1
                if compared >= PARTITIONS_PER_SLICE:
                    compared = 0
                    yield
            if step.changed:
                delta.topics.changed[topic_id] = step
        if compared >= PARTITIONS_PER_SLICE:
            compared = 0
            yield
    delta.brokers_changed |= yield from _different(before.brokers, after.brokers)
    delta.configs_changed |= yield from _different(before.configs.by_resource, after.configs.by_resource)
    delta.features_changed |= yield from _different(before.features.finalized, after.features.finalized)
    delta.acls_changed |= yield from _different(before.acls.by_id, after.acls.by_id)
    delta.quotas_changed |= yield from _different(before.client_quotas.by_entity, after.client_quotas.by_entity)
    return delta


def _different(before: Mapping[K, Any], after: Mapping[K, Any]) -> Generator[None, None, set[K]]:
    """The keys with different values, and the keys of one map only."""
    different: set[K] = set()
    for one_side, other_side in ((after, before), (before, after)):
        for portion in in_portions(one_side, ENTRIES_PER_SLICE):
            different.update(key for key in portion if one_side[key] != other_side.get(key))
            yield
    return different
