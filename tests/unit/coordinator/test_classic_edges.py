"""Classic groups at the edges: requests that cross, members that come back at the wrong moment, old records."""

from __future__ import annotations

from ottla.coordinator.group.classic.group import ClassicGroup
from ottla.coordinator.group.classic.phases import Phase
from ottla.model.errors import ErrorCode
from ottla.wire.messages import metadata_records as r
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
    assert group_of(path).soft.join_count == 0


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


def replicated(directory: str) -> GroupPath:
    """Group records have to reach a second replica before they are committed."""
    path = GroupPath(directory)
    path.create_topic("t", 1)
    path.create_topic(OFFSETS_TOPIC, 1, replicas=(1, 2), isr=(1, 2))
    path.run()
    return path


def follow(path: GroupPath) -> None:
    """The second replica fetches up to the end of the log."""
    partition = path.partition(OFFSETS_TOPIC)
    partition.on_follower_fetch(
        2, fetch_offset=partition.log.log_end_offset, log_start_offset=0, now_ms=path.virtual.clock.ms
    )
    path.run()


def joined_leader(path: GroupPath) -> Member:
    leader = Member(path, "g", session_timeout_ms=60_000)
    assert leader.join_once() is None, "the group is not committed yet"
    follow(path)
    assert leader.join_once() is None
    path.advance(3_000)
    assert leader.is_leader
    return leader


def test_an_assignment_is_given_out_after_its_commit_even_if_a_rebalance_has_begun(log_directory: str) -> None:
    path = replicated(log_directory)
    leader = joined_leader(path)
    assert leader.sync({leader.member_id: b"first"}) is None, "it is not committed yet"
    newcomer = Member(path, "g")
    newcomer.join()
    path.run()
    assert leader.sync_code is None
    follow(path)
    assert (leader.sync_code, leader.assignment) == (NONE, b"first")
    newcomer.join_once()
    assert group_of(path).phase is Phase.PREPARING_REBALANCE
    assert leader.heartbeat() is REBALANCE_IN_PROGRESS
    path.stop()


def test_an_assignment_that_may_not_be_stored_begins_another_rebalance(log_directory: str) -> None:
    path = replicated(log_directory)
    leader = joined_leader(path)
    assert leader.sync({leader.member_id: b"x"}) is None
    path.advance(5_000)
    assert leader.sync_code is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert group_of(path).phase is Phase.PREPARING_REBALANCE
    path.stop()


def refuse_records(path: GroupPath, minimum: str = "2") -> None:
    """With one replica in sync of the two that are needed, no record is accepted."""
    name = OFFSETS_TOPIC
    path.commit(r.ConfigRecord(resource_type=2, resource_name=name, name="min.insync.replicas", value=minimum))
    topic = path.image.topics.by_name[name]
    for index in topic.partitions:
        path.commit(
            r.PartitionChangeRecord(partition_id=index, topic_id=topic.topic_id, replicas=[1, 2], isr=[1], leader=1)
        )
    path.run()


def test_an_assignment_that_is_refused_begins_another_rebalance(path: GroupPath) -> None:
    leader, follower = Member(path, "g"), Member(path, "g")
    leader.join()
    follower.join()
    path.advance(6_000)
    assert follower.sync() is None
    refuse_records(path)
    assert leader.sync({leader.member_id: b"x"}) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    path.advance(1)
    assert follower.sync_code is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert group_of(path).phase is Phase.PREPARING_REBALANCE


def test_a_refused_record_leaves_the_group_as_it_was(path: GroupPath) -> None:
    first, static = Member(path, "g"), Member(path, "g", instance_id="one", session_timeout_ms=60_000)
    stable_group(path, first, static)
    refuse_records(path)
    back = Member(path, "g", instance_id="one")
    assert back.join() is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert group_of(path).static_members == {"one": static.member_id}
    assert static.heartbeat() is NONE
    assert first.leave() is NONE, "a rebalance needs no record"
    assert static.heartbeat() is REBALANCE_IN_PROGRESS
    assert static.leave() is ErrorCode.COORDINATOR_NOT_AVAILABLE, "an empty group is recorded"
    assert list(group_of(path).members) == [static.member_id]
    refuse_records(path, minimum="1")
    assert static.leave() is NONE
    assert group_of(path).phase is Phase.EMPTY


def test_a_session_that_ends_while_records_are_refused_ends_the_member_later(path: GroupPath) -> None:
    member = Member(path, "g", session_timeout_ms=10_000)
    stable_group(path, member)
    refuse_records(path)
    path.advance(12_000)
    assert list(group_of(path).members) == [member.member_id]
    refuse_records(path, minimum="1")
    path.advance(1_000)
    assert group_of(path).phase is Phase.EMPTY


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
    # With its new id the member follows the follower in the list.
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
    # The member's subscription cannot be parsed, so it counts as subscribed to all topics.
    assert group.is_subscribed_to("anything")
    path.shard("g").replay(GroupMetadataKey(group="g"), None)
    assert "g" not in path.shard("g").groups
