"""Classic members and the consumer protocol: partitions in use are not given away, and every join has time to sync."""

from __future__ import annotations

from ottla.model.errors import ErrorCode
from tests.support.consumer_member import ConsumerMember
from tests.support.group_path import GroupPath, Member
from tests.unit.coordinator.consumer.test_migration import assignment, classic_group

LONG_MS = 60_000


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


def test_every_join_of_a_classic_member_gives_it_time_to_sync(path: GroupPath) -> None:
    ConsumerMember(path, "g", "n").join()
    member = Member(path, "g", session_timeout_ms=LONG_MS, rebalance_timeout_ms=20_000)
    assert member.join() is ErrorCode.NONE
    # The response was lost.
    path.advance(19_000)
    assert member.join() is ErrorCode.NONE
    path.advance(2_000)
    assert member.sync() is ErrorCode.NONE
