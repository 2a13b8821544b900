"""One step of a member towards its target: state by state."""

from __future__ import annotations

import pytest

from ottla.coordinator.group.consumer.member import Assigned, ConsumerMember
from ottla.coordinator.group.consumer.reconcile import Owned, reconcile
from ottla.coordinator.group.consumer.states import MemberState
from ottla.model.errors import ErrorCode, KafkaError
from ottla.model.ids import Uuid
from ottla.wire.messages.consumer_group_heartbeat import TopicPartitions

T, U = Uuid(b"t" * 16), Uuid(b"u" * 16)
STABLE, UNREVOKED, UNRELEASED, UNKNOWN = (
    MemberState.STABLE,
    MemberState.UNREVOKED_PARTITIONS,
    MemberState.UNRELEASED_PARTITIONS,
    MemberState.UNKNOWN,
)


def member(state: MemberState, epoch: int, *assigned: int, pending: tuple[int, ...] = ()) -> ConsumerMember:
    return ConsumerMember(
        "m",
        member_epoch=epoch,
        previous_epoch=epoch - 1,
        state=state,
        assigned=held(*assigned, epoch=epoch),
        pending_revocation=held(*pending, epoch=epoch),
    )


def held(*partitions: int, epoch: int) -> Assigned:
    return {T: dict.fromkeys(partitions, epoch)} if partitions else {}


def owns(*partitions: int) -> Owned:
    return [TopicPartitions(topic_id=T, partitions=list(partitions))] if partitions else []


def step(
    before: ConsumerMember,
    *target: int,
    owned: Owned = None,
    taken: tuple[int, ...] = (),
    epoch: int = 7,
    subscribed: tuple[Uuid, ...] = (T,),
    changed: bool = False,
) -> tuple[MemberState, int, set[int], set[int]]:
    after = reconcile(
        before,
        target_epoch=epoch,
        target={T: frozenset(target)} if target else {},
        owned=owned,
        subscribed_topic_ids=subscribed,
        has_subscription_changed=changed,
        is_free=lambda _, partition: partition not in taken,
    )
    return after.state, after.member_epoch, set(after.assigned.get(T, ())), set(after.pending_revocation.get(T, ()))


def test_a_stable_member_at_the_targets_epoch_stays() -> None:
    before = member(STABLE, 7, 0, 1)
    assert step(before, 0, 1) == (STABLE, 7, {0, 1}, set())


def test_what_is_free_is_had_at_once_and_what_is_not_is_waited_for() -> None:
    before = member(STABLE, 6, 0)
    assert step(before, 0, 1) == (STABLE, 7, {0, 1}, set())
    assert step(before, 0, 1, 2, taken=(2,)) == (UNRELEASED, 7, {0, 1}, set())
    assert step(before, 0, 2, taken=(2,)) == (UNRELEASED, 7, {0}, set())


def test_nothing_new_is_had_before_what_is_lost_is_given_up() -> None:
    before = member(STABLE, 6, 0, 1)
    assert step(before, 0, 2) == (UNREVOKED, 6, {0}, {1})
    assert step(before, 0, 2, owned=owns(0, 1)) == (UNREVOKED, 6, {0}, {1})
    # The member has already revoked the partition by itself.
    assert step(before, 0, 2, owned=owns(0)) == (STABLE, 7, {0, 2}, set())


def test_a_member_that_revokes_is_waited_for() -> None:
    before = member(UNREVOKED, 6, 0, pending=(1,))
    assert step(before, 0, 2) == (UNREVOKED, 6, {0}, {1})
    assert step(before, 0, 2, owned=owns(0, 1)) == (UNREVOKED, 6, {0}, {1})
    assert step(before, 0, 2, owned=owns(0)) == (STABLE, 7, {0, 2}, set())
    # The next target may take more, or give back the revoked partition, which only this member holds.
    assert step(before, 2, owned=owns(0)) == (UNREVOKED, 6, set(), {0})
    assert step(before, 0, 1, owned=owns(0), taken=(1,)) == (STABLE, 7, {0, 1}, set())


def test_a_member_that_waits_gets_what_becomes_free() -> None:
    before = member(UNRELEASED, 7, 0)
    assert step(before, 0, 1, taken=(1,)) == (UNRELEASED, 7, {0}, set())
    assert step(before, 0, 1) == (STABLE, 7, {0, 1}, set())


def test_topics_that_are_not_subscribed_any_more_are_given_up_before_the_next_target() -> None:
    before = member(STABLE, 7, 0, 1)
    assert step(before, 0, 1, subscribed=(U,), changed=True) == (UNREVOKED, 7, set(), {0, 1})
    assert step(before, 0, 1, subscribed=(U,), changed=True, owned=owns()) == (STABLE, 7, set(), set())
    assert step(before, 0, 1, subscribed=(T, U), changed=True) == (STABLE, 7, {0, 1}, set())
    # An older target is not followed either.
    assert step(member(STABLE, 6, 0), 0, 1, subscribed=(U,)) == (UNREVOKED, 6, set(), {0})


def test_a_state_of_newer_software_means_starting_over() -> None:
    before = member(UNKNOWN, 6)
    assert step(before, 0, owned=owns()) == (STABLE, 7, {0}, set())
    for owned in (None, owns(0)):
        with pytest.raises(KafkaError) as caught:
            step(before, 0, owned=owned)
        assert caught.value.code is ErrorCode.FENCED_MEMBER_EPOCH


def test_partitions_remember_since_when_they_are_assigned() -> None:
    after = reconcile(
        member(STABLE, 6, 0),
        target_epoch=7,
        target={T: frozenset({0, 1})},
        owned=None,
        subscribed_topic_ids=(T,),
        has_subscription_changed=False,
        is_free=lambda *_: True,
    )
    assert (after.assigned, after.previous_epoch) == ({T: {0: 6, 1: 7}}, 6)
    assert [after.assignment_epoch(T, number) for number in (0, 1, 2)] == [6, 7, None]
