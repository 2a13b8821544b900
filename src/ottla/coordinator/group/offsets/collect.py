"""The offsets that a commit stores, and the partitions that it refuses: the same with and without a transaction."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from ottla.coordinator.group.offsets.run import PARTITIONS_TOGETHER_MAX, CommitColumns, CommitRun
from ottla.coordinator.group.offsets.table import NO_EXPIRY
from ottla.model.errors import ErrorCode
from ottla.model.ids import Uuid
from ottla.wire.messages.offset_commit import OffsetCommitResponsePartition
from ottla.wire.messages.txn_offset_commit import TxnOffsetCommitResponsePartition

if TYPE_CHECKING:
    from ottla.coordinator.group.state import GroupShard
    from ottla.wire.messages.offset_commit import OffsetCommitRequestPartition, OffsetCommitRequestTopic
    from ottla.wire.messages.txn_offset_commit import TxnOffsetCommitRequestPartition, TxnOffsetCommitRequestTopic

__all__ = ["NOTHING_REFUSED", "Refusal", "collect_offsets"]

A = TypeVar("A", OffsetCommitResponsePartition, TxnOffsetCommitResponsePartition)


class Refusal(NamedTuple):
    """The places of a topic's partitions that are not committed, and the error for them."""

    places: Iterable[int]
    code: ErrorCode

    def answers(
        self,
        answer: type[A],
        partitions: Sequence[OffsetCommitRequestPartition] | Sequence[TxnOffsetCommitRequestPartition],
    ) -> list[A]:
        answers = [answer(partition_index=partition.partition_index) for partition in partitions]
        for place in self.places:
            answers[place].error_code = self.code
        return answers


NOTHING_REFUSED = Refusal((), ErrorCode.NONE)


def collect_offsets(
    shard: GroupShard,
    group_id: str,
    topics: Sequence[OffsetCommitRequestTopic] | Sequence[TxnOffsetCommitRequestTopic],
    now_ms: int,
    expire_timestamp_ms: int = NO_EXPIRY,
) -> tuple[CommitRun, list[Refusal]]:
    """The offsets of a commit, and the refused partitions of each topic.

    A topic that existed when the request came may be deleted by now: transactions are verified, and long requests are
    checked, over several turns of the loop. Its offsets are refused, because without an id they could not be
    distinguished from offsets of a later topic of the same name.
    """
    by_name, shapes = shard.context.image.topics.by_name, shard.context.commit_shapes
    metadata_max = shard.config.offset_metadata_max_bytes
    run = CommitRun(group_id)
    refused: list[Refusal] = []
    for topic in topics:
        name, asked_id = topic.name, topic.topic_id
        topic_image = by_name.get(name)
        if topic_image is None or (asked_id != topic_image.topic_id and asked_id != Uuid.ZERO):
            code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if asked_id == Uuid.ZERO else ErrorCode.UNKNOWN_TOPIC_ID
            refused.append(Refusal(range(len(topic.partitions)), code))
            continue
        columns = CommitColumns.of(topic.partitions)
        refusal = NOTHING_REFUSED
        if columns.metadata is not None:
            columns, refusal = _without_large_metadata(columns, metadata_max)
        refused.append(refusal)
        count = len(columns.indexes)
        for start in range(0, count, PARTITIONS_TOGETHER_MAX):
            piece = columns
            if count > PARTITIONS_TOGETHER_MAX:
                piece = columns.only(range(start, min(start + PARTITIONS_TOGETHER_MAX, count)))
            shape = shapes.of(group_id, name, piece.indexes)
            # The id is stored in all versions.
            run.add(shape, piece, topic_id=topic_image.topic_id, now_ms=now_ms, expire_timestamp_ms=expire_timestamp_ms)
    return run, refused


def _without_large_metadata(columns: CommitColumns, metadata_max: int) -> tuple[CommitColumns, Refusal]:
    assert columns.metadata is not None
    places = {place for place, metadata in enumerate(columns.metadata) if len(metadata) > metadata_max}
    if not places:
        return columns, NOTHING_REFUSED
    accepted = columns.only([place for place in range(len(columns.metadata)) if place not in places])
    return accepted, Refusal(places, ErrorCode.OFFSET_METADATA_TOO_LARGE)
