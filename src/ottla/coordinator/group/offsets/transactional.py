"""TxnOffsetCommit: offsets that become valid when their transaction commits (KIP-98)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.coordinator.group.consumer.group import ConsumerGroup
from ottla.coordinator.group.consumer.late_commit import check_late_commit
from ottla.coordinator.runtime import CoordinatorRecord
from ottla.decisions import Decision
from ottla.model.errors import ErrorCode, KafkaError
from ottla.model.ids import Uuid
from ottla.wire.messages.group_records import OffsetCommitKey, OffsetCommitValue
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
    metadata_max = shard.config.offset_metadata_max_bytes
    records: list[CoordinatorRecord] = []
    topics: list[TxnOffsetCommitResponseTopic] = []
    for topic in request.topics:
        known = shard.context.image.topics.by_name.get(topic.name)
        answers: list[TxnOffsetCommitResponsePartition] = []
        for partition in topic.partitions:
            index = partition.partition_index
            metadata = partition.committed_metadata or ""
            answer = TxnOffsetCommitResponsePartition(partition_index=index)
            answers.append(answer)
            if len(metadata) > metadata_max:
                answer.error_code = ErrorCode.OFFSET_METADATA_TOO_LARGE
                continue
            value = OffsetCommitValue(
                offset=partition.committed_offset,
                leader_epoch=partition.committed_leader_epoch,
                metadata=metadata,
                commit_timestamp=now_ms,
                topic_id=Uuid.ZERO if known is None else known.topic_id,
            )
            records.append((OffsetCommitKey(group=request.group_id, topic=topic.name, partition=index), value))
        topics.append(TxnOffsetCommitResponseTopic(name=topic.name, topic_id=topic.topic_id, partitions=answers))
    return Decision(records, TxnOffsetCommitResponse(topics=topics))


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
        if isinstance(group, ConsumerGroup) and generation >= 0:
            check_late_commit(group, request.member_id, generation, request.topics)
    except KafkaError as error:
        if error.code is ErrorCode.STALE_MEMBER_EPOCH and not names_errors:
            # Producers of these versions know only the older name of this error.
            raise KafkaError(ErrorCode.ILLEGAL_GENERATION, error.message) from None
        raise
