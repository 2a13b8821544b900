"""Changes of the protocol at bad moments: every partition gets an owner again, and never two."""

from __future__ import annotations

from ottla.coordinator.group.classic.group import ClassicGroup
from ottla.coordinator.group.classic.phases import Phase
from ottla.model.errors import ErrorCode
from tests.support.consumer_member import ConsumerMember
from tests.support.group_path import GroupPath, Member
from tests.unit.coordinator.consumer.test_migration import assignment, classic_group, partitions_of, rejoin

LONG_MS = 60_000


def converge(path: GroupPath, new: ConsumerMember, old: Member | None = None) -> None:
    for _ in range(20):
        path.advance(1_000)
        new.converge()
        if old is not None and old.heartbeat() is ErrorCode.REBALANCE_IN_PROGRESS:
            rejoin(old)


# Upgrades: a static member comes back with the consumer protocol.


def test_an_upgrade_during_the_first_rebalance(path: GroupPath) -> None:
    Member(path, "g", instance_id="i", session_timeout_ms=LONG_MS).join()
    new = ConsumerMember(path, "g", "n", instance_id="i")
    assert new.join() is ErrorCode.NONE
    # With 0 the client would join again and again.
    assert new.epoch > 0
    converge(path, new)
    assert new.count == 3


def test_an_upgrade_before_the_leader_has_assigned(path: GroupPath) -> None:
    old = Member(path, "g", instance_id="i", session_timeout_ms=LONG_MS)
    old.join()
    path.advance(10_000)
    assert old.join_code is ErrorCode.NONE
    new = ConsumerMember(path, "g", "n", instance_id="i")
    assert new.join() is ErrorCode.NONE
    converge(path, new)
    assert new.count == 3


def test_an_upgrade_between_the_two_rebalances_of_a_cooperative_assignor(path: GroupPath) -> None:
    """A stable group has an unassigned partition then (KIP-429)."""
    old = Member(path, "g", session_timeout_ms=LONG_MS)
    static = Member(path, "g", instance_id="i", session_timeout_ms=LONG_MS)
    classic_group(path, old, static, assignments=(assignment(0, 1), assignment()))
    new = ConsumerMember(path, "g", "n", instance_id="i")
    assert new.join() is ErrorCode.NONE
    rejoin(old)
    converge(path, new, old)
    assert len(partitions_of(old)) + new.count == 3


def test_an_upgrade_gives_no_partition_of_a_cooperative_member_away(path: GroupPath) -> None:
    """The member goes on with its partitions while its group begins to rebalance again and again."""
    owner = Member(path, "g", session_timeout_ms=LONG_MS)
    classic_group(path, owner, assignments=(assignment(0, 1, 2),))
    second = Member(path, "g", session_timeout_ms=LONG_MS)
    second.join()
    owner.join()
    assert owner.join_code is second.join_code is ErrorCode.NONE
    Member(path, "g", session_timeout_ms=LONG_MS).join()
    new = ConsumerMember(path, "g", "n")
    assert new.join() is ErrorCode.NONE
    assert new.count == 0


# Downgrades: the last member of the consumer protocol leaves, or comes back with the classic one.


def test_a_downgrade_while_a_classic_member_waits_for_its_partitions(path: GroupPath) -> None:
    static = ConsumerMember(path, "g", "s", instance_id="i")
    static.join()
    static.converge()
    waiting = Member(path, "g", session_timeout_ms=LONG_MS)
    rejoin(waiting)
    assert partitions_of(waiting) == set()
    static.leave(-2)
    Member(path, "g", instance_id="i", session_timeout_ms=LONG_MS).join()
    assert isinstance(path.shard("g").groups["g"], ClassicGroup)
    # It joins again, and the leader assigns everything.
    assert waiting.heartbeat() is ErrorCode.REBALANCE_IN_PROGRESS


def test_a_downgrade_gives_nobody_what_another_member_still_holds(path: GroupPath) -> None:
    holder = Member(path, "g", session_timeout_ms=LONG_MS)
    classic_group(path, holder, assignments=(assignment(0, 1, 2),))
    static = ConsumerMember(path, "g", "s", instance_id="i")
    static.join()
    assert static.count == 0
    static.leave(-2)
    back = Member(path, "g", instance_id="i", session_timeout_ms=LONG_MS)
    assert back.join() is ErrorCode.NONE
    assert back.sync() is not ErrorCode.NONE or not partitions_of(back)


def test_the_rebalance_after_a_downgrade_survives_a_failover(path: GroupPath) -> None:
    new = ConsumerMember(path, "g", "n")
    new.join()
    old = Member(path, "g", session_timeout_ms=LONG_MS)
    for _ in range(4):
        rejoin(old)
        new.converge()
        path.advance(100)
    assert old.heartbeat() is ErrorCode.NONE
    assert len(partitions_of(old)) + new.count == 3
    assert new.leave() is ErrorCode.NONE
    group = path.shard("g").groups["g"]
    assert isinstance(group, ClassicGroup)
    assert group.phase is Phase.PREPARING_REBALANCE
    path.stop()
    path.start()
    # Otherwise nobody would read the partitions of the member that has left.
    assert old.heartbeat() is ErrorCode.ILLEGAL_GENERATION


def test_every_join_of_a_classic_member_gives_it_time_to_sync(path: GroupPath) -> None:
    ConsumerMember(path, "g", "n").join()
    member = Member(path, "g", session_timeout_ms=LONG_MS, rebalance_timeout_ms=20_000)
    assert member.join() is ErrorCode.NONE
    # The response was lost.
    path.advance(19_000)
    assert member.join() is ErrorCode.NONE
    path.advance(2_000)
    assert member.sync() is ErrorCode.NONE
