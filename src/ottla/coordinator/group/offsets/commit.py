"""OffsetCommit: where a group stands, written down for whoever goes on."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from ottla.coordinator.group.classic.group import ClassicGroup
from ottla.coordinator.group.classic.phases import Phase
from ottla.coordinator.group.classic.rebalance import expect_heartbeat
from ottla.coordinator.group.consumer.group import ConsumerGroup
from ottla.coordinator.group.consumer.late_commit import check_late_commit
from ottla.coordinator.group.offsets.run import CommitRun, CommittedTopic
from ottla.coordinator.group.offsets.table import NO_EXPIRY
from ottla.coordinator.runtime import Decision
from ottla.model.errors import ErrorCode, KafkaError
from ottla.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)

if TYPE_CHECKING:
    from ottla.coordinator.group.state import GroupShard

__all__ = ["decide_commit"]

DEFAULT_RETENTION_TIME = -1
FIRST_VERSION_OF_MEMBER_EPOCHS = 9


def decide_commit(
    shard: GroupShard, request: OffsetCommitRequest, api_version: int, now_ms: int
) -> Decision[OffsetCommitResponse]:
    """Topics have names here, whatever the version: the handler knows them by their ids."""
    _check(shard, request, api_version)
    metadata_max = shard.config.offset_metadata_max_bytes
    retention_ms = request.retention_time_ms
    expire_timestamp = NO_EXPIRY if retention_ms == DEFAULT_RETENTION_TIME else now_ms + retention_ms
    group_id = request.group_id
    run = CommitRun(group_id)
    topics: list[OffsetCommitResponseTopic] = []
    for topic in request.topics:
        name, topic_id = topic.name, topic.topic_id
        # Written down whatever the version, so that an offset never passes to a later topic of the same name.
        known = shard.context.image.topics.by_name.get(name)
        stored_id = topic_id if known is None else known.topic_id
        committed_topic = CommittedTopic(
            group_id, name, topic_id=stored_id, now_ms=now_ms, expire_timestamp_ms=expire_timestamp
        )
        accepted: list[OffsetCommitRequestPartition] = []
        answers: list[OffsetCommitResponsePartition] = []
        for partition in topic.partitions:
            metadata = partition.committed_metadata
            if metadata and len(metadata) > metadata_max:
                answers.append(_too_large(partition.partition_index))
                continue
            accepted.append(partition)
            answers.append(_good_answer(partition.partition_index))
        run.add(committed_topic, accepted)
        topics.append(OffsetCommitResponseTopic(name=name, topic_id=topic_id, partitions=answers))
    return Decision((), OffsetCommitResponse(topics=topics), run=run if run.contents else None)


@lru_cache(maxsize=4096)
def _good_answer(partition: int) -> OffsetCommitResponsePartition:
    """Nearly every answer is this one. It is shared, so nobody may change it."""
    return OffsetCommitResponsePartition(partition_index=partition)


def _too_large(partition: int) -> OffsetCommitResponsePartition:
    return OffsetCommitResponsePartition(partition_index=partition, error_code=ErrorCode.OFFSET_METADATA_TOO_LARGE)


def _check(shard: GroupShard, request: OffsetCommitRequest, api_version: int) -> None:
    group = shard.groups.get(request.group_id)
    generation = request.generation_id_or_member_epoch
    if group is None:
        # Without a generation it is a consumer that assigns its partitions itself, or an administrator: replaying the
        # first offset makes the group.
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
        # A member that commits is alive.
        member = group.members.get(request.member_id)
        if member is not None:
            expect_heartbeat(group, member)
