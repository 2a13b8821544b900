"""Groups that change between the classic and the consumer protocol while their members go on (KIP-848)."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ottla.coordinator.group.classic.group import ClassicGroup
from ottla.coordinator.group.classic.phases import Phase
from ottla.coordinator.group.consumer.group import ConsumerGroup
from ottla.coordinator.group.records import GROUP_RECORDS
from ottla.coordinator.runtime import ShardStatus
from ottla.model.errors import ErrorCode
from ottla.records.build import build_batch
from ottla.records.record import Record
from ottla.wire.codec import decode, encode
from ottla.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from ottla.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from ottla.wire.messages.consumer_protocol import ConsumerProtocolAssignment, TopicPartition
from ottla.wire.messages.group_records import ConsumerGroupMetadataKey, ConsumerGroupMetadataValue
from ottla.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from ottla.wire.messages.metadata_records import ConfigRecord, PartitionChangeRecord
from tests.support.consumer_member import ConsumerMember
from tests.support.group_path import GroupPath, Member, stable_group


def assignment(*partitions: int, user_data: bytes | None = None) -> bytes:
    message = ConsumerProtocolAssignment(
        assigned_partitions=[TopicPartition(topic="t", partitions=list(partitions))], user_data=user_data
    )
    return b"\x00\x00" + encode(message, 0)


def partitions_of(member: Member) -> set[int]:
    """The partitions in a classic member's SyncGroup response."""
    message, _ = decode(ConsumerProtocolAssignment, memoryview(member.assignment), 0, 2)
    return {index for partition in message.assigned_partitions for index in partition.partitions}


def classic_group(path: GroupPath, *members: Member, assignments: tuple[bytes, ...]) -> None:
    """A stable classic group whose assignment the coordinator can read."""
    stable_group(path, *members)
    for member in members:
        member.join()
    (leader,) = [member for member in members if member.is_leader]
    for member in members:
        if member is not leader:
            member.sync()
    leader.sync({member.member_id: content for member, content in zip(members, assignments, strict=True)})
    assert all(member.sync_code is ErrorCode.NONE for member in members)


def rejoin(member: Member) -> None:
    assert member.join() is ErrorCode.NONE
    assert member.sync() is ErrorCode.NONE


def test_a_group_is_upgraded_and_downgraded_while_its_members_go_on(path: GroupPath) -> None:
    old = Member(path, "g", session_timeout_ms=30_000)
    classic_group(path, old, assignments=(assignment(0, 1, 2),))
    assert old.commit({("t", 0): 7}) is ErrorCode.NONE
    new = ConsumerMember(path, "g", "n")
    assert new.join() is ErrorCode.NONE
    group = path.shard("g").groups["g"]
    assert isinstance(group, ConsumerGroup)
    group.invariants()
    assert new.count == 0
    # The old member has to rejoin, revokes (a version 0 subscription owns nothing), and gets its new share.
    assert old.heartbeat() is ErrorCode.REBALANCE_IN_PROGRESS
    rejoin(old)
    assert len(partitions_of(old)) == 2
    assert old.heartbeat() is ErrorCode.NONE
    new.beat()
    topic_id = path.image.topics.by_name["t"].topic_id
    assert new.partitions(topic_id) | partitions_of(old) == {0, 1, 2}
    assert old.commit({("t", 0): 8}) is ErrorCode.NONE
    (described,) = path.ask(ConsumerGroupDescribeRequest(group_ids=["g"]), 1).groups
    assert {member.member_id: member.member_type for member in described.members} == {"n": 1, old.member_id: 0}
    # The last member of the new protocol leaves: the group is a classic one again, and rebalances.
    assert new.leave() is ErrorCode.NONE
    back = path.shard("g").groups["g"]
    assert isinstance(back, ClassicGroup)
    assert back.phase is Phase.PREPARING_REBALANCE
    assert old.heartbeat() is ErrorCode.REBALANCE_IN_PROGRESS
    assert old.join() is ErrorCode.NONE
    assert old.sync({old.member_id: assignment(0, 1, 2)}) is ErrorCode.NONE
    assert path.fetch_offsets("g") == {("t", 0): 8}
    path.stop()
    path.start()
    loaded = path.shard("g").groups["g"]
    assert isinstance(loaded, ClassicGroup)
    assert list(loaded.members) == [old.member_id]


def test_an_upgraded_group_survives_a_restart(path: GroupPath) -> None:
    old = Member(path, "g", session_timeout_ms=30_000)
    classic_group(path, old, assignments=(assignment(0, 1, 2),))
    ConsumerMember(path, "g", "n").join()
    before = path.shard("g").groups["g"]
    path.stop()
    path.start()
    after = path.shard("g").groups["g"]
    assert isinstance(before, ConsumerGroup)
    assert isinstance(after, ConsumerGroup)
    assert (after.members, after.targets, after.epoch) == (before.members, before.targets, before.epoch)
    assert old.heartbeat() is ErrorCode.REBALANCE_IN_PROGRESS


