"""A consumer group becomes a classic one again when its last member of the new protocol leaves, or is replaced.

The members get the assignment that was meant for them. Unlike elsewhere the group is put in its place here and not by
`replay`, since it begins a rebalance at once; should the records be refused, the consumer group comes back.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable
from typing import TYPE_CHECKING, TypeVar

from ottla.coordinator.group.classic.group import CONSUMER_PROTOCOL_TYPE, ClassicGroup
from ottla.coordinator.group.classic.member import ClassicMember
from ottla.coordinator.group.classic.phases import Phase
from ottla.coordinator.group.classic.rebalance import expect_heartbeat, prepare
from ottla.coordinator.group.classic.replay import group_record
from ottla.coordinator.group.consumer.embedded import encode_assignment
from ottla.coordinator.group.consumer.group import ConsumerGroup
from ottla.coordinator.group.consumer.member import ConsumerMember
from ottla.coordinator.group.consumer.migration_policy import allows_downgrade
from ottla.coordinator.group.consumer.records import group_tombstones
from ottla.coordinator.group.consumer.sessions import cancel_timers, on_group_loaded
from ottla.coordinator.runtime import CoordinatorRecord, UnknownOutcome
from ottla.decisions import Decision
from ottla.model.errors import KafkaError

if TYPE_CHECKING:
    from ottla.coordinator.group.state import GroupShard

__all__ = ["can_downgrade_replacing", "can_downgrade_without", "downgrade_replacing", "downgrade_without"]

logger = logging.getLogger("ottla.coordinator.group.consumer")

R = TypeVar("R")


def can_downgrade_without(group: ConsumerGroup, leaving: Collection[ConsumerMember]) -> bool:
    """Whether those who stay all speak the classic protocol, and somebody does stay."""
    gone = {member.member_id for member in leaving}
    rest = [member for member in group.members.values() if member.member_id not in gone]
    return bool(rest) and _can_downgrade(group, rest, len(rest))


def can_downgrade_replacing(group: ConsumerGroup, replaced: ConsumerMember) -> bool:
    rest = [member for member in group.members.values() if member.member_id != replaced.member_id]
    return _can_downgrade(group, rest, len(group.members))


def _can_downgrade(group: ConsumerGroup, rest: Iterable[ConsumerMember], size: int) -> bool:
    shard = group.shard
    return (
        all(member.uses_classic_protocol for member in rest)
        and allows_downgrade(shard)
        and size <= shard.config.group_max_size
    )


def downgrade_without(
    shard: GroupShard, group: ConsumerGroup, leaving: Collection[ConsumerMember], response: R, now_ms: int
) -> Decision[R]:
    gone = {member.member_id for member in leaving}
    rest = [member for member in group.members.values() if member.member_id not in gone]
    for member_id in gone:
        cancel_timers(shard, group.group_id, member_id)
    classic = _classic_group(group, rest, now_ms)
    records = [*group_tombstones(group), group_record(classic)]
    _put(shard, group, classic)
    following = prepare(classic, now_ms, "the last member of the consumer protocol has left")
    return Decision(
        [*records, *following.records], response, replays=False, on_settled=_back_if_refused(shard, group, classic)
    )


def downgrade_replacing(
    shard: GroupShard,
    group: ConsumerGroup,
    replaced: ConsumerMember,
    joining: ConsumerMember,
    records: list[CoordinatorRecord],
    *,
    group_epoch: int,
    now_ms: int,
) -> Callable[[KafkaError | None], None]:
    """A static member is back with the classic protocol: its old self was the last of the new one.

    Adds to the records, which must not be replayed; the returned function has to be told how that went.
    """
    rest = [joining if member is replaced else member for member in group.members.values()]
    classic = _classic_group(group, rest, now_ms, {joining.member_id: replaced.member_id})
    records += group_tombstones(group, [member.member_id for member in rest])
    records.append(group_record(classic))
    _put(shard, group, classic)
    if group.assignment_epoch < group_epoch:
        prepare(classic, now_ms, "the group has become a classic one with an assignment that is out of date")
    return _back_if_refused(shard, group, classic)


def _classic_group(
    group: ConsumerGroup, members: Iterable[ConsumerMember], now_ms: int, inherits: dict[str, str] | None = None
) -> ClassicGroup:
    """`inherits`: whose target a member takes over, by member id."""
    classic = ClassicGroup(group.group_id, group.shard, now_ms=now_ms)
    classic.generation = group.epoch
    for member in members:
        side = member.classic
        assert side is not None, "only members of the classic protocol go on in a classic group"
        classic.add(
            ClassicMember(
                member_id=member.member_id,
                instance_id=member.instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                rebalance_timeout_ms=member.rebalance_timeout_ms,
                session_timeout_ms=side.session_timeout_ms,
                protocol_type=CONSUMER_PROTOCOL_TYPE,
                protocols=side.protocols,
            )
        )
    classic.protocol_name = classic.select_protocol()
    classic.subscribed_topics = classic.compute_subscribed_topics()
    classic.phase = Phase.STABLE
    topics = group.shard.context.image.topics
    for member_id, each in classic.members.items():
        target = group.targets.get((inherits or {}).get(member_id, member_id), {})
        each.assignment = encode_assignment(target, each.metadata(classic.protocol_name), topics)
    return classic


def _put(shard: GroupShard, group: ConsumerGroup, classic: ClassicGroup) -> None:
    logger.info("group %s becomes a classic group with %d members", group.group_id, len(classic.members))
    shard.groups[group.group_id] = classic
    for member_id in group.members:
        cancel_timers(shard, group.group_id, member_id)
    for member in classic.members.values():
        expect_heartbeat(classic, member)


def _back_if_refused(
    shard: GroupShard, group: ConsumerGroup, classic: ClassicGroup
) -> Callable[[KafkaError | None], None]:
    def on_settled(error: KafkaError | None) -> None:
        if error is None or isinstance(error, UnknownOutcome):
            return
        if shard.groups.get(group.group_id) is classic:
            shard.groups[group.group_id] = group
            on_group_loaded(group, 0)

    return on_settled
