"""What Metadata says of a topic; for topics with many partitions it is kept for as long as it is true.

Every client that starts asks for its topics, and every few minutes again. For a thousand partitions it takes
milliseconds to put the answer together, and nobody else is served meanwhile. It changes only with the topic and with
the brokers, and images are never changed but replaced: an answer is good while both are the very same objects.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.cluster_view import NO_ID, endpoint_of, offline_replicas, reachable
from ottla.metadata.topic_names import is_internal
from ottla.model.errors import ErrorCode
from ottla.wire.messages.metadata import MetadataResponsePartition, MetadataResponseTopic

if TYPE_CHECKING:
    from ottla.metadata.image import ClusterImage, MetadataImage, PartitionImage, TopicImage
    from ottla.model.ids import Uuid

__all__ = ["TopicAnswers"]

# Answers with fewer partitions are put together in no time; one with more would take too much memory.
PARTITIONS_MIN = 32
PARTITIONS_MAX = 10_000
ANSWERS_MAX = 16


class TopicAnswers:
    """One for a broker. Nobody may change what it gives."""

    __slots__ = ("_kept",)

    def __init__(self) -> None:
        # By topic, listener and version; with what they were made of, the oldest first.
        self._kept: dict[tuple[Uuid, str, int], tuple[TopicImage, ClusterImage, MetadataResponseTopic]] = {}

    def of(self, topic: TopicImage, image: MetadataImage, listener: str, version: int) -> MetadataResponseTopic:
        if not PARTITIONS_MIN <= len(topic.partitions) <= PARTITIONS_MAX:
            return _topic_answer(topic, image, listener, version)
        key = (topic.topic_id, listener, version)
        kept = self._kept.get(key)
        if kept is not None and kept[0] is topic and kept[1] is image.cluster:
            return kept[2]
        answer = _topic_answer(topic, image, listener, version)
        self._kept.pop(key, None)
        if len(self._kept) >= ANSWERS_MAX:
            del self._kept[next(iter(self._kept))]
        self._kept[key] = (topic, image.cluster, answer)
        return answer


def _topic_answer(topic: TopicImage, image: MetadataImage, listener: str, version: int) -> MetadataResponseTopic:
    return MetadataResponseTopic(
        error_code=ErrorCode.NONE,
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=is_internal(topic.name),
        partitions=[
            _partition_answer(index, topic.partitions[index], image, listener, version)
            for index in sorted(topic.partitions)
        ],
    )


def _partition_answer(
    index: int, partition: PartitionImage, image: MetadataImage, listener: str, version: int
) -> MetadataResponsePartition:
    replicas, isr = list(partition.replicas), list(partition.isr)
    if version == 0:
        replicas, isr = reachable(image, replicas, listener), reachable(image, isr, listener)
    code = ErrorCode.NONE
    leader = partition.leader
    if endpoint_of(image, leader, listener) is None:
        is_registered = leader in image.brokers
        code = ErrorCode.LISTENER_NOT_FOUND if is_registered and version >= 6 else ErrorCode.LEADER_NOT_AVAILABLE
        leader = NO_ID
    elif len(replicas) < len(partition.replicas) or len(isr) < len(partition.isr):
        code = ErrorCode.REPLICA_NOT_AVAILABLE
    return MetadataResponsePartition(
        error_code=code,
        partition_index=index,
        leader_id=leader,
        leader_epoch=partition.leader_epoch,
        replica_nodes=replicas,
        isr_nodes=isr,
        offline_replicas=offline_replicas(image, partition, listener) if version >= 5 else [],
    )
