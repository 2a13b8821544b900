"""OffsetCommit: stores a group's committed offsets."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from ottla.coordinator.group.classic.group import ClassicGroup
from ottla.coordinator.group.classic.phases import Phase
from ottla.coordinator.group.classic.sessions import expect_heartbeat
from ottla.coordinator.group.consumer.group import ConsumerGroup
from ottla.coordinator.group.consumer.late_commit import check_late_commit
from ottla.coordinator.group.offsets.run import PARTITIONS_TOGETHER_MAX, CommitColumns, CommitRun
from ottla.coordinator.group.offsets.table import NO_EXPIRY
from ottla.decisions import Decision
from ottla.model.errors import ErrorCode, KafkaError
from ottla.model.ids import Uuid
from ottla.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from ottla.wire.messages.txn_offset_commit import TxnOffsetCommitResponsePartition
from ottla.wire.packed import PackedResponse

if TYPE_CHECKING:
    from ottla.coordinator.group.state import GroupShard
    from ottla.wire.messages.offset_commit import OffsetCommitRequestPartition, OffsetCommitRequestTopic
    from ottla.wire.messages.txn_offset_commit import TxnOffsetCommitRequestPartition, TxnOffsetCommitRequestTopic

__all__ = ["check_commit", "collect_offsets", "decide_commit", "partition_answers"]

DEFAULT_RETENTION_TIME = -1
TIMESTAMP_MAX = 2**63 - 1
FIRST_VERSION_OF_MEMBER_EPOCHS = 9

A = TypeVar("A", OffsetCommitResponsePartition, TxnOffsetCommitResponsePartition)


class Refusal(NamedTuple):
    """The places of a topic's partitions that are not committed, and the error for them."""

    places: Iterable[int]
    code: ErrorCode


NOTHING_REFUSED = Refusal((), ErrorCode.NONE)


def decide_commit(
    shard: GroupShard, request: OffsetCommitRequest, api_version: int, now_ms: int
) -> Decision[OffsetCommitResponse | PackedResponse]:
    """Topics have names here in all versions: the handler fills them in by id."""
    check_commit(shard, request, api_version)
    retention_ms = request.retention_time_ms
    expire_timestamp = NO_EXPIRY
    if retention_ms != DEFAULT_RETENTION_TIME:
        expire_timestamp = min(now_ms + retention_ms, TIMESTAMP_MAX)
    run, refused = collect_offsets(shard, request.group_id, request.topics, now_ms, expire_timestamp)
    if len(request.topics) == 1 and refused[0] is NOTHING_REFUSED and run.shape is not None:
        (topic,) = request.topics
        return Decision((), run.shape.good_answer(api_version, topic.name, topic.topic_id), run=run)
    topics = [
        OffsetCommitResponseTopic(
            name=topic.name,
            topic_id=topic.topic_id,
            partitions=partition_answers(OffsetCommitResponsePartition, topic.partitions, refusal),
        )
        for topic, refusal in zip(request.topics, refused, strict=True)
    ]
    return Decision((), OffsetCommitResponse(topics=topics), run=run if run.count else None)


def collect_offsets(
    shard: GroupShard,
    group_id: str,
    topics: Sequence[OffsetCommitRequestTopic] | Sequence[TxnOffsetCommitRequestTopic],
    now_ms: int,
    expire_timestamp_ms: int = NO_EXPIRY,
) -> tuple[CommitRun, list[Refusal]]:
    """The offsets of a commit, and for each topic what is refused.

    A topic that existed when the request came may be deleted by now: transactions are verified, and long requests are
    checked, over several turns of the loop. Its offsets are refused. They would have no id to tell them from those of
    a later topic of the same name.
    """
    by_name, shapes = shard.context.image.topics.by_name, shard.context.commit_shapes
    metadata_max = shard.config.offset_metadata_max_bytes
    run = CommitRun(group_id)
    refused: list[Refusal] = []
    for topic in topics:
        name, asked_id = topic.name, topic.topic_id
        known = by_name.get(name)
        if known is None or (asked_id != known.topic_id and asked_id != Uuid.ZERO):
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
            run.add(shape, piece, topic_id=known.topic_id, now_ms=now_ms, expire_timestamp_ms=expire_timestamp_ms)
    return run, refused


def partition_answers(
    answer: type[A],
    partitions: Sequence[OffsetCommitRequestPartition] | Sequence[TxnOffsetCommitRequestPartition],
    refusal: Refusal,
) -> list[A]:
    answers = [answer(partition_index=partition.partition_index) for partition in partitions]
    for place in refusal.places:
        answers[place].error_code = refusal.code
    return answers


def _without_large_metadata(columns: CommitColumns, metadata_max: int) -> tuple[CommitColumns, Refusal]:
    assert columns.metadata is not None
    places = {place for place, metadata in enumerate(columns.metadata) if len(metadata) > metadata_max}
    if not places:
        return columns, NOTHING_REFUSED
    kept = columns.only([place for place in range(len(columns.metadata)) if place not in places])
    return kept, Refusal(places, ErrorCode.OFFSET_METADATA_TOO_LARGE)


def check_commit(shard: GroupShard, request: OffsetCommitRequest, api_version: int) -> None:
    """Raises KafkaError unless the client may commit for the group; renews the session of a classic member."""
    group = shard.groups.get(request.group_id)
    generation = request.generation_id_or_member_epoch
    if group is None:
        # Without a generation the client is a consumer without a group protocol, or an administrator. Replaying the
        # first offset creates the group.
        if generation >= 0:
            is_new = api_version >= FIRST_VERSION_OF_MEMBER_EPOCHS
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND if is_new else ErrorCode.ILLEGAL_GENERATION)
        return
    group.check_offset_commit(
        member_id=request.member_id,
        instance_id=request.group_instance_id,
        generation=generation,
        is_transactional=False,
        api_version=api_version,
    )
    if isinstance(group, ConsumerGroup):
        check_late_commit(group, request.member_id, generation, request.topics)
        return
    if isinstance(group, ClassicGroup) and group.phase in (Phase.STABLE, Phase.PREPARING_REBALANCE):
        # A commit is a sign of life, like a heartbeat.
        member = group.members.get(request.member_id)
        if member is not None:
            expect_heartbeat(group, member)
