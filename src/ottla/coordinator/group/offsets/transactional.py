"""TxnOffsetCommit: offsets that become valid when their transaction commits (KIP-98)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.coordinator.group.consumer.group import ConsumerGroup
from ottla.coordinator.group.consumer.late_commit import check_late_commit
from ottla.coordinator.group.offsets.collect import collect_offsets
from ottla.decisions import Decision
from ottla.model.errors import ErrorCode, KafkaError
from ottla.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)

if TYPE_CHECKING:
    from ottla.coordinator.group.state import GroupShard

__all__ = ["decide_commit_in_transaction"]

# GROUP_ID_NOT_FOUND and STALE_MEMBER_EPOCH, which are ILLEGAL_GENERATION in older versions (KIP-1319).
FIRST_VERSION_OF_NEW_ERRORS = 6


def decide_commit_in_transaction(
    shard: GroupShard, request: TxnOffsetCommitRequest, api_version: int, now_ms: int
) -> Decision[TxnOffsetCommitResponse]:
    """The offsets are pending in the table until the transaction's marker is written.

    Topics have names here in all versions: the handler fills them in.
    """
    _check(shard, request, api_version)
    run, refused = collect_offsets(shard, request.group_id, request.topics, now_ms)
    topics = [
        TxnOffsetCommitResponseTopic(
            name=topic.name,
            topic_id=topic.topic_id,
            partitions=refusal.answers(TxnOffsetCommitResponsePartition, topic.partitions),
        )
        for topic, refusal in zip(request.topics, refused, strict=True)
    ]
    return Decision((), TxnOffsetCommitResponse(topics=topics), run=run if run.count else None)


def _check(shard: GroupShard, request: TxnOffsetCommitRequest, api_version: int) -> None:
    group = shard.groups.get(request.group_id)
    generation = request.generation_id_or_member_epoch
    names_errors = api_version >= FIRST_VERSION_OF_NEW_ERRORS
    if group is None:
        # Without a generation the producer commits for a group without members. Replaying the first offset creates it.
        if generation >= 0:
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND if names_errors else ErrorCode.ILLEGAL_GENERATION)
        return
    try:
        group.check_offset_commit(
            member_id=request.member_id,
            instance_id=request.group_instance_id,
            generation=generation,
            is_transactional=True,
            api_version=api_version,
        )
        if isinstance(group, ConsumerGroup):
            check_late_commit(group, request.member_id, generation, request.topics)
    except KafkaError as error:
        if error.code is ErrorCode.STALE_MEMBER_EPOCH and not names_errors:
            # Producers of these versions support only the older error.
            raise KafkaError(ErrorCode.ILLEGAL_GENERATION, error.message) from None
        raise
