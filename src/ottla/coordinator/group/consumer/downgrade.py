"""A consumer group becomes a classic group again when its last member of the new protocol leaves, or is replaced.

The members keep the assignment that was meant for them. The records end the consumer group and begin the classic one;
replaying them puts the classic group in its place, and then it begins to rebalance.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING, TypeVar

from ottla.coordinator.group.classic.group import CONSUMER_PROTOCOL_TYPE, ClassicGroup, select_protocol
from ottla.coordinator.group.classic.member import ClassicMember
from ottla.coordinator.group.classic.rebalance import prepare
from ottla.coordinator.group.classic.replay import group_record
from ottla.coordinator.group.classic.sessions import expect_heartbeat
from ottla.coordinator.group.classic.soft import AnswerList
from ottla.coordinator.group.consumer.embedded import encode_assignment
from ottla.coordinator.group.consumer.group import ConsumerGroup
from ottla.coordinator.group.consumer.member import ConsumerMember
from ottla.coordinator.group.consumer.migration_policy import allows_downgrade
from ottla.coordinator.group.consumer.records import group_tombstones
from ottla.coordinator.group.consumer.sessions import cancel_timers
from ottla.coordinator.runtime import CoordinatorRecord
from ottla.decisions import Decision

if TYPE_CHECKING:
    from ottla.coordinator.group.state import GroupShard

__all__ = ["can_downgrade_replacing", "can_downgrade_without", "downgrade_replacing", "downgrade_without"]

logger = logging.getLogger("ottla.coordinator.group.consumer")

R = TypeVar("R")


def can_downgrade_without(group: ConsumerGroup, leaving: Collection[ConsumerMember]) -> bool:
    """True if members stay, and all of them use the classic protocol."""
    leaving_ids = {member.member_id for member in leaving}
    remaining = [member for member in group.members.values() if member.member_id not in leaving_ids]
    return bool(remaining) and _can_downgrade(group, remaining, len(remaining))


def can_downgrade_replacing(group: ConsumerGroup, replaced: ConsumerMember) -> bool:
    remaining = [member for member in group.members.values() if member.member_id != replaced.member_id]
    return _can_downgrade(group, remaining, len(group.members))


def _can_downgrade(group: ConsumerGroup, remaining: Iterable[ConsumerMember], size: int) -> bool:
    shard = group.shard
    return (
        all(member.uses_classic_protocol for member in remaining)
        and allows_downgrade(shard)
        and size <= shard.config.group_max_size
    )


def downgrade_without(
    group: ConsumerGroup, leaving: Collection[ConsumerMember], response: R, now_ms: int
) -> Decision[R]:
    leaving_ids = {member.member_id for member in leaving}
    remaining = [member for member in group.members.values() if member.member_id not in leaving_ids]
    draft = _classic_group(group, remaining, now_ms)
    records = [*group_tombstones(group), group_record(draft, now_ms=now_ms)]
    former_ids = list(group.members)

    def rebalance(shard: GroupShard, now_ms: int) -> Decision[R]:
        answers: AnswerList = []
        classic = _begin(shard, draft, former_ids)
        prepare(classic, answers, now_ms, "the last member of the consumer protocol has left")
        return Decision((), response, answers=answers)

    return Decision.first(records, rebalance)


def downgrade_replacing(
    group: ConsumerGroup,
    replaced: ConsumerMember,
    joining: ConsumerMember,
    records: list[CoordinatorRecord],
    *,
    response: R,
    group_epoch: int,
    now_ms: int,
) -> Decision[R]:
    """A static member is back with the classic protocol, and its former self was the last of the new protocol."""
    remaining = [joining if member is replaced else member for member in group.members.values()]
    draft = _classic_group(group, remaining, now_ms, {joining.member_id: replaced.member_id})
    records += group_tombstones(group, [member.member_id for member in remaining])
    records.append(group_record(draft, now_ms=now_ms))
    former_ids = list(group.members)
    is_assignment_stale = group.assignment_epoch < group_epoch

    def begin(shard: GroupShard, now_ms: int) -> Decision[R]:
        answers: AnswerList = []
        classic = _begin(shard, draft, former_ids)
        if is_assignment_stale:
            prepare(classic, answers, now_ms, "the last member of the consumer protocol is back with the classic one")
        return Decision((), response, answers=answers)

    return Decision.first(records, begin)


def _classic_group(
    group: ConsumerGroup, members: Iterable[ConsumerMember], now_ms: int, inherits: dict[str, str] | None = None
) -> ClassicGroup:
    """A draft of the group for its record. `inherits` maps a member id to the former member whose target it gets."""
    topics = group.shard.context.image.topics
    converted = [_converted(member) for member in members]
    protocol = select_protocol(converted)
    for member in converted:
        target = group.targets.get((inherits or {}).get(member.member_id, member.member_id), {})
        member.assignment = encode_assignment(target, member.metadata(protocol), topics)
    return ClassicGroup.of_generation(
        group.group_id,
        group.shard,
        generation=group.epoch,
        protocol_type=CONSUMER_PROTOCOL_TYPE,
        protocol_name=protocol,
        leader_id=converted[0].member_id,
        members=converted,
        now_ms=now_ms,
    )


def _converted(member: ConsumerMember) -> ClassicMember:
    side = member.classic
    assert side is not None, "only members of the classic protocol go on in a classic group"
    return ClassicMember(
        member_id=member.member_id,
        instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        session_timeout_ms=side.session_timeout_ms,
        protocol_type=CONSUMER_PROTOCOL_TYPE,
        protocols=side.protocols,
    )


def _begin(shard: GroupShard, draft: ClassicGroup, former_ids: Iterable[str]) -> ClassicGroup:
    """The classic group that the records have made takes over the sessions of its members."""
    group_id = draft.group_id
    classic = shard.group_of_kind(group_id, ClassicGroup)
    logger.info("group %s becomes a classic group with %d members", group_id, len(classic.members))
    for member_id in former_ids:
        cancel_timers(shard, group_id, member_id)
    for member in classic.members.values():
        # The record holds only the protocol that the group uses.
        classic.update(
            member,
            protocols=draft.members[member.member_id].protocols,
            rebalance_timeout_ms=member.rebalance_timeout_ms,
            session_timeout_ms=member.session_timeout_ms,
        )
        expect_heartbeat(classic, member)
    return classic
