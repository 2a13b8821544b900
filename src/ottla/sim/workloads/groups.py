"""Members of consumer groups, of the classic protocol and of the consumer protocol (KIP-848).

A member joins, takes its assignment, commits increasing offsets for it, and sometimes leaves, with or without a
request.
"""

from __future__ import annotations

from collections.abc import Sequence

from ottla.model.errors import ErrorCode
from ottla.model.ids import TopicPartition, Uuid
from ottla.sim.history import Assignment
from ottla.sim.tasks import sleep
from ottla.sim.workloads.offsets import GroupOffsets
from ottla.sim.workloads.workload import Stage, Workload
from ottla.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from ottla.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from ottla.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from ottla.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from ottla.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse
from ottla.wire.peers import PeerUnreachable

__all__ = ["ClassicMember", "ConsumerMember"]

SESSION_TIMEOUT_MS = 6_000
REBALANCE_TIMEOUT_MS = 6_000
JOIN_TIMEOUT_MS = 15_000
HEARTBEAT_SECONDS = 0.5
# The probability, per heartbeat, that a member with an assignment leaves.
LEAVE_PROBABILITY = 0.05
# The probability that a member of the consumer protocol drops its subscription for a moment.
PAUSE_PROBABILITY = 0.1
LEAVE_EPOCH = -1


class _Member(Workload):
    """Common part of the members of both protocols: the offsets of the assigned partitions."""

    def __init__(self, stage: Stage, name: str, group: str, partitions: Sequence[TopicPartition]) -> None:
        super().__init__(stage, name)
        self._group = group
        self._partitions = partitions
        self._offsets = GroupOffsets(self.client, stage.history, group)
        self._positions: dict[TopicPartition, int] = {}

    async def _commit_owned(self, owned: frozenset[TopicPartition], member: str, generation: int) -> ErrorCode | None:
        """Commits the next offset of every partition. Returns the first error that ends the ownership."""
        for revoked in [partition for partition in self._positions if partition not in owned]:
            del self._positions[revoked]
        for partition in sorted(owned):
            position = self._positions.get(partition)
            if position is None:
                position = await self._offsets.fetch(partition)
                if position is None:
                    continue
            error = await self._offsets.commit(partition, position + 1, member=member, generation=generation)
            if error is ErrorCode.NONE:
                self._positions[partition] = position + 1
            else:
                self._positions.pop(partition, None)
                if error is not None and error not in (
                    ErrorCode.NOT_COORDINATOR,
                    ErrorCode.COORDINATOR_NOT_AVAILABLE,
                    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
                    ErrorCode.REQUEST_TIMED_OUT,
                ):
                    return error
        return None

    def _record_assignment(self, member: str, generation: int, owned: frozenset[TopicPartition]) -> None:
        self.history.assignments.append(
            Assignment(group=self._group, member=member, generation=generation, partitions=owned)
        )
        self.client.kernel.counts["assignment"] += 1


class ClassicMember(_Member):
    async def run(self) -> None:
        member_id = ""
        while not self.stage.is_ending:
            try:
                member_id = await self._join(member_id)
            except PeerUnreachable:
                self.client.forget_coordinator(self._group)
            await self.client.back_off()

    async def _join(self, member_id: str) -> str:
        """One generation, from joining to its end. Returns the member id to continue with."""
        client = self.client
        coordinator = await client.coordinator(self._group)
        if coordinator is None:
            return member_id
        joined = await client.ask(
            coordinator,
            JoinGroupRequest(
                group_id=self._group,
                session_timeout_ms=SESSION_TIMEOUT_MS,
                rebalance_timeout_ms=REBALANCE_TIMEOUT_MS,
                member_id=member_id,
                protocol_type="consumer",
                protocols=[JoinGroupRequestProtocol(name="plain", metadata=memoryview(self.name.encode()))],
            ),
            JoinGroupResponse,
            purpose="group",
            timeout_ms=JOIN_TIMEOUT_MS,
        )
        error = ErrorCode(joined.error_code)
        if error is ErrorCode.MEMBER_ID_REQUIRED:
            return joined.member_id
        if error is not ErrorCode.NONE:
            return self._next_member_id(error, member_id)
        member_id = joined.member_id
        members = sorted(member.member_id for member in joined.members)
        shares = [
            SyncGroupRequestAssignment(
                member_id=member, assignment=memoryview(_encode(self._partitions[index :: len(members)]))
            )
            for index, member in enumerate(members)
        ]
        synced = await client.ask(
            coordinator,
            SyncGroupRequest(
                group_id=self._group,
                generation_id=joined.generation_id,
                member_id=member_id,
                protocol_type="consumer",
                protocol_name="plain",
                assignments=shares if joined.leader == member_id else [],
            ),
            SyncGroupResponse,
            purpose="group",
            timeout_ms=JOIN_TIMEOUT_MS,
        )
        error = ErrorCode(synced.error_code)
        if error is not ErrorCode.NONE:
            return self._next_member_id(error, member_id)
        owned = _decode(bytes(synced.assignment))
        self._record_assignment(member_id, joined.generation_id, owned)
        # A member that rejoins has given up all partitions. Other members may have committed higher offsets since.
        self._positions.clear()
        return await self._heartbeat_until_end(member_id, joined.generation_id, owned)

    async def _heartbeat_until_end(self, member_id: str, generation: int, owned: frozenset[TopicPartition]) -> str:
        client = self.client
        while not self.stage.is_ending:
            error = await self._commit_owned(owned, member_id, generation)
            if error is not None:
                return self._next_member_id(error, member_id)
            await sleep(client.process, HEARTBEAT_SECONDS)
            coordinator = await client.coordinator(self._group)
            if coordinator is None:
                continue
            if self.random.random() < LEAVE_PROBABILITY:
                if self.random.random() < 0.5:
                    await client.ask(
                        coordinator,
                        LeaveGroupRequest(group_id=self._group, members=[MemberIdentity(member_id=member_id)]),
                        LeaveGroupResponse,
                        purpose="group",
                    )
                return ""
            beat = await client.ask(
                coordinator,
                HeartbeatRequest(group_id=self._group, generation_id=generation, member_id=member_id),
                HeartbeatResponse,
                purpose="group",
            )
            if beat.error_code:
                error = ErrorCode(beat.error_code)
                if error in (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE):
                    client.forget_coordinator(self._group)
                    await client.back_off()
                elif error is not ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
                    return self._next_member_id(error, member_id)
        return member_id

    def _next_member_id(self, error: ErrorCode, member_id: str) -> str:
        self.client.kernel.counts[f"group: {error.name}"] += 1
        self.client.forget_coordinator(self._group)
        return "" if error in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID) else member_id