def test_a_classic_member_that_does_not_join_again_in_time_is_removed(path: GroupPath) -> None:
    old = Member(path, "g", session_timeout_ms=60_000, rebalance_timeout_ms=20_000)
    classic_group(path, old, assignments=(assignment(0, 1, 2),))
    new = ConsumerMember(path, "g", "n")
    new.join()
    assert old.heartbeat() is ErrorCode.REBALANCE_IN_PROGRESS
    path.advance(21_000)
    assert old.heartbeat() is ErrorCode.UNKNOWN_MEMBER_ID
    new.beat()
    assert new.count == 3


def test_a_static_member_may_come_back_with_the_other_protocol(path: GroupPath) -> None:
    old = Member(path, "g", instance_id="i", session_timeout_ms=60_000)
    classic_group(path, old, assignments=(assignment(0, 1, 2),))
    new = ConsumerMember(path, "g", "n", instance_id="i")
    assert new.join() is ErrorCode.NONE
    assert new.count == 3
    assert old.heartbeat() is ErrorCode.FENCED_INSTANCE_ID
    # And back: no other member uses the new protocol, so the group is a classic one at once, without a rebalance.
    again = Member(path, "g", instance_id="i")
    assert again.join() is ErrorCode.NONE
    group = path.shard("g").groups["g"]
    assert isinstance(group, ClassicGroup)
    assert group.phase is Phase.STABLE
    assert again.sync() is ErrorCode.NONE
    assert partitions_of(again) == {0, 1, 2}
    assert new.beat() is ErrorCode.GROUP_ID_NOT_FOUND


@pytest.mark.parametrize(
    ("policy", "may_upgrade", "may_downgrade"),
    [
        ("disabled", False, False),
        ("upgrade", True, False),
        ("downgrade", False, True),
        ("bidirectional", True, True),
    ],
)
def test_the_policy_decides_which_way_is_open(
    make_consumer: Callable[..., GroupPath], policy: str, may_upgrade: bool, may_downgrade: bool
) -> None:
    path = make_consumer(group_consumer_migration_policy=policy)
    old = Member(path, "g")
    classic_group(path, old, assignments=(assignment(0, 1, 2),))
    code = ConsumerMember(path, "g", "n").join()
    assert code is (ErrorCode.NONE if may_upgrade else ErrorCode.GROUP_ID_NOT_FOUND)
    new = ConsumerMember(path, "h", "n")
    new.join()
    old = Member(path, "h")
    code = old.join() or ErrorCode.NONE
    assert code is (ErrorCode.INCONSISTENT_GROUP_PROTOCOL if policy == "disabled" else ErrorCode.NONE)
    if policy != "disabled":
        new.leave()
        assert isinstance(path.shard("h").groups["h"], ClassicGroup) is may_downgrade


def test_groups_that_cannot_be_read_are_not_upgraded(path: GroupPath) -> None:
    stranger = Member(path, "g", protocol_type="connect")
    stable_group(path, stranger)
    assert ConsumerMember(path, "g", "n").join() is ErrorCode.GROUP_ID_NOT_FOUND
    custom = Member(path, "h")
    classic_group(path, custom, assignments=(assignment(0, user_data=b"x"),))
    new = ConsumerMember(path, "h", "n")
    assert new.join() is ErrorCode.GROUP_ID_NOT_FOUND
    assert "custom assignor" in (new.last.error_message or "")
    assert custom.heartbeat() is ErrorCode.NONE


def test_an_empty_group_takes_either_protocol(path: GroupPath) -> None:
    new = ConsumerMember(path, "g", "n")
    new.join()
    new.leave()
    old = Member(path, "g")
    stable_group(path, old)
    assert isinstance(path.shard("g").groups["g"], ClassicGroup)
    old.leave()
    path.commit_offsets("g", {("t", 1): 3})
    assert new.join() is ErrorCode.NONE
    assert isinstance(path.shard("g").groups["g"], ConsumerGroup)
    assert path.fetch_offsets("g") == {("t", 1): 3}
    path.stop()
    path.start()
    assert isinstance(path.shard("g").groups["g"], ConsumerGroup)


def test_administrators_remove_members_of_either_protocol(path: GroupPath) -> None:
    new = ConsumerMember(path, "g", "n", instance_id="i")
    new.join()
    request = LeaveGroupRequest(
        group_id="g", members=[MemberIdentity(group_instance_id="i"), MemberIdentity(group_instance_id="?")]
    )
    response = path.ask(request, 5)
    codes = [ErrorCode(member.error_code) for member in response.members]
    assert codes == [ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID]
    assert path.shard("g").groups["g"].is_empty


