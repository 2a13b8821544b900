"""Classic groups at the edges: requests that cross, members that come back at the wrong moment, old records."""

from __future__ import annotations

from ottla.coordinator.group.classic.group import ClassicGroup
from ottla.coordinator.group.classic.phases import Phase
from ottla.model.errors import ErrorCode
from ottla.wire.messages.group_records import GroupMetadataKey, GroupMetadataValue, MemberMetadata
from tests.support.group_path import OFFSETS_TOPIC, GroupPath, Member, stable_group

NONE = ErrorCode.NONE
REBALANCE_IN_PROGRESS = ErrorCode.REBALANCE_IN_PROGRESS
UNKNOWN_MEMBER_ID = ErrorCode.UNKNOWN_MEMBER_ID


def group_of(path: GroupPath, group_id: str = "g") -> ClassicGroup:
    group = path.shard(group_id).groups[group_id]
    assert isinstance(group, ClassicGroup)
    return group


# Waiting.


def test_who_waits_to_join_again_needs_no_heartbeat(path: GroupPath) -> None:
    waits, silent = Member(path, "g", session_timeout_ms=10_000), Member(path, "g", session_timeout_ms=60_000)
    stable_group(path, waits, silent)
    waits.topics = ("t", "u")
    assert waits.join_once() is None
    path.advance(29_000)
    assert waits.join_code is None, "neither answered nor dropped"
    path.advance(1_000)
    assert waits.join_code is NONE
    assert waits.member_id in group_of(path).members


def test_a_new_member_does_not_wait_for_ever(path: GroupPath) -> None:
    old = Member(path, "g", session_timeout_ms=1_800_000, rebalance_timeout_ms=1_800_000)
    stable_group(path, old)
    new = Member(path, "g", session_timeout_ms=1_800_000, rebalance_timeout_ms=1_800_000)
    assert new.join() is None
    path.advance(5 * 60_000 - 1)
    assert new.join_code is None
    path.advance(1)
    assert new.join_code is UNKNOWN_MEMBER_ID


def test_a_second_join_of_a_member_answers_the_first(path: GroupPath) -> None:
    first = Member(path, "g")
    first.join()
    again = Member(path, "g")
    again.member_id = first.member_id
    again.join_once()
    assert first.join_code is REBALANCE_IN_PROGRESS
    path.advance(3_000)
    assert again.join_code is NONE
    assert group_of(path).awaiting_join_count == 0


def test_who_leaves_while_it_waits_is_answered(path: GroupPath) -> None:
    joining = Member(path, "g")
    joining.join()
    joining.leave()
    assert joining.join_code is UNKNOWN_MEMBER_ID
    leader, syncing = Member(path, "h"), Member(path, "h")
    leader.join()
    syncing.join()
    path.advance(6_000)
    assert syncing.sync() is None
    syncing.leave()
    assert syncing.sync_code is UNKNOWN_MEMBER_ID


def test_an_assignment_that_comes_too_late_is_not_given_out(log_directory: str) -> None:
    path = GroupPath(log_directory)
    path.create_topic("t", 1)
    path.create_topic(OFFSETS_TOPIC, 1, replicas=(1, 2), isr=(1, 2))
    path.run()
    leader = Member(path, "g")
    leader.join()
    path.advance(3_000)
    assert leader.sync({leader.member_id: b"old"}) is None, "it is not committed yet"
    newcomer = Member(path, "g")
    newcomer.join()
    assert leader.sync_code is REBALANCE_IN_PROGRESS
    partition = path.partition(OFFSETS_TOPIC)
    partition.on_follower_fetch(
        2, fetch_offset=partition.log.log_end_offset, log_start_offset=0, now_ms=path.virtual.clock.ms
    )
    path.run()
    assert group_of(path).phase is Phase.PREPARING_REBALANCE
    path.stop()


def test_an_assignment_that_cannot_be_stored_begins_another_rebalance(log_directory: str) -> None:
    path = GroupPath(log_directory)
    path.create_topic("t", 1)
    path.create_topic(OFFSETS_TOPIC, 1, replicas=(1, 2), isr=(1, 2))
    path.run()
    leader = Member(path, "g", session_timeout_ms=60_000)
    leader.join()
    path.advance(3_000)
    assert leader.sync({leader.member_id: b"x"}) is None
    path.advance(5_000)
    assert leader.sync_code is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert group_of(path).phase is Phase.PREPARING_REBALANCE
    path.stop()


# Static members.


def test_a_static_member_that_changes_the_protocol_begins_a_rebalance(path: GroupPath) -> None:
    leader = Member(path, "g", protocols=("range", "sticky"))
    static = Member(path, "g", protocols=("range", "sticky"), instance_id="one")
    stable_group(path, leader, static)
    back = Member(path, "g", protocols=("sticky",), instance_id="one")
    assert back.join() is None
    assert leader.heartbeat() is REBALANCE_IN_PROGRESS


def test_a_static_member_that_is_back_before_the_assignment_begins_a_rebalance(path: GroupPath) -> None:
    leader, static = Member(path, "g"), Member(path, "g", instance_id="one")
    leader.join()
    static.join()
    path.advance(6_000)
    back = Member(path, "g", instance_id="one")
    assert back.join() is None
    assert leader.heartbeat() is REBALANCE_IN_PROGRESS
    assert leader.join_once() is NONE
    assert back.join_code is NONE


def test_a_static_member_may_leave_and_come_as_a_new_one(path: GroupPath) -> None:
    static = Member(path, "g", instance_id="one")
    stable_group(path, static)
    static.leave()
    again = Member(path, "g", instance_id="one")
    again.join()
    path.advance(3_000)
    assert again.join_code is NONE
    assert again.generation == 3


# Loading.


def test_the_leader_is_the_leader_after_a_restart(path: GroupPath) -> None:
    leader, follower = Member(path, "g", instance_id="one"), Member(path, "g")
    stable_group(path, leader, follower)
    # Under its new id it stands behind the follower.
    back = Member(path, "g", instance_id="one")
    assert back.join() is NONE
    path.stop()
    path.start()
    assert group_of(path).leader_id == back.member_id
    assert follower.join_once() is NONE, "a follower gets what it knows"
    assert back.join_once() is None, "a leader's join begins a rebalance"
    assert follower.heartbeat() is REBALANCE_IN_PROGRESS


def test_a_group_that_is_too_large_after_a_restart_rebalances(path: GroupPath) -> None:
    first, second = Member(path, "g"), Member(path, "g")
    stable_group(path, first, second)
    path.stop()
    path.properties["group.max.size"] = "1"
    path.start()
    assert group_of(path).phase is Phase.PREPARING_REBALANCE
    assert first.join_once() is None
    assert second.join_once() is ErrorCode.GROUP_MAX_SIZE_REACHED
    path.advance(30_000)
    assert first.join_code is NONE


def test_records_without_a_rebalance_timeout_mean_the_session_timeout(path: GroupPath) -> None:
    member = MemberMetadata(member_id="m", client_id="c", client_host="/h", session_timeout=7_000, assignment=b"a")
    value = GroupMetadataValue(protocol_type="consumer", generation=4, protocol="range", leader="m", members=[member])
    path.shard("g").replay(GroupMetadataKey(group="g"), value)
    group = group_of(path)
    assert (group.phase, group.generation, group.rebalance_timeout_ms) == (Phase.STABLE, 4, 7_000)
    # What the member said about its topics cannot be read: then it may read any.
    assert group.is_subscribed_to("anything")
    path.shard("g").replay(GroupMetadataKey(group="g"), None)
    assert "g" not in path.shard("g").groups