class ConsumerMember(_Member):
    async def run(self) -> None:
        while not self.stage.is_ending:
            await self._run_membership(str(Uuid.random(self.random)))
            await self.client.back_off()

    async def _run_membership(self, member_id: str) -> None:
        """One membership, from joining until the member leaves or is fenced."""
        client = self.client
        topics = sorted({partition.topic for partition in self._partitions})
        self._positions.clear()
        epoch = last_epoch = 0
        owned: frozenset[TopicPartition] = frozenset()
        # The partitions that the member had and lost: the last epoch in which it had them, and its position then.
        released: dict[TopicPartition, tuple[int, int]] = {}
        heard_us = self.now_us
        while not self.stage.is_ending:
            await sleep(client.process, HEARTBEAT_SECONDS if epoch else 0.0)
            coordinator = await client.coordinator(self._group)
            if coordinator is None:
                await client.back_off()
                continue
            is_leaving = epoch > 0 and self.random.random() < LEAVE_PROBABILITY
            if is_leaving and self.random.random() < 0.5:
                return
            # A pausing member has no subscription for a moment: it loses all partitions, and requests them again later.
            is_pausing = bool(owned) and self.random.random() < PAUSE_PROBABILITY
            request = ConsumerGroupHeartbeatRequest(
                group_id=self._group,
                member_id=member_id,
                member_epoch=LEAVE_EPOCH if is_leaving else epoch,
                rebalance_timeout_ms=REBALANCE_TIMEOUT_MS,
                subscribed_topic_names=[] if is_pausing else topics,
                topic_partitions=self._owned_by_id(owned),
            )
            try:
                response = await client.ask(coordinator, request, ConsumerGroupHeartbeatResponse, purpose="group")
            except PeerUnreachable:
                client.forget_coordinator(self._group)
                if self.now_us - heard_us > 1000 * SESSION_TIMEOUT_MS:
                    owned = frozenset()
                continue
            error = ErrorCode(response.error_code)
            if error is not ErrorCode.NONE:
                client.kernel.counts[f"group: {error.name}"] += 1
                client.forget_coordinator(self._group)
                if error in (ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID):
                    return
                await client.back_off()
                continue
            if is_leaving:
                return
            heard_us = self.now_us
            epoch = response.member_epoch
            if response.assignment is not None:
                before, owned = owned, await self._resolve_topic_names(response.assignment.topic_partitions)
                for lost in before - owned:
                    released[lost] = (last_epoch, self._positions.get(lost, 0))
                self._record_assignment(member_id, epoch, owned)
                for again in sorted(owned & released.keys()):
                    await self._commit_late(again, member_id, *released.pop(again))
            last_epoch = epoch
            commit_error = await self._commit_owned(owned, member_id, epoch)
            if commit_error in (ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID):
                return

    async def _commit_late(self, partition: TopicPartition, member_id: str, epoch: int, position: int) -> None:
        """Sends a commit of the time before the member lost and regained the partition, which may be outdated.

        KIP-1251 allows commits of earlier epochs only for partitions that the member has had since then.
        """
        error = await self._offsets.commit(partition, position, member=member_id, generation=epoch)
        self.client.kernel.counts[f"late commit: {'unanswered' if error is None else error.name}"] += 1
        if error is ErrorCode.NONE:
            self.history.report_violation(
                "late commits",
                f"{self._group} {partition}: {member_id} committed {position} with epoch {epoch}, before it lost it",
            )

    async def _resolve_topic_names(self, rows: list[TopicPartitions]) -> frozenset[TopicPartition]:
        client = self.client
        while any(row.topic_id not in client.topic_ids.values() for row in rows):
            await client.refresh(sorted({partition.topic for partition in self._partitions}))
            await client.back_off()
        names = {topic_id: name for name, topic_id in client.topic_ids.items()}
        return frozenset(TopicPartition(names[row.topic_id], index) for row in rows for index in row.partitions)

    def _owned_by_id(self, owned: frozenset[TopicPartition]) -> list[TopicPartitions]:
        by_topic: dict[str, list[int]] = {}
        for partition in sorted(owned):
            by_topic.setdefault(partition.topic, []).append(partition.partition)
        return [
            TopicPartitions(topic_id=self.client.topic_ids[topic], partitions=indexes)
            for topic, indexes in by_topic.items()
        ]


def _encode(partitions: Sequence[TopicPartition]) -> bytes:
    return ",".join(f"{topic}:{index}" for topic, index in partitions).encode()


def _decode(assignment: bytes) -> frozenset[TopicPartition]:
    if not assignment:
        return frozenset()
    pairs = (text.rpartition(":") for text in assignment.decode().split(","))
    return frozenset(TopicPartition(topic, int(index)) for topic, _, index in pairs)
