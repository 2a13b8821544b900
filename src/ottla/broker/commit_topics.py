"""The topics of a commit request, OffsetCommit or TxnOffsetCommit: by name, and in newer versions by id."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from ottla.broker.authorization import Operation, ResourceType
from ottla.model.errors import ErrorCode
from ottla.wire.messages.offset_commit import OffsetCommitRequestTopic
from ottla.wire.messages.txn_offset_commit import TxnOffsetCommitRequestTopic
from ottla.wire.uniform import UniformArray

if TYPE_CHECKING:
    from ottla.broker.context import RequestContext
    from ottla.metadata.image import TopicImage, TopicsImage

__all__ = ["CheckedTopics"]

# Topics of a long request that are checked in one turn of the loop, at two microseconds each.
TOPICS_PER_TURN = 1_000

T = TypeVar("T", OffsetCommitRequestTopic, TxnOffsetCommitRequestTopic)
A = TypeVar("A")


class CheckedTopics(Generic[T, A]):
    """The topics of a request that may be committed, and the answers for the refused topics."""

    __slots__ = ("_by_id", "_context", "_image", "_refuse", "refused", "valid")

    def __init__(
        self,
        image: TopicsImage,
        context: RequestContext,
        refuse: Callable[[T, Sequence[Any], ErrorCode], A],
        *,
        by_id: bool,
    ) -> None:
        self._image = image
        self._context = context
        # The answer for some partitions of a topic, all with one error.
        self._refuse: Callable[[T, Sequence[Any], ErrorCode], A] = refuse
        self._by_id = by_id
        # The valid topics, without partitions that do not exist.
        self.valid: list[T] = []
        self.refused: list[A] = []

    def check(self, topics: Sequence[T]) -> None:
        for topic in topics:
            readable = self._readable(topic)
            if isinstance(readable, ErrorCode):
                self.refused.append(self._refuse(topic, topic.partitions, readable))
                continue
            partitions = readable.partitions
            if not _are_among(topic.partitions, len(partitions)):
                unknown = [partition for partition in topic.partitions if partition.partition_index not in partitions]
                self.refused.append(self._refuse(topic, unknown, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
                existing: list[Any] = [
                    partition for partition in topic.partitions if partition.partition_index in partitions
                ]
                topic.partitions = existing
            if topic.partitions:
                self.valid.append(topic)

    def check_in_slices(self, topics: Sequence[T]) -> Generator[None, None, None]:
        for start in range(0, len(topics), TOPICS_PER_TURN):
            self.check(topics[start : start + TOPICS_PER_TURN])
            yield

    def _readable(self, topic: T) -> TopicImage | ErrorCode:
        """The topic, or the error for it. Fills in the name where the request has an id."""
        if self._by_id:
            topic_image = self._image.by_id.get(topic.topic_id)
            if topic_image is None:
                return ErrorCode.UNKNOWN_TOPIC_ID
            topic.name = topic_image.name
        else:
            topic_image = self._image.by_name.get(topic.name)
        if not self._context.allows(Operation.READ, ResourceType.TOPIC, topic.name):
            return ErrorCode.TOPIC_AUTHORIZATION_FAILED
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if topic_image is None else topic_image


def _are_among(partitions: Sequence[Any], count: int) -> bool:
    """True if a topic with `count` partitions has all these partitions. Partition numbers have no gaps."""
    if type(partitions) is UniformArray:
        indexes: tuple[int, ...] = partitions.column("partition_index")
    else:
        indexes = tuple([partition.partition_index for partition in partitions])
    return not indexes or (min(indexes) >= 0 and max(indexes) < count)
