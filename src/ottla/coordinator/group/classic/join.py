"""JoinGroup to a classic group.

Member ids come from outside, with the request: nothing here draws a random number.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ottla.coordinator.group.classic.group import ClassicGroup
from ottla.coordinator.group.classic.member import ClassicMember, Protocols
from ottla.coordinator.group.classic.phases import Phase
from ottla.coordinator.group.classic.rebalance import (
    NEW_MEMBER_JOIN_TIMEOUT_MS,
    NOTHING,
    answered_when_certain,
    expect_heartbeat,
    expect_join,
    forget_heartbeat,
    maybe_complete_join,
    prepare,
    prepare_or_complete,
)
from ottla.coordinator.group.classic.replay import empty_group_record, group_record
from ottla.coordinator.group.consumer.group import ConsumerGroup
from ottla.coordinator.runtime import UnknownOutcome
from ottla.decisions import Decision
from ottla.model.deferred import Deferred
from ottla.model.errors import ErrorCode, KafkaError
from ottla.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse

if TYPE_CHECKING:
    from ottla.coordinator.group.state import GroupShard

__all__ = ["JoinAttempt", "decide_join"]

FIRST_VERSION_WITH_REBALANCE_TIMEOUT = 1
FIRST_VERSION_WITH_REQUIRED_MEMBER_ID = 4
FIRST_VERSION_WITH_SKIPPED_ASSIGNMENT = 9


class JoinAttempt:
    """A JoinGroup request, who sent it, and the answer it waits for."""

    __slots__ = (
        "answer",
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
        # The member's id, should it turn out to need one.
        self.generated_id = generated_id
        # Copied, since what is decoded is a view of the frame.
        self.protocols: Protocols = tuple((each.name, bytes(each.metadata)) for each in request.protocols)
        has_own_timeout = api_version >= FIRST_VERSION_WITH_REBALANCE_TIMEOUT
        self.rebalance_timeout_ms = request.rebalance_timeout_ms if has_own_timeout else request.session_timeout_ms
        self.answer: Deferred[JoinGroupResponse] = Deferred()

    @property
    def reason(self) -> str:
        return self.request.reason or "not provided"

    def refuse(self, code: ErrorCode, member_id: str | None = None) -> Decision[None]:
        answered_id = self.request.member_id if member_id is None else member_id
        self.answer.resolve(JoinGroupResponse(error_code=code, member_id=answered_id))
        return NOTHING


def decide_join(shard: GroupShard, attempt: JoinAttempt, now_ms: int) -> Decision[None]:
    """Answers through `attempt.answer`, now or when the rebalance is over."""
    request = attempt.request
    group_id = request.group_id
    existing = shard.groups.get(group_id)
    if isinstance(existing, ConsumerGroup):
        return _join_consumer_group(shard, existing, attempt, now_ms)
    if existing is not None and not isinstance(existing, ClassicGroup):
        return attempt.refuse(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "")
    group = existing
    if group is None:
        if request.member_id:
            return attempt.refuse(ErrorCode.UNKNOWN_MEMBER_ID)
        group = shard.groups[group_id] = ClassicGroup(group_id, shard, now_ms=now_ms)
    if not _has_room(group, request.member_id, shard.config.group_max_size):
        group.remove(request.member_id)
        forget_heartbeat(group, request.member_id)
        return attempt.refuse(ErrorCode.GROUP_MAX_SIZE_REACHED, "")
    decision = _join_existing(group, attempt, now_ms) if request.member_id else _join_new(group, attempt, now_ms)
    if existing is None and not decision.records:
        # Written down so that a group exists from the first member's knock on.
        return Decision((empty_group_record(group),), None, replays=False, on_settled=_refuse_unwritten(attempt))
    return decision


def _join_consumer_group(shard: GroupShard, group: ConsumerGroup, attempt: JoinAttempt, now_ms: int) -> Decision[None]:
    """Beside members of the new protocol the classic one is spoken too; an empty group becomes a classic one."""
    from ottla.coordinator.group.consumer.classic_members import decide_classic_join

    if group.members:
        return decide_classic_join(shard, group, attempt, now_ms)
    if attempt.request.member_id:
        return attempt.refuse(ErrorCode.UNKNOWN_MEMBER_ID)
    tombstones = group.tombstones()
    del shard.groups[group.group_id]
    decision = decide_join(shard, attempt, now_ms)

    def on_settled(error: KafkaError | None) -> None:
        if decision.on_settled is not None:
            decision.on_settled(error)
        if error is not None and not isinstance(error, UnknownOutcome):
            shard.groups[group.group_id] = group

    return Decision([*tombstones, *decision.records], None, replays=False, on_settled=on_settled)


def _has_room(group: ClassicGroup, member_id: str, size_max: int) -> bool:
    """While members join again, those count that have: the last ones do not get in when `group.max.size` shrank."""
    if group.phase is Phase.PREPARING_REBALANCE:
        member = group.members.get(member_id)
        is_waiting = member is not None and member.awaiting_join is not None
        return is_waiting or group.awaiting_join_count < size_max
    if group.phase in (Phase.COMPLETING_REBALANCE, Phase.STABLE):
        return member_id in group.members or len(group.members) < size_max
    return True


def _refuse_unwritten(attempt: JoinAttempt) -> Callable[[KafkaError | None], None]:
    def on_settled(error: KafkaError | None) -> None:
        if error is not None and not attempt.answer.done:
            attempt.answer.resolve(JoinGroupResponse(error_code=error.code))

    return on_settled


# New members.


def _join_new(group: ClassicGroup, attempt: JoinAttempt, now_ms: int) -> Decision[None]:
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
        group.pending_join.add(attempt.generated_id)
        expect_join(group, attempt.generated_id, request.session_timeout_ms)
        return attempt.refuse(ErrorCode.MEMBER_ID_REQUIRED, attempt.generated_id)
    return _add(group, attempt, attempt.generated_id, now_ms)


def _add(group: ClassicGroup, attempt: JoinAttempt, member_id: str, now_ms: int) -> Decision[None]:
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
    member.is_new = True
    if group.phase is Phase.PREPARING_REBALANCE and group.previous_phase is Phase.EMPTY:
        group.new_member_added = True
    group.add(member, attempt.answer)
    expect_heartbeat(group, member, NEW_MEMBER_JOIN_TIMEOUT_MS)
    return prepare_or_complete(group, now_ms, f"member {member_id} joins (its reason: {attempt.reason})")


def _return_static(group: ClassicGroup, attempt: JoinAttempt, old_id: str, now_ms: int) -> Decision[None]:
    """A static member is back under a new id: a stable group goes on as it was (KIP-345)."""
    instance_id = attempt.request.group_instance_id
    assert instance_id is not None
    new_id = attempt.generated_id
    old_leader = group.leader_id
    member = group.replace_static(instance_id, old_id, new_id)
    forget_heartbeat(group, old_id)
    expect_heartbeat(group, member)
    before = (member.protocols, member.rebalance_timeout_ms, member.session_timeout_ms)
    _update(group, member, attempt)
    if group.phase is Phase.COMPLETING_REBALANCE:
        # The leader may already assign to the old id.
        return prepare(group, now_ms, f"static member {instance_id} is back under a new id")
    if group.phase is not Phase.STABLE:
        return maybe_complete_join(group, now_ms)
    if group.select_protocol() != group.protocol_name:
        return prepare_or_complete(group, now_ms, f"static member {instance_id} is back with other protocols")

    def on_settled(error: KafkaError | None) -> None:
        if error is None:
            _answer_returned(group, member, attempt, old_leader)
        elif new_id in group.members:
            protocols, rebalance_timeout_ms, session_timeout_ms = before
            group.update(
                member,
                protocols=protocols,
                rebalance_timeout_ms=rebalance_timeout_ms,
                session_timeout_ms=session_timeout_ms,
                awaiting=None,
            )
            forget_heartbeat(group, new_id)
            expect_heartbeat(group, group.replace_static(instance_id, new_id, old_id))
            if not attempt.answer.done:
                attempt.answer.resolve(JoinGroupResponse(error_code=error.code, generation_id=group.generation))

    return Decision((group_record(group),), None, replays=False, on_settled=on_settled)


def _answer_returned(group: ClassicGroup, member: ClassicMember, attempt: JoinAttempt, old_leader: str | None) -> None:
    """A returning leader keeps the lead but must not assign anew; older clients are told of the old leader's id."""
    if group.phase is not Phase.STABLE:
        # A rebalance has begun meanwhile, and will answer.
        return
    if attempt.api_version >= FIRST_VERSION_WITH_SKIPPED_ASSIGNMENT:
        response = group.joined_response(member.member_id)
        response.skip_assignment = group.is_leader(member.member_id)
    else:
        response = group.joined_response(member.member_id, with_members=False)
        response.leader = old_leader or ""
    group.answer_join(member, response)


# Members that are known.


def _join_existing(group: ClassicGroup, attempt: JoinAttempt, now_ms: int) -> Decision[None]:
    request = attempt.request
    member_id = request.member_id
    if group.phase is Phase.DEAD:
        return attempt.refuse(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    if not group.supports(request.protocol_type, (name for name, _ in attempt.protocols)):
        return attempt.refuse(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    if member_id in group.pending_join:
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
        # The leader joins to have the group rebalanced, for reasons that only it knows.
        reason = "leads and joins again"
    else:
        # Its answer was lost: the generation it belongs to has not changed.
        return answered_when_certain(attempt.answer, group.joined_response(member_id))
    _update(group, member, attempt)
    return prepare_or_complete(group, now_ms, f"member {member_id} {reason} (its reason: {attempt.reason})")


def _update(group: ClassicGroup, member: ClassicMember, attempt: JoinAttempt) -> None:
    group.update(
        member,
        protocols=attempt.protocols,
        rebalance_timeout_ms=attempt.rebalance_timeout_ms,
        session_timeout_ms=attempt.request.session_timeout_ms,
        awaiting=attempt.answer,
    )
