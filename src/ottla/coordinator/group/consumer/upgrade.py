"""A classic group becomes a consumer group when the first member of the new protocol joins it (KIP-848).

Its members stay: each becomes a member of the consumer group that uses the classic protocol, with the generation as its
epoch and the last assignment as both its assignment and its target. Requests that wait for a rebalance get
REBALANCE_IN_PROGRESS.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from ottla.coordinator.group.classic.group import ClassicGroup
from ottla.coordinator.group.classic.member import ClassicMember
from ottla.coordinator.group.classic.soft import AnswerList
from ottla.coordinator.group.consumer.embedded import CustomAssignor, read_assignment, read_subscription
from ottla.coordinator.group.consumer.group import ConsumerGroup
from ottla.coordinator.group.consumer.member import ClassicSide, ConsumerMember
from ottla.coordinator.group.consumer.migration_policy import allows_upgrade
from ottla.coordinator.group.consumer.records import (
    assignment_epoch_record,
    current_assignment_record,
    epoch_record,
    member_record,
    target_record,
)
from ottla.coordinator.group.consumer.sessions import expect_heartbeat
from ottla.coordinator.group.consumer.subscription import metadata_hash, topics_of_members
from ottla.coordinator.runtime import CoordinatorRecord
from ottla.model.errors import ErrorCode, KafkaError
from ottla.wire.codec import MalformedMessage

if TYPE_CHECKING:
    from ottla.coordinator.group.state import GroupShard

__all__ = ["upgrade"]

logger = logging.getLogger("ottla.coordinator.group.consumer")


def upgrade(
    shard: GroupShard, group: ClassicGroup, records: list[CoordinatorRecord], answers: AnswerList
) -> ConsumerGroup:
    """A draft of the consumer group; replaying the records makes the group that stays."""
    _check(shard, group)
    draft = ConsumerGroup(group.group_id, shard)
    draft.epoch = draft.assignment_epoch = group.generation
    try:
        members = [_converted(shard, group, member) for member in group.members.values()]
    except MalformedMessage as error:
        logger.warning("group %s cannot be upgraded: %s", group.group_id, error)
        raise _refusal(group, "the metadata of its members cannot be read") from error
    except CustomAssignor as error:
        # Kafka's clients and tests depend on this sentence.
        raise KafkaError(
            ErrorCode.GROUP_ID_NOT_FOUND,
            f"Cannot upgrade classic group {group.group_id} to consumer group because an unsupported custom assignor "
            "is in use. Please refer to the documentation or switch to a default assignor before re-attempting the "
            "upgrade.",
        ) from error
    answers += group.soft.answers_to(group.members, ErrorCode.REBALANCE_IN_PROGRESS)
    group_id = group.group_id
    records += group.tombstones()
    for member in members:
        draft.put_member(member)
        draft.targets[member.member_id] = {
            topic_id: frozenset(partitions) for topic_id, partitions in member.assigned.items()
        }
        records.append(member_record(group_id, member))
    draft.metadata_hash = metadata_hash(topics_of_members(members, {}), shard.context)
    records.append(epoch_record(group_id, draft.epoch, draft.metadata_hash))
    records += [target_record(group_id, member_id, target) for member_id, target in draft.targets.items()]
    records.append(assignment_epoch_record(group_id, draft.assignment_epoch, 0))
    for member in members:
        records.append(current_assignment_record(group_id, member))
        expect_heartbeat(shard, group_id, member)
    logger.info("group %s becomes a consumer group with %d members", group_id, len(members))
    return draft


def _check(shard: GroupShard, group: ClassicGroup) -> None:
    if not allows_upgrade(shard):
        raise _refusal(group, "the broker's migration policy does not allow upgrades")
    if not group.uses_consumer_protocol:
        raise _refusal(group, "its members are not consumers")
    if len(group.members) > shard.config.group_consumer_max_size:
        raise _refusal(group, "it has more members than a consumer group may have (group.consumer.max.size)")


def _refusal(group: ClassicGroup, reason: str) -> KafkaError:
    return KafkaError(
        ErrorCode.GROUP_ID_NOT_FOUND,
        f"Group {group.group_id} cannot become a consumer group: {reason}.",
    )


def _converted(shard: GroupShard, group: ClassicGroup, member: ClassicMember) -> ConsumerMember:
    metadata = member.metadata(group.protocol_name) or member.protocols[0][1]
    subscription = read_subscription(metadata)
    held = read_assignment(member.assignment, shard.context.image.topics)
    epoch = group.generation
    return ConsumerMember(
        member_id=member.member_id,
        member_epoch=epoch,
        previous_epoch=epoch,
        instance_id=member.instance_id,
        rack_id=subscription.rack_id,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topics=tuple(sorted(set(subscription.topics))),
        assigned={topic_id: dict.fromkeys(partitions, epoch) for topic_id, partitions in held.items()},
        classic=ClassicSide(member.session_timeout_ms, member.protocols),
    )
