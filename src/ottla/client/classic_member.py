"""A member of a classic group: JoinGroup, SyncGroup, Heartbeat and LeaveGroup, and the identity of the member.

The classic protocol is the same for every kind of group. Members join with metadata of their own; the coordinator
picks a leader and sends it the metadata of all members; the leader computes the assignments; SyncGroup distributes
them. The content of metadata and assignments is up to the protocol type: consumers, Connect workers and others are
built on this class.

A method that returns None asks its caller to join again. The coordinator may have removed the member meanwhile; then
`is_member` is False, and the member's former assignment belongs to other members.
"""

from __future__ import annotations

import asyncio
import enum
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ottla.client.cluster import Cluster
from ottla.client.errors import ClientError, check
from ottla.model.errors import ErrorCode, KafkaError
from ottla.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from ottla.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from ottla.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from ottla.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse

__all__ = ["ClassicGroup", "ClassicMember", "Heartbeat"]

# LeaveGroup is given up after this time; the coordinator then removes the member when its session ends.
LEAVE_MS_MAX = 5_000
_REMOVED = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassicGroup:
    """A group and how its member takes part in it."""

    group_id: str
    protocol_type: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    # The time-out of one JoinGroup or SyncGroup request: the coordinator answers when all members are there.
    answer_timeout_ms: int
    # The time-out of the call with all its retries.
    deadline_ms: int
    # Static membership (KIP-345).
    instance_id: str | None = None


class Heartbeat(enum.Enum):
    """The coordinator's answer to a heartbeat."""

    ALIVE = enum.auto()
    # A rebalance has begun: the member is to join again, and keeps its session until then.
    REBALANCE = enum.auto()
    # The coordinator has removed the member.
    REMOVED = enum.auto()
    # Any other error. Joining again shows whether it lasts. A fenced static member has been replaced by another member
    # with its instance id.
    REFUSED = enum.auto()


class ClassicMember:
    def __init__(self, cluster: Cluster, group: ClassicGroup) -> None:
        self._cluster = cluster
        self._group = group
        self.member_id = ""
        self.generation = -1
        # When the coordinator last confirmed the membership, by the clock of the event loop.
        self.confirmed_at = 0.0

    @property
    def is_member(self) -> bool:
        return self.generation >= 0

    @property
    def is_silent(self) -> bool:
        """True if no answer came for the time of a session: the coordinator may have removed the member by now."""
        silent_seconds = asyncio.get_running_loop().time() - self.confirmed_at
        return silent_seconds >= self._group.session_timeout_ms / 1000

    def forget(self) -> None:
        """The member joins as a new one."""
        self.member_id, self.generation = "", -1

    async def join(self, protocols: Mapping[str, bytes]) -> JoinGroupResponse | None:
        """Joins with the metadata for each of the embedded protocols, in order of preference."""
        request = JoinGroupRequest(
            group_id=self._group.group_id,
            session_timeout_ms=self._group.session_timeout_ms,
            rebalance_timeout_ms=self._group.rebalance_timeout_ms,
            member_id=self.member_id,
            group_instance_id=self._group.instance_id,
            protocol_type=self._group.protocol_type,
            protocols=[
                JoinGroupRequestProtocol(name=name, metadata=memoryview(metadata))
                for name, metadata in protocols.items()
            ],
        )
        response: JoinGroupResponse = await self._ask(request)
        if response.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            # The first answer only gives the member its id (KIP-394).
            self.member_id = response.member_id
            return None
        if self._must_join_again(response.error_code):
            return None
        self.member_id, self.generation = response.member_id, response.generation_id
        self.confirmed_at = asyncio.get_running_loop().time()
        return response

    async def sync(self, joined: JoinGroupResponse, assignments: Mapping[str, bytes]) -> memoryview | None:
        """The member's own assignment. `assignments` are those of all members; only the leader has them."""
        request = SyncGroupRequest(
            group_id=self._group.group_id,
            generation_id=joined.generation_id,
            member_id=joined.member_id,
            group_instance_id=self._group.instance_id,
            protocol_type=self._group.protocol_type,
            protocol_name=joined.protocol_name,
            assignments=[
                SyncGroupRequestAssignment(member_id=member_id, assignment=memoryview(assignment))
                for member_id, assignment in assignments.items()
            ],
        )
        response: SyncGroupResponse = await self._ask(request)
        return None if self._must_join_again(response.error_code) else memoryview(response.assignment)

    async def heartbeat(self, *, within_session: bool = False) -> Heartbeat:
        """Sends a heartbeat; `within_session` gives it up when the session must have ended."""
        request = HeartbeatRequest(
            group_id=self._group.group_id,
            generation_id=self.generation,
            member_id=self.member_id,
            group_instance_id=self._group.instance_id,
        )
        sent_at = asyncio.get_running_loop().time()
        limits: dict[str, Any] = {}
        if within_session:
            left_ms = self._group.session_timeout_ms - int((sent_at - self.confirmed_at) * 1000)
            limits = {"timeout_ms": max(left_ms, 100), "deadline": self._cluster.deadline(max(left_ms, 100))}
        response: HeartbeatResponse = await self._cluster.ask_coordinator(
            self._cluster.GROUP, self._group.group_id, request, purpose="group", **limits
        )
        if response.error_code == ErrorCode.NONE:
            # The coordinator counts the session from the arrival of the request, which is not before its sending.
            self.confirmed_at = sent_at
            return Heartbeat.ALIVE
        if response.error_code == ErrorCode.REBALANCE_IN_PROGRESS:
            return Heartbeat.REBALANCE
        if response.error_code in _REMOVED:
            self.forget()
            return Heartbeat.REMOVED
        self._heed_fence(response.error_code)
        return Heartbeat.REFUSED

    async def leave(self, reason: str) -> None:
        """Leaves the group, as far as the coordinator can be reached. A static member stays until its session ends."""
        if not self.member_id or self._group.instance_id is not None:
            return
        member = MemberIdentity(member_id=self.member_id, reason=reason)
        request = LeaveGroupRequest(group_id=self._group.group_id, members=[member])
        try:
            # Not on the connection where a JoinGroup may wait: brokers answer in order.
            await self._cluster.ask_coordinator(
                self._cluster.GROUP, self._group.group_id, request, deadline=self._cluster.deadline(LEAVE_MS_MAX)
            )
        except (ClientError, KafkaError):
            return

    def _must_join_again(self, error_code: int) -> bool:
        """Raises KafkaError for errors that joining again cannot mend."""
        if error_code in _REMOVED:
            self.forget()
            return True
        if error_code == ErrorCode.REBALANCE_IN_PROGRESS:
            return True
        self._heed_fence(error_code)
        check(error_code)
        return False

    def _heed_fence(self, error_code: int) -> None:
        # The member id is kept: a join without it would fence the member that has the instance id now.
        if error_code == ErrorCode.FENCED_INSTANCE_ID:
            self.generation = -1

    async def _ask(self, request: JoinGroupRequest | SyncGroupRequest) -> Any:
        return await self._cluster.ask_coordinator(
            self._cluster.GROUP,
            self._group.group_id,
            request,
            purpose="group",
            timeout_ms=self._group.answer_timeout_ms,
            deadline=self._cluster.deadline(self._group.deadline_ms),
        )
