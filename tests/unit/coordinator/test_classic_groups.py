"""Classic groups as stories: members that join, assign and expire, and the responses to them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ottla.coordinator.group.classic.group import ClassicGroup
from ottla.coordinator.group.classic.phases import PHASE_TRANSITIONS, Phase
from ottla.model.deferred import Deferred
from ottla.model.errors import ErrorCode
from ottla.wire.messages.describe_groups import DescribeGroupsRequest
from ottla.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from ottla.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from tests.support.group_path import GroupPath, Member, stable_group, subscription

MEMBER_ID_REQUIRED = ErrorCode.MEMBER_ID_REQUIRED
NONE = ErrorCode.NONE
REBALANCE_IN_PROGRESS = ErrorCode.REBALANCE_IN_PROGRESS
UNKNOWN_MEMBER_ID = ErrorCode.UNKNOWN_MEMBER_ID
FENCED_INSTANCE_ID = ErrorCode.FENCED_INSTANCE_ID


def phase(path: GroupPath, group_id: str = "g") -> Phase:
    group = path.shard(group_id).groups[group_id]
    assert isinstance(group, ClassicGroup)
    return group.phase


# A first rebalance.


def test_a_first_member_is_given_an_id_and_waits_for_others(path: GroupPath) -> None:
    member = Member(path, "g")
    assert member.join_once() is MEMBER_ID_REQUIRED
    assert member.member_id.startswith("test-")
    assert member.join_once() is None
    path.advance(2_999)
    assert member.join_code is None
    path.advance(1)
    assert member.join_code is NONE
    assert member.is_leader
    assert member.joined is not None
    assert [joined_member.member_id for joined_member in member.joined.members] == [member.member_id]
    assert (member.joined.generation_id, member.joined.protocol_name) == (1, "range")


def test_old_versions_join_without_a_second_request(path: GroupPath) -> None:
    member = Member(path, "g", version=3)
    assert member.join_once() is None
    path.advance(3_000)
    assert member.join_code is NONE


def test_the_initial_delay_is_extended_for_newcomers_up_to_the_rebalance_timeout(path: GroupPath) -> None:
    first = Member(path, "g", rebalance_timeout_ms=5_000)
    first.join()
    path.advance(2_000)
    second = Member(path, "g", rebalance_timeout_ms=5_000)
    second.join()
    path.advance(1_000)
    assert first.join_code is None
    path.advance(1_999)
    assert first.join_code is None
    path.advance(1)
    assert first.join_code is second.join_code is NONE
    assert first.joined is not None
    assert second.joined is not None
    assert len(first.joined.members) == 2
    assert second.joined.members == []


def test_each_member_gets_its_part_and_waits_for_the_leader(path: GroupPath) -> None:
    leader, follower = Member(path, "g"), Member(path, "g")
    leader.join()
    follower.join()
    path.advance(6_000)
    assert follower.sync() is None
    assert phase(path) is Phase.COMPLETING_REBALANCE
    assert leader.sync({leader.member_id: b"left", follower.member_id: b"right"}) is NONE
    assert (leader.assignment, follower.assignment) == (b"left", b"right")
    assert phase(path) is Phase.STABLE
    assert leader.heartbeat() is follower.heartbeat() is NONE


def test_the_leader_hears_of_a_generation_last(path: GroupPath) -> None:
    leader_flags: list[bool] = []

    class Listener(Member):
        def _on_joined(self, done: Deferred[JoinGroupResponse]) -> None:
            super()._on_joined(done)
            if self.join_code is NONE:
                leader_flags.append(self.is_leader)

    for _ in range(3):
        Listener(path, "g").join()
    path.advance(9_000)
    assert leader_flags == [False, False, True]


def test_the_leader_hears_of_a_generation_last_when_a_follower_completes_it(path: GroupPath) -> None:
    leader, follower = Member(path, "g"), Member(path, "g")
    stable_group(path, leader, follower)
    leader, follower = (leader, follower) if leader.is_leader else (follower, leader)
    completion_order: list[str] = []
    for name, member in (("leader", leader), ("follower", follower)):
        answer = path.begin(
            JoinGroupRequest(
                group_id="g",
                session_timeout_ms=10_000,
                rebalance_timeout_ms=30_000,
                member_id=member.member_id,
                protocol_type="consumer",
                protocols=[JoinGroupRequestProtocol(name="range", metadata=subscription("t", "u"))],
            ),
            9,
        )
        answer.when_done(lambda _, name=name: completion_order.append(name))  # type: ignore[misc]
    path.run()
    assert completion_order == ["follower", "leader"]


def test_a_member_the_leader_forgot_gets_nothing(path: GroupPath) -> None:
    leader, follower = Member(path, "g"), Member(path, "g")
    leader.join()
    follower.join()
    path.advance(6_000)
    leader.sync({leader.member_id: b"all"})
    assert follower.sync() is NONE
    assert follower.assignment == b""


# Changes.


def test_a_new_member_makes_all_members_join_again(path: GroupPath) -> None:
    old, new = Member(path, "g"), Member(path, "g")
    stable_group(path, old)
    assert new.join() is None
    assert old.heartbeat() is REBALANCE_IN_PROGRESS
    assert old.join_once() is NONE
    assert new.join_code is NONE
    assert old.generation == new.generation == 2
    assert old.is_leader


def test_who_does_not_join_again_in_time_is_dropped_and_the_lead_goes_on(path: GroupPath) -> None:
    old = Member(path, "g", rebalance_timeout_ms=4_000)
    new = Member(path, "g", rebalance_timeout_ms=4_000)
    stable_group(path, old)
    new.join()
    path.advance(4_000)
    assert new.join_code is NONE
    assert new.is_leader
    assert old.heartbeat() is UNKNOWN_MEMBER_ID


def test_who_does_not_sync_in_time_is_dropped(path: GroupPath) -> None:
    leader = Member(path, "g", session_timeout_ms=60_000, rebalance_timeout_ms=20_000)
    silent = Member(path, "g", session_timeout_ms=60_000, rebalance_timeout_ms=20_000)
    leader.join()
    silent.join()
    path.advance(6_000)
    leader.sync({leader.member_id: b"x"})
    path.advance(20_000)
    assert leader.heartbeat() is REBALANCE_IN_PROGRESS
    assert silent.heartbeat() is UNKNOWN_MEMBER_ID


def test_a_silent_member_is_removed_after_its_session(path: GroupPath) -> None:
    loud, silent = Member(path, "g"), Member(path, "g")
    stable_group(path, loud, silent)
    path.advance(6_000)
    assert loud.heartbeat() is NONE
    path.advance(4_000)
    assert loud.heartbeat() is REBALANCE_IN_PROGRESS
    assert silent.heartbeat() is UNKNOWN_MEMBER_ID


def test_a_commit_is_a_sign_of_life(path: GroupPath) -> None:
    member = Member(path, "g")
    stable_group(path, member)
    for offset in range(5):
        path.advance(8_000)
        assert member.commit({("t", 0): offset}) is NONE
    assert member.heartbeat() is NONE


def test_an_id_that_does_not_come_back_is_forgotten(path: GroupPath) -> None:
    old, ghost = Member(path, "g"), Member(path, "g", session_timeout_ms=7_000)
    stable_group(path, old)
    assert ghost.join_once() is MEMBER_ID_REQUIRED
    path.advance(7_000)
    assert ghost.join_once() is UNKNOWN_MEMBER_ID


def test_leaving_is_noticed_at_once_and_the_last_one_leaves_the_group_empty(path: GroupPath) -> None:
    first, second = Member(path, "g"), Member(path, "g")
    stable_group(path, first, second)
    assert second.leave() is NONE
    assert first.heartbeat() is REBALANCE_IN_PROGRESS
    assert first.join_once() is NONE
    assert first.leave() is NONE
    assert phase(path) is Phase.EMPTY
    assert first.heartbeat() is UNKNOWN_MEMBER_ID


def test_the_leader_may_ask_for_a_rebalance_and_followers_may_not(path: GroupPath) -> None:
    leader, follower = Member(path, "g"), Member(path, "g")
    stable_group(path, leader, follower)
    assert follower.join_once() is NONE
    assert follower.generation == leader.generation
    assert leader.heartbeat() is NONE
    assert leader.join_once() is None
    assert follower.heartbeat() is REBALANCE_IN_PROGRESS


def test_other_metadata_of_a_follower_is_a_reason_to_rebalance(path: GroupPath) -> None:
    leader, follower = Member(path, "g"), Member(path, "g")
    stable_group(path, leader, follower)
    follower.topics = ("t", "u")
    assert follower.join_once() is None
    assert leader.heartbeat() is REBALANCE_IN_PROGRESS


def test_a_rebalance_sends_waiting_followers_back(path: GroupPath) -> None:
    leader, follower, third = Member(path, "g"), Member(path, "g"), Member(path, "g")
    leader.join()
    follower.join()
    path.advance(6_000)
    assert follower.sync() is None
    third.join()
    assert follower.sync_code is REBALANCE_IN_PROGRESS
    assert leader.sync({}) is REBALANCE_IN_PROGRESS


# Protocols.


def test_the_protocol_is_the_one_most_members_prefer_of_those_all_have(path: GroupPath) -> None:
    members = [
        Member(path, "g", protocols=("sticky", "range")),
        Member(path, "g", protocols=("roundrobin", "range", "sticky")),
        Member(path, "g", protocols=("range", "sticky")),
    ]
    stable_group(path, *members)
    assert {member.joined.protocol_name for member in members if member.joined} == {"range"}


@pytest.mark.parametrize(
    ("protocol_type", "protocols"), [("consumer", ("other",)), ("connect", ("range",)), ("consumer", ())]
)
def test_who_speaks_nothing_the_others_speak_is_refused(
    path: GroupPath, protocol_type: str, protocols: tuple[str, ...]
) -> None:
    stable_group(path, Member(path, "g"))
    stranger = Member(path, "g", protocol_type=protocol_type, protocols=protocols)
    assert stranger.join() is ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_a_sync_names_the_protocol_that_was_chosen(path: GroupPath) -> None:
    member = Member(path, "g")
    member.join()
    path.advance(3_000)
    assert member.sync(protocol_name="other") is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert member.sync(protocol_type=None) is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert member.sync() is NONE


# Fencing.


def test_a_stale_generation_is_refused_everywhere(path: GroupPath) -> None:
    member = Member(path, "g")
    stable_group(path, member)
    member.generation = 0
    assert member.heartbeat() is ErrorCode.ILLEGAL_GENERATION
    assert member.sync() is ErrorCode.ILLEGAL_GENERATION
    assert member.commit({("t", 0): 1}) is ErrorCode.ILLEGAL_GENERATION


def test_strangers_are_refused_everywhere(path: GroupPath) -> None:
    stable_group(path, Member(path, "g"))
    stranger = Member(path, "g")
    stranger.member_id, stranger.generation = "nobody", 1
    assert stranger.join_once() is UNKNOWN_MEMBER_ID
    assert stranger.heartbeat() is UNKNOWN_MEMBER_ID
    assert stranger.sync(protocol_name="range") is UNKNOWN_MEMBER_ID
    assert stranger.leave() is UNKNOWN_MEMBER_ID
    assert stranger.commit({("t", 0): 1}) is UNKNOWN_MEMBER_ID


def test_an_unknown_group_has_no_members(path: GroupPath) -> None:
    stranger = Member(path, "gone")
    stranger.member_id, stranger.generation = "nobody", 1
    assert stranger.join_once() is UNKNOWN_MEMBER_ID
    assert stranger.heartbeat() is UNKNOWN_MEMBER_ID
    assert stranger.sync(protocol_name="range") is UNKNOWN_MEMBER_ID
    assert stranger.leave() is UNKNOWN_MEMBER_ID
    assert stranger.commit({("t", 0): 1}) is ErrorCode.GROUP_ID_NOT_FOUND


def test_no_commits_between_join_and_sync(path: GroupPath) -> None:
    member = Member(path, "g")
    member.join()
    path.advance(3_000)
    assert member.commit({("t", 0): 1}) is REBALANCE_IN_PROGRESS


@pytest.mark.parametrize("timeout_ms", [5_999, 1_800_001])
def test_session_timeouts_have_bounds(path: GroupPath, timeout_ms: int) -> None:
    assert Member(path, "g", session_timeout_ms=timeout_ms).join() is ErrorCode.INVALID_SESSION_TIMEOUT


def test_a_group_has_a_name(path: GroupPath) -> None:
    nameless = Member(path, "")
    assert nameless.join() is ErrorCode.INVALID_GROUP_ID
    assert nameless.heartbeat() is ErrorCode.INVALID_GROUP_ID
    assert nameless.sync(protocol_name="range") is ErrorCode.INVALID_GROUP_ID
    assert nameless.leave() is ErrorCode.INVALID_GROUP_ID


def test_a_full_group_refuses_new_members(make: Callable[..., GroupPath]) -> None:
    path = make(group_max_size="2")
    first, second, third = Member(path, "g"), Member(path, "g"), Member(path, "g")
    stable_group(path, first, second)
    assert third.join() is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert first.heartbeat() is NONE


# Static members.


def test_a_static_member_is_back_without_a_rebalance(path: GroupPath) -> None:
    leader, static = Member(path, "g"), Member(path, "g", instance_id="one")
    stable_group(path, leader, static)
    back = Member(path, "g", instance_id="one")
    assert back.join() is NONE
    assert back.member_id != static.member_id
    assert back.member_id.startswith("one-")
    assert back.generation == static.generation
    assert back.sync() is NONE
    assert back.assignment == static.assignment
    assert leader.heartbeat() is NONE
    assert static.heartbeat() is FENCED_INSTANCE_ID
    assert static.commit({("t", 0): 1}) is FENCED_INSTANCE_ID


def test_a_static_leader_is_back_and_need_not_assign(path: GroupPath) -> None:
    leader = Member(path, "g", instance_id="one")
    stable_group(path, leader)
    back = Member(path, "g", instance_id="one")
    assert back.join() is NONE
    assert back.joined is not None
    assert (back.is_leader, back.joined.skip_assignment, len(back.joined.members)) == (True, True, 1)
    older = Member(path, "g", instance_id="one", version=8)
    assert older.join() is NONE
    assert older.joined is not None
    assert (older.joined.leader, older.joined.members) == (back.member_id, [])


def test_a_static_member_that_stays_away_is_removed_by_its_session_alone(path: GroupPath) -> None:
    leader = Member(path, "g", session_timeout_ms=30_000, rebalance_timeout_ms=5_000)
    static = Member(path, "g", instance_id="one", session_timeout_ms=30_000, rebalance_timeout_ms=5_000)
    stable_group(path, leader, static)
    leader.join_once()
    path.advance(5_000)
    assert leader.join_code is NONE
    assert leader.joined is not None
    assert len(leader.joined.members) == 2


def test_a_static_member_is_removed_by_name(path: GroupPath) -> None:
    leader, static = Member(path, "g"), Member(path, "g", instance_id="one")
    stable_group(path, leader, static)
    request = LeaveGroupRequest(
        group_id="g",
        members=[MemberIdentity(group_instance_id="one"), MemberIdentity(group_instance_id="two")],
    )
    answers = path.ask(request, 5).members
    assert [(answer.group_instance_id, answer.error_code) for answer in answers] == [
        ("one", 0),
        ("two", UNKNOWN_MEMBER_ID),
    ]
    assert leader.heartbeat() is REBALANCE_IN_PROGRESS


def test_a_double_fences_the_one_that_waits(path: GroupPath) -> None:
    first = Member(path, "g", instance_id="one")
    first.join()
    second = Member(path, "g", instance_id="one")
    second.join()
    assert first.join_code is FENCED_INSTANCE_ID
    path.advance(3_000)
    assert second.join_code is NONE


# Surviving.


def test_a_group_survives_a_restart_with_its_assignments(path: GroupPath) -> None:
    leader, follower = Member(path, "g"), Member(path, "g", instance_id="one")
    stable_group(path, leader, follower)
    path.stop()
    path.start()
    assert leader.heartbeat() is follower.heartbeat() is NONE
    assert follower.sync() is NONE
    assert follower.assignment == b"1"
    (described,) = path.ask(DescribeGroupsRequest(groups=["g"]), 6).groups
    assert (described.group_state, described.protocol_type, described.protocol_data) == ("Stable", "consumer", "range")
    assert {member.client_host for member in described.members} == {"/127.0.0.1"}


def test_sessions_go_on_after_a_restart(path: GroupPath) -> None:
    member = Member(path, "g")
    stable_group(path, member)
    path.stop()
    path.start()
    path.advance(10_000)
    assert member.heartbeat() is UNKNOWN_MEMBER_ID
    assert phase(path) is Phase.EMPTY


def test_who_waits_is_told_when_the_coordinator_goes(path: GroupPath) -> None:
    joining, syncing = Member(path, "g"), Member(path, "h")
    syncing.join()
    other = Member(path, "h")
    other.join()
    path.advance(6_000)
    follower = other if syncing.is_leader else syncing
    assert follower.sync() is None
    assert joining.join() is None
    path.groups.close()
    assert joining.join_code is ErrorCode.NOT_COORDINATOR
    assert follower.sync_code is ErrorCode.NOT_COORDINATOR


def test_versions_before_seven_have_no_null_protocol(path: GroupPath) -> None:
    request = JoinGroupRequest(
        group_id="g",
        session_timeout_ms=10_000,
        member_id="nobody",
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range")],
    )
    assert path.ask(request, 6).protocol_name == ""
    assert path.ask(request, 7).protocol_name in (None, "")


def test_the_table_of_phases_is_closed() -> None:
    assert PHASE_TRANSITIONS.keys() == set(Phase)
    assert all(Phase.DEAD in following for following in PHASE_TRANSITIONS.values())
