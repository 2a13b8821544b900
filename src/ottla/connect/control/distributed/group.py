"""A worker's membership in its group, over the classic group protocol (`client.classic_member`).

JoinGroup carries the worker's REST address, the offset up to which it has read the config topic, and the work that it
owns. The leader assigns connectors and tasks (`assignor`), and SyncGroup hands every worker its share. `run` repeats:
join, give the assignment to the worker, send heartbeats until a rebalance is due.

A worker that was killed and started again does not wait for the end of its former session (`predecessor`).

A worker without an answer from its coordinator for the time of a session must assume that other workers have its work:
it stops everything (`on_lost`) before it joins again.

The name of the embedded protocol is ours: brokers refuse workers of Apache Kafka in the same group, because they could
not run our plug-ins.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ottla.client.classic_member import ClassicGroup, ClassicMember, Heartbeat
from ottla.client.cluster import Cluster
from ottla.client.errors import ClientError
from ottla.connect.control.distributed.assignor import Assignment, Ownership, assign
from ottla.connect.control.distributed.predecessor import dead_members, remove_members
from ottla.connect.control.states import ConfigState, TaskId
from ottla.model.errors import KafkaError
from ottla.wire.messages.join_group import JoinGroupResponse

__all__ = ["GroupSettings", "Membership", "WorkerGroup"]

logger = logging.getLogger(__name__)

_PROTOCOL_NAME = "ottla"
_RETRY_SECONDS = 0.5
# JoinGroup should reach the coordinator within this time; only then are dead members removed.
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
    """The outcome of a rebalance, as this worker sees it."""

    generation: int
    member_id: str
    leader_url: str
    is_leader: bool
    assignment: Assignment
    # The assignment refers to the config topic up to this offset.
    config_offset: int
    # As leader: the REST addresses of the owners of connectors (`name`) and tasks (`task:name-0`).
    owners: Mapping[str, str] = field(default_factory=dict)


class WorkerGroup:
    """A worker's member of the group. Callbacks are called on the event loop, one at a time."""

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
        # Returns True if the worker gave up work, which another round has to assign.
        self._on_assigned = on_assigned
        self._on_lost = on_lost
        patience_ms = settings.rebalance_timeout_ms + settings.session_timeout_ms
        self.member = ClassicMember(
            cluster,
            ClassicGroup(
                group_id=settings.group_id,
                protocol_type="connect",
                session_timeout_ms=settings.session_timeout_ms,
                rebalance_timeout_ms=settings.rebalance_timeout_ms,
                answer_timeout_ms=patience_ms,
                deadline_ms=patience_ms,
            ),
        )
        self._rejoin = asyncio.Event()
        # As leader: the last assignment by member id, and all connectors and tasks that there were.
        self._assigned: dict[str, Assignment] = {}
        self.divided_work: tuple[frozenset[str], frozenset[TaskId]] = (frozenset(), frozenset())
        # As leader: work of members that are gone, which is kept for them until a time of the loop's clock.
        self._lost = Ownership()
        self._lost_until = 0.0
        # Members of the group at this worker's own address, from before it was started.
        self._dead: list[str] = []

    def request_rejoin(self) -> None:
        """Starts a rebalance instead of sending the next heartbeat."""
        self._rejoin.set()

    async def run(self) -> None:
        """Runs until it is cancelled."""
        await self._find_dead_members()
        while True:
            try:
                await self._round()
            except (ClientError, KafkaError, TimeoutError) as error:
                logger.warning("Joining the group %s failed and is tried again: %s", self._settings.group_id, error)
                await self._give_up_when_silent()
                await asyncio.sleep(_RETRY_SECONDS)

    async def leave(self) -> None:
        """Leaves the group, so that other workers take over at once."""
        await self.member.leave("the worker stops")

    async def _round(self) -> None:
        """One generation of the group: from the join to the next rebalance."""
        self._rejoin.clear()
        state = await self._refresh()
        was_member = self.member.is_member
        joined = await self._join(state)
        if joined is None:
            await self._give_up_when_removed(was_member=was_member)
            return
        is_leader = joined.leader == joined.member_id
        if not is_leader:
            # Another worker keeps the work of lost members now.
            self._assigned, self._lost, self._lost_until = {}, Ownership(), 0.0
        content = await self.member.sync(joined, await self._assign(joined) if is_leader else {})
        if content is None:
            await self._give_up_when_removed(was_member=True)
            return
        membership = _membership(joined, bytes(content))
        heartbeats = asyncio.ensure_future(self._heartbeats())
        try:
            if await self._on_assigned(membership):
                # The next round assigns the work that was given up.
                return
            await heartbeats
        finally:
            heartbeats.cancel()
            await asyncio.gather(heartbeats, return_exceptions=True)

    async def _join(self, state: ConfigState) -> JoinGroupResponse | None:
        value = {"url": self._url, "config_offset": state.offset, **_ownership_value(self._owned())}
        metadata = json.dumps(value, separators=(",", ":")).encode()
        removing = asyncio.ensure_future(self._remove_dead_members()) if self._dead and self.member.member_id else None
        try:
            return await self.member.join({_PROTOCOL_NAME: metadata})
        finally:
            if removing is not None:
                removing.cancel()
                await asyncio.gather(removing, return_exceptions=True)

    async def _find_dead_members(self) -> None:
        try:
            self._dead = await dead_members(
                self._cluster, self._settings.group_id, protocol=_PROTOCOL_NAME, url=self._url
            )
        except (ClientError, KafkaError) as error:
            logger.info(
                "Looking for members of this address in the group %s failed: %s", self._settings.group_id, error
            )

    async def _remove_dead_members(self) -> None:
        await asyncio.sleep(_JOIN_SECONDS)
        names = ", ".join(self._dead)
        try:
            await remove_members(self._cluster, self._settings.group_id, self._dead)
            logger.info("Members of a previous worker at this address were removed from the group: %s", names)
        except (ClientError, KafkaError) as error:
            logger.info("Members of a previous worker stay until their session ends: %s: %s", names, error)
        self._dead = []

    async def _assign(self, joined: JoinGroupResponse) -> dict[str, bytes]:
        """As leader: the shares of all members, from the config topic as it is now."""
        state = await self._refresh()
        metadata = {member.member_id: json.loads(bytes(member.metadata)) for member in joined.members}
        owned = {member_id: _ownership(value) for member_id, value in metadata.items()}
        self._keep_lost_work(owned)
        self.divided_work = (frozenset(state.connectors), frozenset(state.all_tasks()))
        division = assign(owned, connectors=self.divided_work[0], tasks=self.divided_work[1], lost=self._lost)
        self._assigned = dict(division.assignments)
        owners = {
            (work if isinstance(work, str) else f"task:{work}"): metadata[member_id]["url"]
            for member_id, share in division.assignments.items()
            for work in (*share.connectors, *share.tasks)
        }
        assignments = {}
        for member_id, share in division.assignments.items():
            value = {
                "leader_url": self._url,
                "config_offset": state.offset,
                **_ownership_value(share),
                # Only the leader forwards to owners; the other members forward to the leader.
                **({"owners": owners} if member_id == joined.member_id else {}),
            }
            assignments[member_id] = json.dumps(value, separators=(",", ":")).encode()
        return assignments

    def _keep_lost_work(self, owned: Mapping[str, Ownership]) -> None:
        """Keeps the work of members that are gone unassigned for `lost_delay_ms`: they may come back (KIP-415)."""
        now = asyncio.get_running_loop().time()
        gone = [share for member_id, share in self._assigned.items() if member_id not in owned]
        if gone and self._settings.lost_delay_ms > 0:
            self._lost = Ownership(
                self._lost.connectors.union(*(share.connectors for share in gone)),
                self._lost.tasks.union(*(share.tasks for share in gone)),
            )
            if not self._lost_until:
                self._lost_until = now + self._settings.lost_delay_ms / 1000
        if self._lost_until and now >= self._lost_until:
            self._lost, self._lost_until = Ownership(), 0.0

    async def _heartbeats(self) -> None:
        """Returns when this worker has to join again."""
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
                # The lost members did not come back: a rebalance assigns their work.
                return
            if await self._must_join_after_heartbeat():
                return

    async def _must_join_after_heartbeat(self) -> bool:
        was_member = self.member.is_member
        try:
            answer = await self.member.heartbeat(within_session=True)
        except (ClientError, KafkaError) as error:
            logger.warning("The group %s was not reached by a heartbeat: %s", self._settings.group_id, error)
            return await self._give_up_when_silent()
        await self._give_up_when_removed(was_member=was_member)
        return answer is not Heartbeat.ALIVE

    async def _give_up_when_removed(self, *, was_member: bool) -> None:
        """Gives all work up if the coordinator has removed this worker: other workers have it."""
        if not self.member.is_member:
            self._assigned = {}
            if was_member:
                await self._on_lost()

    async def _give_up_when_silent(self) -> bool:
        if not (self.member.is_member and self.member.is_silent):
            return False
        self.member.forget()
        await self._give_up_when_removed(was_member=True)
        return True


def _membership(joined: JoinGroupResponse, assignment: bytes) -> Membership:
    value = json.loads(assignment)
    return Membership(
        generation=joined.generation_id,
        member_id=joined.member_id,
        leader_url=value["leader_url"],
        is_leader=joined.leader == joined.member_id,
        assignment=_ownership(value),
        config_offset=value["config_offset"],
        owners=value.get("owners", {}),
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
