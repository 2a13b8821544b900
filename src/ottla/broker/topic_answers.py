"""The part of a Metadata answer for one topic. Answers for topics with many partitions are cached while they are valid.

Every client asks for its topics when it starts, and again every few minutes. The answer for a thousand partitions takes
milliseconds to build, in which no other client is served. It depends only on the topic and on the brokers. Images are
never changed but replaced, so a cached answer is valid while both are the same objects. The answer for more partitions
is built in several turns of the loop (`TopicAnswers.steps`).
"""

from __future__ import annotations

from collections.abc import Generator
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from ottla.broker.cluster_view import NO_ID, endpoint_of, offline_replicas, reachable
from ottla.metadata.topic_names import is_internal
from ottla.model.errors import ErrorCode
from ottla.wire.messages.metadata import MetadataResponsePartition, MetadataResponseTopic

if TYPE_CHECKING:
    from ottla.metadata.image import ClusterImage, MetadataImage, PartitionImage, TopicImage
    from ottla.model.ids import Uuid

__all__ = ["TopicAnswers"]

# Smaller answers are built fast enough without a cache; larger answers would take too much memory.
PARTITIONS_MIN = 32
PARTITIONS_MAX = 10_000
ANSWERS_MAX = 16
# The partitions that are built without a pause, in about a millisecond.
PARTITIONS_PER_STEP = 500


class TopicAnswers:
    """The cached answers of a broker. Callers must not change an answer."""

    __slots__ = ("_cached",)

    def __init__(self) -> None:
        # Answers by topic, listener and version, with the images they were built from; the oldest answer comes first.
        self._cached: dict[tuple[Uuid, str, int], tuple[TopicImage, ClusterImage, MetadataResponseTopic]] = {}

    def steps(
        self, topic: TopicImage, image: MetadataImage, listener: str, version: int
    ) -> Generator[None, None, MetadataResponseTopic]:
        """The answer, with a pause after every `PARTITIONS_PER_STEP` partitions that have to be built."""
        if not PARTITIONS_MIN <= len(topic.partitions) <= PARTITIONS_MAX:
            return (yield from _topic_answer(topic, image, listener, version))
        key = (topic.topic_id, listener, version)
        cached = self._cached.get(key)
        if cached is not None and cached[0] is topic and cached[1] is image.cluster:
            return cached[2]
        answer = yield from _topic_answer(topic, image, listener, version)
        self._cached.pop(key, None)
        if len(self._cached) >= ANSWERS_MAX:
            del self._cached[next(iter(self._cached))]
        self._cached[key] = (topic, image.cluster, answer)
        return answer


def _topic_answer(
    topic: TopicImage, image: MetadataImage, listener: str, version: int
) -> Generator[None, None, MetadataResponseTopic]:
    partitions: list[MetadataResponsePartition] = []
    # Thousands of partitions of a topic differ in nothing but their number and epoch. Equal values are mostly one
    # object, which the image keeps alive.
    alike: dict[tuple[int, int, int, int], _State] = {}
    indexes = iter(sorted(topic.partitions))
    while True:
        for index in islice(indexes, PARTITIONS_PER_STEP):
            partition = topic.partitions[index]
            key = (partition.leader, id(partition.replicas), id(partition.isr), id(partition.directories))
            state = alike.get(key)
            if state is None:
                state = alike[key] = _state(partition, image, listener, version)
            partitions.append(
                MetadataResponsePartition(
                    error_code=state.error_code,
                    partition_index=index,
                    leader_id=state.leader,
                    leader_epoch=partition.leader_epoch,
                    replica_nodes=state.replicas,
                    isr_nodes=state.isr,
                    offline_replicas=state.offline,
                )
            )
        if len(partitions) == len(topic.partitions):
            break
        yield
    return MetadataResponseTopic(
        error_code=ErrorCode.NONE,
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=is_internal(topic.name),
        partitions=partitions,
    )


class _State(NamedTuple):
    """A partition as a client of one listener sees it."""

    error_code: ErrorCode
    leader: int
    replicas: list[int]
    isr: list[int]
    offline: list[int]


def _state(partition: PartitionImage, image: MetadataImage, listener: str, version: int) -> _State:
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
    offline = offline_replicas(image, partition, listener) if version >= 5 else []
    return _State(code, leader, replicas, isr, offline)
