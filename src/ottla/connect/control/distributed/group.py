"""A worker's membership in its group, over Kafka's own group protocol (protocol type `connect`).

JoinGroup says who the worker is (its REST address), how far it has read the config topic and what it owns; the leader
divides the work (`assignor`) and SyncGroup brings each worker its part, with the addresses of all. `run` goes on for as
long as the worker lives: join, hand the assignment to the worker, send heartbeats until something changes, and again.

A worker that was killed and is back need not wait for its former self (`predecessor`).

A worker that hears nothing from its coordinator for a session's time must believe that others have its work by now: it
gives everything up (`on_lost`) before it goes on.

The name of the embedded protocol is ours: workers of Apache Kafka in the same group are refused by the brokers, because
they could not run our plug-ins.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ottla.client.cluster import Cluster
from ottla.client.errors import ClientError, check
from ottla.connect.control.distributed.assignor import Assignment, Ownership, assign
from ottla.connect.control.distributed.predecessor import dead_members, remove_members
from ottla.connect.control.states import ConfigState, TaskId
from ottla.model.errors import ErrorCode, KafkaError
from ottla.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from ottla.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from ottla.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from ottla.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse

__all__ = ["GroupSettings", "Membership", "WorkerGroup"]

logger = logging.getLogger(__name__)

_PROTOCOL_TYPE = "connect"
_PROTOCOL_NAME = "ottla"
_RETRY_SECONDS = 0.5
# How long a join has, to be with the coordinator before the dead are taken out of the group.
_JOIN_SECONDS = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSettings:
    group_id: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    heartbeat_interval_ms: int
    lost_delay_ms: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Membership:
    """What a round of the group has decided, as one worker sees it."""

    generation: int
    member_id: str
    leader_url: str
    is_leader: bool
    assignment: Assignment
    # Until where the config topic must be read before the assignment makes sense.
    config_offset: int
    # For the leader: the REST address of whoever runs each connector (`name`) and task (`task:name-0`).
    owners: Mapping[str, str] = field(default_factory=dict)


class WorkerGroup:
    """One member. `join` callbacks come on the event loop, one after another."""

    def __init__(
        self,
        cluster: Cluster,
        settings: GroupSettings,
        *,
        url: str,
        refresh: Callable[[], Awaitable[ConfigState]],
        owned: Callable[[], Ownership],
        on_assigned: Callable[[Membership], Awaitable[bool]],
        on_lost: Callable[[], Awaitable[None]],
    ) -> None:
        self._cluster = cluster
        self._settings = settings
        self._url = url
        self._refresh = refresh
        self._owned = owned
        # Answers whether the worker gave something up, so that another round has to follow.
        self._on_assigned = on_assigned
        self._on_lost = on_lost
        self._member_id = ""
        self._generation = -1
        self._rejoin = asyncio.Event()
        self._last_heard = 0.0
        self._divided: dict[str, Assignment] = {}
        # For the leader: all work that there was when it was divided last.
        self.divided_work: tuple[frozenset[str], frozenset[TaskId]] = (frozenset(), frozenset())
        self._urls: dict[str, str] = {}
        self._lost = Ownership()
        self._lost_until = 0.0
        self._dead: list[str] = []

    @property
    def generation(self) -> int:
        return self._generation

    def request_rejoin(self) -> None:
        """The work is to be divided anew: the next heartbeat is a join."""
        self._rejoin.set()

    async def run(self) -> None:
        """Until it is cancelled."""
        await self._look_for_the_dead()
        while True:
            try:
                await self._round()
            except (ClientError, KafkaError, TimeoutError) as error:
                logger.warning("the group %s cannot be joined at the moment: %s", self._settings.group_id, error)
                await self._give_up_when_silent()
                await asyncio.sleep(_RETRY_SECONDS)

    async def leave(self) -> None:
        """Others take over at once."""
        if not self._member_id:
            return
        request = LeaveGroupRequest(
            group_id=self._settings.group_id,
            members=[MemberIdentity(member_id=self._member_id, reason="the worker stops")],
        )
        try:
            await self._ask(request, deadline_ms=5_000)
        except (ClientError, KafkaError):
            # The session ends by itself, later.
            return

    async def _round(self) -> None:
        self._rejoin.clear()
        state = await self._refresh()
        joined = await self._join(state)
        if joined is None:
            return
        self._last_heard = asyncio.get_running_loop().time()
        assignments = await self._divide(joined) if joined.leader == joined.member_id else []
        membership = await self._sync(joined, assignments)
        if membership is None:
            return
        beats = asyncio.ensure_future(self._heartbeats())
        try:
            if await self._on_assigned(membership):
                # Something was given up: now others can have it.
                return
            await beats
        finally:
            beats.cancel()
            await asyncio.gather(beats, return_exceptions=True)

    async def _join(self, state: ConfigState) -> JoinGroupResponse | None:
        owned = self._owned()
        metadata = json.dumps(
            {"url": self._url, "config_offset": state.offset, **_ownership_value(owned)}, separators=(",", ":")
        ).encode()
        request = JoinGroupRequest(
            group_id=self._settings.group_id,
            session_timeout_ms=self._settings.session_timeout_ms,
            rebalance_timeout_ms=self._settings.rebalance_timeout_ms,
            member_id=self._member_id,
            protocol_type=_PROTOCOL_TYPE,
            protocols=[JoinGroupRequestProtocol(name=_PROTOCOL_NAME, metadata=memoryview(metadata))],
        )
        removing = asyncio.ensure_future(self._remove_the_dead()) if self._dead and self._member_id else None
        try:
            response: JoinGroupResponse = await self._ask(
                request, deadline_ms=self._settings.rebalance_timeout_ms + self._settings.session_timeout_ms
            )
        finally:
            if removing is not None:
                removing.cancel()
                await asyncio.gather(removing, return_exceptions=True)
        if response.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self._member_id = response.member_id
            return None
        if response.error_code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION):
            await self._forget()
            return None
        check(response.error_code)
        self._member_id, self._generation = response.member_id, response.generation_id
        return response

    async def _look_for_the_dead(self) -> None:
        try:
            self._dead = await dead_members(
                self._cluster, self._settings.group_id, protocol=_PROTOCOL_NAME, url=self._url
            )
        except (ClientError, KafkaError) as error:
            logger.info("it is not known whether the group has a member at this address: %s", error)

    async def _remove_the_dead(self) -> None:
        await asyncio.sleep(_JOIN_SECONDS)
        try:
            await remove_members(self._cluster, self._settings.group_id, self._dead)
            logger.info("a worker that was here before is taken out of the group: %s", ", ".join(self._dead))
        except (ClientError, KafkaError) as error:
            logger.info("the group waits for a worker that was here before: %s", error)
        self._dead = []

    async def _divide(self, joined: JoinGroupResponse) -> list[SyncGroupRequestAssignment]:
        """The leader's part: everybody's share, from the config topic as it is now."""
        state = await self._refresh()
        told = {member.member_id: json.loads(bytes(member.metadata)) for member in joined.members}
        owned = {member: _ownership(value) for member, value in told.items()}
        self._note_lost(owned)
        self.divided_work = (frozenset(state.connectors), frozenset(state.all_tasks()))
        division = assign(owned, connectors=self.divided_work[0], tasks=self.divided_work[1], lost=self._lost)
        self._urls = {member: value["url"] for member, value in told.items()}
        self._divided = dict(division.assignments)
        owners = {
            (name if isinstance(name, str) else f"task:{name}"): self._urls[member]
            for member, share in division.assignments.items()
            for name in (*share.connectors, *share.tasks)
        }
        answers = []
        for member, share in division.assignments.items():
            value = {
                "leader_url": self._url,
                "config_offset": state.offset,
                **_ownership_value(share),
                # Only the leader forwards to owners; the others ask the leader.
                **({"owners": owners} if member == joined.member_id else {}),
            }
            content = json.dumps(value, separators=(",", ":")).encode()
            answers.append(SyncGroupRequestAssignment(member_id=member, assignment=memoryview(content)))
        return answers

    def _note_lost(self, owned: Mapping[str, Ownership]) -> None:
        """Work of members that are gone waits for a while, if that is wished."""
        now = asyncio.get_running_loop().time()
        gone = [share for member, share in self._divided.items() if member not in owned]
        if gone and self._settings.lost_delay_ms > 0:
            self._lost = Ownership(
                self._lost.connectors.union(*(share.connectors for share in gone)),
                self._lost.tasks.union(*(share.tasks for share in gone)),
            )
            if not self._lost_until:
                self._lost_until = now + self._settings.lost_delay_ms / 1000
        if self._lost_until and now >= self._lost_until:
            self._lost, self._lost_until = Ownership(), 0.0

    async def _sync(
        self, joined: JoinGroupResponse, assignments: list[SyncGroupRequestAssignment]
    ) -> Membership | None:
        request = SyncGroupRequest(
            group_id=self._settings.group_id,
            generation_id=joined.generation_id,
            member_id=joined.member_id,
            protocol_type=_PROTOCOL_TYPE,
            protocol_name=_PROTOCOL_NAME,
            assignments=assignments,
        )
        response: SyncGroupResponse = await self._ask(request, deadline_ms=self._settings.rebalance_timeout_ms)
        if response.error_code == ErrorCode.REBALANCE_IN_PROGRESS:
            return None
        if response.error_code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION):
            await self._forget()
            return None
        check(response.error_code)
        value = json.loads(bytes(response.assignment))
        return Membership(
            generation=joined.generation_id,
            member_id=joined.member_id,
            leader_url=value["leader_url"],
            is_leader=joined.leader == joined.member_id,
            assignment=_ownership(value),
            config_offset=value["config_offset"],
            owners=value.get("owners", {}),
        )

    async def _heartbeats(self) -> None:
        """Until the group wants everybody back, or this worker wants to."""
        interval = self._settings.heartbeat_interval_ms / 1000
        while True:
            timeout = interval
            if self._lost_until:
                timeout = max(min(interval, self._lost_until - asyncio.get_running_loop().time()), 0.01)
            try:
                async with asyncio.timeout(timeout):
                    await self._rejoin.wait()
                return
            except TimeoutError:
                pass
            if self._lost_until and asyncio.get_running_loop().time() >= self._lost_until:
                # Nobody came back: the leader divides again.
                return
            if await self._beat():
                return

    async def _beat(self) -> bool:
        """One sign of life; whether a round must follow."""
        request = HeartbeatRequest(
            group_id=self._settings.group_id, generation_id=self._generation, member_id=self._member_id
        )
        sent = asyncio.get_running_loop().time()
        left_ms = self._settings.session_timeout_ms - int((sent - self._last_heard) * 1000)
        try:
            response: HeartbeatResponse = await self._ask(request, deadline_ms=max(left_ms, 100))
        except (ClientError, KafkaError) as error:
            logger.warning("no sign of life reaches the group: %s", error)
            return await self._give_up_when_silent()
        if response.error_code == ErrorCode.NONE:
            # The coordinator counts from when it got the request, which is not before it was sent.
            self._last_heard = sent
            return False
        if response.error_code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION):
            await self._forget()
        return True

    async def _forget(self) -> None:
        """The group has gone on without this worker: others have its work."""
        had = self._generation >= 0
        self._member_id, self._generation = "", -1
        self._divided = {}
        if had:
            await self._on_lost()

    async def _give_up_when_silent(self) -> bool:
        silent = asyncio.get_running_loop().time() - self._last_heard
        if self._generation >= 0 and silent >= self._settings.session_timeout_ms / 1000:
            await self._forget()
            return True
        return False

    async def _ask(self, request: Any, *, deadline_ms: int) -> Any:
        return await self._cluster.ask_coordinator(
            self._cluster.GROUP,
            self._settings.group_id,
            request,
            purpose="group",
            timeout_ms=deadline_ms,
            deadline=self._cluster.deadline(deadline_ms),
        )


def _ownership_value(owned: Ownership) -> dict[str, Any]:
    return {
        "connectors": sorted(owned.connectors),
        "tasks": [[task.connector, task.task] for task in sorted(owned.tasks)],
    }


def _ownership(value: Mapping[str, Any]) -> Ownership:
    return Ownership(
        frozenset(value["connectors"]), frozenset(TaskId(connector, number) for connector, number in value["tasks"])
    )
