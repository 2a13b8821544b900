"""OffsetCommit: stores a group's committed offsets."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.coordinator.group.classic.group import ClassicGroup
from ottla.coordinator.group.classic.phases import Phase
from ottla.coordinator.group.classic.sessions import expect_heartbeat
from ottla.coordinator.group.consumer.group import ConsumerGroup
from ottla.coordinator.group.consumer.late_commit import check_late_commit
from ottla.coordinator.group.offsets.collect import NOTHING_REFUSED, collect_offsets
from ottla.coordinator.group.offsets.table import NO_EXPIRY
from ottla.decisions import Decision
from ottla.model.errors import ErrorCode, KafkaError
from ottla.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from ottla.wire.packed import PackedResponse

if TYPE_CHECKING:
    from ottla.coordinator.group.state import GroupShard

__all__ = ["check_commit", "decide_commit"]

DEFAULT_RETENTION_TIME = -1
TIMESTAMP_MAX = 2**63 - 1
FIRST_VERSION_OF_MEMBER_EPOCHS = 9


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
            partitions=refusal.answers(OffsetCommitResponsePartition, topic.partitions),
        )
        for topic, refusal in zip(request.topics, refused, strict=True)
    ]
    return Decision((), OffsetCommitResponse(topics=topics), run=run if run.count else None)


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
