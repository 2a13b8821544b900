"""One step of a member towards its target assignment: a pure function from member to member (see `states`).

A member first revokes the partitions that are not in its target, and keeps its epoch until it has confirmed that. Only
then it gets, at the epoch of the target, the partitions that no other member holds. So no partition ever has two
members.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from ottla.coordinator.group.consumer.member import Assigned, ConsumerMember, Target
from ottla.coordinator.group.consumer.states import MEMBER_TRANSITIONS, MemberState
from ottla.model.errors import ErrorCode, KafkaError
from ottla.model.ids import Uuid
from ottla.wire.messages.consumer_group_heartbeat import TopicPartitions

__all__ = ["Owned", "reconcile"]

# The partitions that a member reports as its own; None without a report.
Owned = Sequence[TopicPartitions] | None
_NONE: frozenset[int] = frozenset()
_NOTHING: Mapping[int, int] = {}


def reconcile(
    member: ConsumerMember,
    *,
    target_epoch: int,
    target: Target,
    owned: Owned,
    subscribed_topic_ids: Collection[Uuid],
    has_subscription_changed: bool,
    is_free: Callable[[Uuid, int], bool],
) -> ConsumerMember:
    """`is_free` is True for a partition that no other member holds. Topics that the member no longer subscribes to are
    revoked at once, before the next target assignment.
    """

    def step() -> ConsumerMember:
        return _step(member, target_epoch, target, owned, subscribed_topic_ids, is_free)

    if member.state is MemberState.STABLE and member.member_epoch == target_epoch:
        return _drop_unsubscribed(member, owned, subscribed_topic_ids) if has_subscription_changed else member
    if member.state is MemberState.UNREVOKED_PARTITIONS and _owns(owned, member.pending_revocation):
        return _drop_unsubscribed(member, owned, subscribed_topic_ids) if has_subscription_changed else member
    if member.state is MemberState.UNKNOWN:
        if owned is None or owned:
            raise KafkaError(
                ErrorCode.FENCED_MEMBER_EPOCH,
                "The member's state was written by newer software: it has to give up everything and join again.",
            )
        member = member._replace(member_epoch=target_epoch)
    return step()


def _step(
    member: ConsumerMember,
    target_epoch: int,
    target: Target,
    owned: Owned,
    subscribed: Collection[Uuid],
    is_free: Callable[[Uuid, int], bool],
) -> ConsumerMember:
    kept: dict[Uuid, Mapping[int, int]] = {}
    revoked: dict[Uuid, Mapping[int, int]] = {}
    gained: dict[Uuid, dict[int, int]] = {}
    is_waiting = False
    for topic_id in dict.fromkeys((*target, *member.assigned)):
        wanted = target.get(topic_id, _NONE) if topic_id in subscribed else _NONE
        current = member.assigned.get(topic_id, _NOTHING)
        keeping = {partition: epoch for partition, epoch in current.items() if partition in wanted}
        if keeping:
            kept[topic_id] = keeping
        if len(keeping) < len(current):
            revoked[topic_id] = {partition: epoch for partition, epoch in current.items() if partition not in wanted}
        missing = [partition for partition in sorted(wanted) if partition not in current]
        # Partitions that the member has just revoked are free as well.
        pending = member.pending_revocation.get(topic_id, _NOTHING)
        free = [partition for partition in missing if partition in pending or is_free(topic_id, partition)]
        is_waiting = is_waiting or len(free) < len(missing)
        if free:
            gained[topic_id] = dict.fromkeys(free, target_epoch)
    if revoked and _owns(owned, revoked):
        stays = member.at_epoch(member.member_epoch)
        return _become(stays, MemberState.UNREVOKED_PARTITIONS, assigned=kept, pending_revocation=revoked)
    for topic_id, partitions in gained.items():
        kept[topic_id] = {**kept.get(topic_id, _NOTHING), **partitions}
    state = MemberState.UNRELEASED_PARTITIONS if is_waiting else MemberState.STABLE
    return _become(member.at_epoch(target_epoch), state, assigned=kept, pending_revocation={})


def _drop_unsubscribed(member: ConsumerMember, owned: Owned, subscribed: Collection[Uuid]) -> ConsumerMember:
    dropped = {topic_id: held for topic_id, held in member.assigned.items() if topic_id not in subscribed}
    if not dropped:
        return member
    kept = {topic_id: held for topic_id, held in member.assigned.items() if topic_id in subscribed}
    stays = member.at_epoch(member.member_epoch)
    pending = {**member.pending_revocation}
    for topic_id, held in dropped.items():
        pending[topic_id] = {**pending.get(topic_id, _NOTHING), **held}
    if _owns(owned, pending):
        return _become(stays, MemberState.UNREVOKED_PARTITIONS, assigned=kept, pending_revocation=pending)
    return stays._replace(assigned=kept)


def _owns(owned: Owned, partitions: Assigned) -> bool:
    """A member without a report still owns its partitions."""
    if owned is None:
        return True
    return any(
        partition in partitions.get(topic.topic_id, _NOTHING) for topic in owned for partition in topic.partitions
    )


def _become(
    member: ConsumerMember, state: MemberState, *, assigned: Assigned, pending_revocation: Assigned
) -> ConsumerMember:
    assert state in MEMBER_TRANSITIONS[member.state], f"member {member.member_id}: {member.state} -> {state}"
    return member._replace(state=state, assigned=assigned, pending_revocation=pending_revocation)
