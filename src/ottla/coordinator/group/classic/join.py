"""JoinGroup to a classic group.

The response of these decisions is a `Deferred`: most requests wait in the group until the rebalance is over. Member ids
are parameters, because decisions draw no random numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ottla.coordinator.group.classic.group import ClassicGroup, select_protocol
from ottla.coordinator.group.classic.member import ClassicMember, Protocols
from ottla.coordinator.group.classic.phases import Phase
from ottla.coordinator.group.classic.rebalance import (
    NEW_MEMBER_JOIN_TIMEOUT_MS,
    prepare,
    prepare_or_complete,
)
from ottla.coordinator.group.classic.replay import group_record, new_group_record
from ottla.coordinator.group.classic.sessions import expect_heartbeat, expect_join
from ottla.coordinator.group.classic.soft import AnswerList
from ottla.coordinator.group.consumer.group import ConsumerGroup
from ottla.decisions import Decision
from ottla.model.deferred import Deferred
from ottla.model.errors import ErrorCode, KafkaError
from ottla.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse

if TYPE_CHECKING:
    from ottla.coordinator.group.state import GroupShard
    from ottla.coordinator.runtime import CoordinatorRecord

__all__ = ["JoinAttempt", "JoinDecision", "decide_join"]

FIRST_VERSION_WITH_REBALANCE_TIMEOUT = 1
FIRST_VERSION_WITH_REQUIRED_MEMBER_ID = 4
FIRST_VERSION_WITH_SKIPPED_ASSIGNMENT = 9


# The response, or where it will be when the rebalance is over.
JoinDecision = Decision[Deferred[JoinGroupResponse]]


class JoinAttempt:
    """A JoinGroup request and its sender."""

    __slots__ = (
        "api_version",
        "client_host",
        "client_id",
        "generated_id",
        "protocols",
        "rebalance_timeout_ms",
        "request",
    )

    def __init__(
        self, request: JoinGroupRequest, *, api_version: int, client_id: str, client_host: str, generated_id: str
    ) -> None:
        self.request = request
        self.api_version = api_version
        self.client_id = client_id
        self.client_host = client_host
        # The member's id if it needs a new one.
        self.generated_id = generated_id
        # The metadata is copied, because the decoded value is a view of the frame.
        self.protocols: Protocols = tuple((protocol.name, bytes(protocol.metadata)) for protocol in request.protocols)
        has_own_timeout = api_version >= FIRST_VERSION_WITH_REBALANCE_TIMEOUT
        self.rebalance_timeout_ms = request.rebalance_timeout_ms if has_own_timeout else request.session_timeout_ms

    @property
    def reason(self) -> str:
        return self.request.reason or "not provided"

    def refuse(self, code: ErrorCode, member_id: str | None = None) -> JoinDecision:
        answered_id = self.request.member_id if member_id is None else member_id
        return Decision((), Deferred.resolved(JoinGroupResponse(error_code=code, member_id=answered_id)))


def decide_join(shard: GroupShard, attempt: JoinAttempt, now_ms: int) -> JoinDecision:
    request = attempt.request
    group_id = request.group_id
    group = shard.groups.get(group_id)
    if isinstance(group, ConsumerGroup):
        return _join_consumer_group(shard, group, attempt, now_ms)
    if group is None:
        if request.member_id:
            return attempt.refuse(ErrorCode.UNKNOWN_MEMBER_ID)
        # A group exists from the first JoinGroup request on.
        return _join_new_group(attempt, [new_group_record(group_id, now_ms)])
    if not isinstance(group, ClassicGroup):
        return attempt.refuse(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "")
    if not _has_room(group, request.member_id, shard.config.group_max_size):
        group.remove(request.member_id)
        return attempt.refuse(ErrorCode.GROUP_MAX_SIZE_REACHED, "")
    return _join_existing(group, attempt, now_ms) if request.member_id else _join_new(group, attempt, now_ms)


def _join_consumer_group(shard: GroupShard, group: ConsumerGroup, attempt: JoinAttempt, now_ms: int) -> JoinDecision:
    """Members of both protocols share a consumer group. An empty consumer group becomes a classic group."""
    from ottla.coordinator.group.consumer.classic_members import decide_classic_join

    if group.members:
        return decide_classic_join(shard, group, attempt, now_ms)
    if attempt.request.member_id:
        return attempt.refuse(ErrorCode.UNKNOWN_MEMBER_ID)
    return _join_new_group(attempt, [*group.tombstones(), new_group_record(group.group_id, now_ms)])


def _join_new_group(attempt: JoinAttempt, records: Sequence[CoordinatorRecord]) -> JoinDecision:
    return Decision.first(records, lambda shard, now_ms: decide_join(shard, attempt, now_ms))


def _has_room(group: ClassicGroup, member_id: str, size_max: int) -> bool:
    """During a rebalance only joined members count: after `group.max.size` has shrunk, the last members are refused."""
    if group.phase is Phase.PREPARING_REBALANCE:
        return group.soft.has_joined(member_id) or group.soft.join_count < size_max
    if group.phase in (Phase.COMPLETING_REBALANCE, Phase.STABLE):
        return member_id in group.members or len(group.members) < size_max
    return True


# New members.


def _join_new(group: ClassicGroup, attempt: JoinAttempt, now_ms: int) -> JoinDecision:
    request = attempt.request
    if group.phase is Phase.DEAD:
        return attempt.refuse(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    if not group.supports(request.protocol_type, (name for name, _ in attempt.protocols)):
        return attempt.refuse(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    instance_id = request.group_instance_id
    if instance_id is not None:
        old_id = group.static_members.get(instance_id)
        if old_id is not None:
            return _return_static(group, attempt, old_id, now_ms)
    elif attempt.api_version >= FIRST_VERSION_WITH_REQUIRED_MEMBER_ID:
        group.soft.expect_id(attempt.generated_id)
        expect_join(group, attempt.generated_id, request.session_timeout_ms)
        return attempt.refuse(ErrorCode.MEMBER_ID_REQUIRED, attempt.generated_id)
    return _add(group, attempt, attempt.generated_id, now_ms)


def _add(group: ClassicGroup, attempt: JoinAttempt, member_id: str, now_ms: int) -> JoinDecision:
    request = attempt.request
    member = ClassicMember(
        member_id=member_id,
        instance_id=request.group_instance_id,
        client_id=attempt.client_id,
        client_host=attempt.client_host,
        rebalance_timeout_ms=attempt.rebalance_timeout_ms,
        session_timeout_ms=request.session_timeout_ms,
        protocol_type=request.protocol_type,
        protocols=attempt.protocols,
    )
    is_late = group.phase is Phase.PREPARING_REBALANCE and group.previous_phase is Phase.EMPTY
    group.add(member)
    answer: Deferred[JoinGroupResponse] = Deferred()
    group.soft.wait_for_first_join(member_id, answer, is_late=is_late)
    expect_heartbeat(group, member, NEW_MEMBER_JOIN_TIMEOUT_MS)
    answers: AnswerList = []
    prepare_or_complete(group, answers, now_ms, f"member {member_id} joins (its reason: {attempt.reason})")
    return Decision((), answer, answers=answers)


def _return_static(group: ClassicGroup, attempt: JoinAttempt, old_id: str, now_ms: int) -> JoinDecision:
    """A static member returns under a new id. A stable group continues without a rebalance (KIP-345)."""
    old = group.members[old_id]
    new = ClassicMember(
        member_id=attempt.generated_id,
        instance_id=old.instance_id,
        client_id=old.client_id,
        client_host=old.client_host,
        rebalance_timeout_ms=attempt.rebalance_timeout_ms,
        session_timeout_ms=attempt.request.session_timeout_ms,
        protocol_type=old.protocol_type,
        protocols=attempt.protocols,
        assignment=old.assignment,
    )
    # The same instance runs twice, or its previous process has ended: only the newest process may continue.
    answers = group.soft.answers_to((old_id,), ErrorCode.FENCED_INSTANCE_ID)
    members = [*(member for member in group.members.values() if member is not old), new]
    if group.phase is Phase.STABLE and select_protocol(members) == group.protocol_name:
        return _keep_static(group, attempt, old, new, answers, now_ms)
    group.replace(old, new)
    answer: Deferred[JoinGroupResponse] = Deferred()
    group.soft.wait_for_join(new.member_id, answer)
    expect_heartbeat(group, new)
    if group.phase is Phase.COMPLETING_REBALANCE:
        # The leader may already assign to the old id.
        prepare(group, answers, now_ms, f"static member {new.instance_id} is back under a new id")
    else:
        prepare_or_complete(group, answers, now_ms, f"static member {new.instance_id} is back with other protocols")
    return Decision((), answer, answers=answers)


def _keep_static(
    group: ClassicGroup,
    attempt: JoinAttempt,
    old: ClassicMember,
    new: ClassicMember,
    answers: AnswerList,
    now_ms: int,
) -> JoinDecision:
    """The generation continues with the new id in its record."""
    old_leader = group.leader_id
    record = group_record(
        group,
        now_ms=now_ms,
        members=[*(member for member in group.members.values() if member is not old), new],
        leader_id=new.member_id if group.is_leader(old.member_id) else None,
    )

    def answer(_shard: GroupShard, _now_ms: int) -> JoinDecision:
        member = group.members[new.member_id]
        # The record holds only the protocol that the group uses.
        group.update(
            member,
            protocols=new.protocols,
            rebalance_timeout_ms=new.rebalance_timeout_ms,
            session_timeout_ms=new.session_timeout_ms,
        )
        expect_heartbeat(group, member)
        response = _returned_response(group, member.member_id, attempt.api_version, old_leader)
        return Decision((), Deferred.resolved(response), answers=answers)

    return Decision.first([record], answer)


def _returned_response(
    group: ClassicGroup, member_id: str, api_version: int, old_leader: str | None
) -> JoinGroupResponse:
    """A returning leader stays the leader but must not assign again. Older clients get the old leader's id instead."""
    if api_version >= FIRST_VERSION_WITH_SKIPPED_ASSIGNMENT:
        response = group.joined_response(member_id)
        response.skip_assignment = group.is_leader(member_id)
    else:
        response = group.joined_response(member_id, with_members=False)
        response.leader = old_leader or ""
    return response