def test_members_that_wait_in_a_rebalance_are_told_to_join_again(path: GroupPath) -> None:
    first, second = Member(path, "g"), Member(path, "g")
    classic_group(path, first, assignments=(assignment(0, 1, 2),))
    assert second.join() is None
    new = ConsumerMember(path, "g", "n")
    assert new.join() is ErrorCode.NONE
    assert second.join_code is ErrorCode.REBALANCE_IN_PROGRESS
    assert first.heartbeat() is ErrorCode.REBALANCE_IN_PROGRESS
    for member in (first, second, first, second):
        rejoin(member)
        new.converge()
    assert sorted(len(partitions_of(member)) for member in (first, second)) == [1, 1]
    assert new.count == 1


def test_classic_members_that_are_left_alone_in_a_consumer_group_share_it(
    make_consumer: Callable[..., GroupPath],
) -> None:
    path = make_consumer(group_consumer_migration_policy="upgrade")
    old = Member(path, "g", session_timeout_ms=30_000)
    classic_group(path, old, assignments=(assignment(0, 1, 2),))
    new = ConsumerMember(path, "g", "n")
    new.join()
    rejoin(old)
    new.beat()
    assert new.leave() is ErrorCode.NONE
    # No member uses the new protocol any more, but a downgrade is not allowed.
    assert old.heartbeat() is ErrorCode.REBALANCE_IN_PROGRESS
    rejoin(old)
    assert partitions_of(old) == {0, 1, 2}
    assert old.heartbeat() is ErrorCode.NONE


def test_a_downgrade_that_is_not_known_to_be_committed_is_not_taken_back(path: GroupPath) -> None:
    """The downgrade is in the log. Consumer group records behind it would make the replay of the whole log fail."""
    old = Member(path, "g", session_timeout_ms=60_000)
    classic_group(path, old, assignments=(assignment(0, 1, 2),))
    new = ConsumerMember(path, "g", "n")
    assert new.join() is ErrorCode.NONE
    set_in_sync(path, 1, 2)
    leaving = path.begin(ConsumerGroupHeartbeatRequest(group_id="g", member_id="n", member_epoch=-1), 1)
    path.advance(5_000)
    assert leaving.result().error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    set_in_sync(path, 1)
    old.heartbeat()
    old.join()
    path.stop()
    path.start()
    assert path.groups.runtime.shard_of("g").status is ShardStatus.ACTIVE
    assert isinstance(path.shard("g").groups["g"], ClassicGroup)


def test_an_empty_group_that_cannot_be_written_down_stays_of_its_kind(path: GroupPath) -> None:
    """Otherwise the group would vanish without tombstones and reappear when the classic group is deleted."""
    new = ConsumerMember(path, "g", "n")
    assert new.join() is ErrorCode.NONE
    assert new.leave() is ErrorCode.NONE
    needed = ConfigRecord(resource_type=2, resource_name="__consumer_offsets", name="min.insync.replicas", value="2")
    path.commit(needed)
    set_in_sync(path, 1)
    assert Member(path, "g").join() is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert isinstance(path.shard("g").groups["g"], ConsumerGroup)


def test_a_group_that_is_of_two_kinds_keeps_no_other_away(path: GroupPath) -> None:
    stable_group(path, Member(path, "g"))
    path.commit_offsets("i", {("t", 0): 7})
    index = path.groups.runtime.partition_of("g")
    assert index == path.groups.runtime.partition_of("i")
    key = ConsumerGroupMetadataKey(group_id="g")
    value = ConsumerGroupMetadataValue(epoch=9)
    record = Record(key=GROUP_RECORDS.encode_key(key), value=GROUP_RECORDS.encode_value(value))
    path.partition("__consumer_offsets", index).append_built(build_batch([record]), now_ms=path.virtual.clock.ms)
    path.stop()
    path.start()
    assert path.fetch_offsets("i") == {("t", 0): 7}
    group = path.shard("g").groups["g"]
    assert isinstance(group, ConsumerGroup)
    assert (group.epoch, group.is_empty) == (9, True), "what was written last"


def set_in_sync(path: GroupPath, *nodes: int) -> None:
    """Sets the in-sync replicas of the offsets topic."""
    topic = path.image.topics.by_name["__consumer_offsets"]
    path.commit(
        *(
            PartitionChangeRecord(topic_id=topic.topic_id, partition_id=index, replicas=[1, 2], isr=list(nodes))
            for index in topic.partitions
        )
    )
    path.run()
