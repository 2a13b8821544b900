"""What a member of a classic group does with the coordinator's answers."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from ottla.client.classic_member import ClassicGroup, ClassicMember, Heartbeat
from ottla.client.errors import TimedOut
from ottla.model.errors import ErrorCode, KafkaError
from ottla.wire.messages.heartbeat import HeartbeatResponse
from ottla.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse
from ottla.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from ottla.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse

JOINED = JoinGroupResponse(member_id="m", generation_id=3, leader="m", protocol_name="range")


class Coordinator:
    """A cluster whose coordinator gives the answers of a script; an exception stands for no answer."""

    GROUP = 0

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.asked: list[Any] = []
        self.limits: list[dict[str, Any]] = []
        # How long an answer takes, by the clock of the loop.
        self.delay = 0.0

    def deadline(self, timeout_ms: int) -> float:
        return asyncio.get_running_loop().time() + timeout_ms / 1000

    async def ask_coordinator(self, _kind: int, _key: str, request: Any, **limits: Any) -> Any:
        self.asked.append(request)
        self.limits.append(limits)
        await asyncio.sleep(self.delay)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


def run(
    work: Callable[[ClassicMember, Coordinator], Awaitable[None]], *answers: Any, instance_id: str | None = None
) -> Coordinator:
    coordinator: Any = Coordinator(*answers)
    group = ClassicGroup(
        group_id="g",
        protocol_type="test",
        session_timeout_ms=10_000,
        rebalance_timeout_ms=60_000,
        answer_timeout_ms=65_000,
        deadline_ms=120_000,
        instance_id=instance_id,
    )
    asyncio.run(_within(work, ClassicMember(coordinator, group), coordinator))
    assert coordinator.answers == []
    scripted: Coordinator = coordinator
    return scripted


async def _within(work: Any, *arguments: Any) -> None:
    await work(*arguments)


def test_the_first_answer_gives_the_member_its_id_and_the_second_its_generation() -> None:
    async def work(member: ClassicMember, _: Coordinator) -> None:
        assert await member.join({"range": b"r", "sticky": b"s"}) is None
        assert (member.member_id, member.is_member) == ("m", False)
        assert await member.join({"range": b"r"}) is JOINED
        assert (member.member_id, member.generation, member.is_member) == ("m", 3, True)
        assert not member.is_silent

    required = JoinGroupResponse(error_code=ErrorCode.MEMBER_ID_REQUIRED, member_id="m")
    first, second = run(work, required, JOINED).asked
    assert isinstance(first, JoinGroupRequest)
    assert [(protocol.name, bytes(protocol.metadata)) for protocol in first.protocols] == [
        ("range", b"r"),
        ("sticky", b"s"),
    ]
    assert (first.member_id, second.member_id) == ("", "m")


@pytest.mark.parametrize("code", [ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION])
def test_a_removed_member_joins_as_a_new_one(code: ErrorCode) -> None:
    async def work(member: ClassicMember, _: Coordinator) -> None:
        for ask in (
            lambda: member.join({"range": b""}),
            lambda: member.sync(JOINED, {}),
            lambda: member.heartbeat(),
        ):
            member.member_id, member.generation = "m", 3
            assert await ask() in (None, Heartbeat.REMOVED)
            assert (member.member_id, member.generation, member.is_member) == ("", -1, False)

    run(work, *(kind(error_code=code) for kind in (JoinGroupResponse, SyncGroupResponse, HeartbeatResponse)))


def test_a_rebalance_keeps_the_membership() -> None:
    async def work(member: ClassicMember, _: Coordinator) -> None:
        await member.join({"range": b""})
        assert await member.sync(JOINED, {}) is None
        assert await member.heartbeat() is Heartbeat.REBALANCE
        assert (member.member_id, member.generation) == ("m", 3)

    code = ErrorCode.REBALANCE_IN_PROGRESS
    run(work, JOINED, SyncGroupResponse(error_code=code), HeartbeatResponse(error_code=code))


def test_the_leader_hands_out_assignments_and_gets_its_own() -> None:
    async def work(member: ClassicMember, _: Coordinator) -> None:
        assert bytes(await member.sync(JOINED, {"m": b"mine", "other": b"theirs"}) or b"") == b"mine"

    (request,) = run(work, SyncGroupResponse(assignment=memoryview(b"mine"))).asked
    assert isinstance(request, SyncGroupRequest)
    assert request.generation_id == 3
    assert {assignment.member_id: bytes(assignment.assignment) for assignment in request.assignments} == {
        "m": b"mine",
        "other": b"theirs",
    }


def test_errors_that_joining_again_cannot_mend_are_raised() -> None:
    async def work(member: ClassicMember, _: Coordinator) -> None:
        with pytest.raises(KafkaError) as raised:
            await member.join({"range": b""})
        assert raised.value.code == ErrorCode.GROUP_AUTHORIZATION_FAILED
        assert await member.heartbeat() is Heartbeat.REFUSED

    code = ErrorCode.GROUP_AUTHORIZATION_FAILED
    run(work, JoinGroupResponse(error_code=code), HeartbeatResponse(error_code=code))


def test_the_session_counts_from_the_sending_of_the_last_answered_heartbeat() -> None:
    async def work(member: ClassicMember, coordinator: Coordinator) -> None:
        await member.join({"range": b""})
        now = asyncio.get_running_loop().time()
        member.confirmed_at = now - 4
        coordinator.delay = 0.05
        assert await member.heartbeat(within_session=True) is Heartbeat.ALIVE
        assert now <= member.confirmed_at < asyncio.get_running_loop().time() - 0.04
        member.confirmed_at = before = now - 11
        with pytest.raises(TimedOut):
            await member.heartbeat(within_session=True)
        assert member.confirmed_at == before
        assert member.is_silent
        assert member.is_member

    limits = run(work, JOINED, HeartbeatResponse(), TimedOut("The coordinator did not answer.")).limits
    # The rest of the session timeout of ten seconds, and always more than zero.
    assert 5_000 < limits[1]["timeout_ms"] <= 6_000
    assert limits[2]["timeout_ms"] == 100


def test_who_leaves_is_not_held_up_by_a_coordinator_that_is_away() -> None:
    async def work(member: ClassicMember, _: Coordinator) -> None:
        await member.leave("not a member yet")
        await member.join({"range": b""})
        await member.leave("the end")
        await member.leave("the end")

    requests = run(work, JOINED, LeaveGroupResponse(), TimedOut("The coordinator did not answer.")).asked
    assert [type(request) for request in requests] == [JoinGroupRequest, LeaveGroupRequest, LeaveGroupRequest]
    assert [(leaving.member_id, leaving.reason) for leaving in requests[1].members] == [("m", "the end")]


def test_a_static_member_does_not_leave() -> None:
    async def work(member: ClassicMember, _: Coordinator) -> None:
        await member.join({"range": b""})
        await member.leave("the end")

    (join_request,) = run(work, JOINED, instance_id="i").asked
    assert join_request.group_instance_id == "i"