# Members that are known.


def _join_existing(group: ClassicGroup, attempt: JoinAttempt, now_ms: int) -> JoinDecision:
    request = attempt.request
    member_id = request.member_id
    if group.phase is Phase.DEAD:
        return attempt.refuse(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    if not group.supports(request.protocol_type, (name for name, _ in attempt.protocols)):
        return attempt.refuse(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    if member_id in group.soft.pending_ids:
        return _add(group, attempt, member_id, now_ms)
    try:
        group.check_member(member_id, request.group_instance_id)
    except KafkaError as error:
        return attempt.refuse(error.code)
    member = group.members[member_id]
    has_changed = member.protocols != attempt.protocols
    if group.phase is Phase.PREPARING_REBALANCE:
        reason = "joins during a rebalance"
    elif group.phase is Phase.EMPTY:
        return attempt.refuse(ErrorCode.UNKNOWN_MEMBER_ID)
    elif has_changed:
        reason = "has other metadata"
    elif group.phase is Phase.STABLE and group.is_leader(member_id):
        # The leader joins again to trigger a rebalance, for example because the topics have changed.
        reason = "leads and joins again"
    else:
        # The response was lost: the member's generation has not changed.
        return Decision((), Deferred.resolved(group.joined_response(member_id)))
    group.update(
        member,
        protocols=attempt.protocols,
        rebalance_timeout_ms=attempt.rebalance_timeout_ms,
        session_timeout_ms=request.session_timeout_ms,
    )
    answers: AnswerList = []
    earlier = group.soft.take_join(member_id)
    if earlier is not None:
        # The client has abandoned the earlier request, because it has sent another one.
        answers.append((earlier, JoinGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS)))
    answer: Deferred[JoinGroupResponse] = Deferred()
    group.soft.wait_for_join(member_id, answer)
    prepare_or_complete(group, answers, now_ms, f"member {member_id} {reason} (its reason: {attempt.reason})")
    return Decision((), answer, answers=answers)
