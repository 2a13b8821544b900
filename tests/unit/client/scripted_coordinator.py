"""A coordinator that answers by a script, and a member of a classic or consumer group."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from random import Random
from typing import Any

from ottla.client.consumer.group_classic import ClassicMembership, _decode_subscription, encode_assignment
from ottla.client.consumer.group_consumer import ConsumerMembership
from ottla.client.consumer.membership import Subscription
from ottla.client.consumer.settings import ConsumerSettings
from ottla.client.errors import TimedOut
from ottla.client.metadata import MetadataCache, PartitionInfo, TopicInfo
from ottla.client.settings import ClientSettings
from ottla.model.errors import ErrorCode
from ottla.model.ids import TopicPartition, Uuid
from ottla.wire.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from ottla.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from ottla.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse, JoinGroupResponseMember
from ottla.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from ottla.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse

ONE, OTHER = TopicPartition("t", 0), TopicPartition("t", 1)
TOPIC_ID = Uuid(b"t" * 16)
TOPIC = Subscription(("t",))


class Cluster:
    """The coordinator assigns `assigned` to every member and answers heartbeats with the next error of `errors`."""

    GROUP = 0

    def __init__(self) -> None:
        self.settings = ClientSettings(bootstrap_servers=(), retry_backoff_ms=0)
        self.random = Random(1)
        self.metadata = MetadataCache()
        partitions = {number: PartitionInfo(number, 1, 0, (), (), ()) for number in range(2)}
        self.metadata.topics["t"] = TopicInfo("t", TOPIC_ID, False, partitions, None)
        self.metadata.names[TOPIC_ID] = "t"
        self.assigned = [ONE]
        self.errors: list[ErrorCode] = []
        self.refusals = 0
        self.epoch = 0
        # Answered heartbeats of a classic member.
        self.heartbeats = 0
        self.reported: list[tuple[int, list[int]]] = []
        # How many of the next answers do not arrive.
        self.lost = 0
        self.is_silent = False
        # True if a leave of the new protocol gets no answer.
        self.is_deaf = False
        # True if the only member of a classic group is its leader, and true if it keeps the present assignments.
        self.leads = False
        self.skips = False
        # Partitions that members of a classic group claim when they join, members that left, and errors of next joins.
        self.claims: list[list[TopicPartition]] = []
        self.user_data: list[bytes] = []
        self.left: list[str] = []
        self.join_errors: list[ErrorCode] = []
        self._sent_assignment: list[TopicPartition] | None = None

    def deadline(self, timeout_ms: int) -> float:
        return asyncio.get_running_loop().time() + timeout_ms / 1000

    async def refresh(self, *_: Any, **__: Any) -> MetadataCache:
        if self.refusals:
            self.refusals -= 1
            raise TimedOut("The cluster did not answer.")
        return self.metadata

    async def ask_coordinator(self, _kind: int, _key: str, request: Any, *_: Any, **__: Any) -> Any:
        await asyncio.sleep(0)
        if callable(request):
            while self.lost:
                self.lost -= 1
                self._heartbeat(request())
            request = request()
        if isinstance(request, ConsumerGroupHeartbeatRequest):
            answer = self._heartbeat(request)
            while self.is_silent and request.member_epoch >= 0:
                await asyncio.sleep(0)
            while self.is_deaf and request.member_epoch < 0:
                await asyncio.sleep(0)
            return answer
        if isinstance(request, LeaveGroupRequest):
            self.left += [member.member_id for member in request.members]
            while self.is_silent:
                await asyncio.sleep(0)
            return LeaveGroupResponse()
        if isinstance(request, HeartbeatRequest):
            self.heartbeats += 1
            return HeartbeatResponse(error_code=self.errors.pop(0) if self.errors else 0)
        if isinstance(request, JoinGroupRequest):
            protocol = request.protocols[0]
            subscription = _decode_subscription(memoryview(protocol.metadata), is_sticky=False)
            self.claims.append(list(subscription.owned))
            self.user_data.append(subscription.user_data)
            if self.join_errors:
                return JoinGroupResponse(error_code=self.join_errors.pop(0))
            self.epoch += 1
            member = JoinGroupResponseMember(member_id="m", metadata=protocol.metadata)
            return JoinGroupResponse(
                member_id="m",
                generation_id=self.epoch,
                leader="m" if self.leads else "another",
                protocol_name=protocol.name,
                members=[member] if self.leads else [],
                skip_assignment=self.skips,
            )
        if isinstance(request, SyncGroupRequest) and self.leads and not self.skips:
            return SyncGroupResponse(assignment=request.assignments[0].assignment)
        return SyncGroupResponse(assignment=memoryview(encode_assignment(self.assigned)))

    def _heartbeat(self, request: ConsumerGroupHeartbeatRequest) -> ConsumerGroupHeartbeatResponse:
        owned = [number for topic in request.topic_partitions or () for number in topic.partitions]
        self.reported.append((request.member_epoch, owned))
        if self.errors:
            return ConsumerGroupHeartbeatResponse(error_code=self.errors.pop(0))
        self.epoch += 1
        answer = ConsumerGroupHeartbeatResponse(member_id="m", member_epoch=self.epoch, heartbeat_interval_ms=1)
        # An assignment is sent when it changes, and to a member that sends all of its fields.
        if self.assigned != self._sent_assignment or request.rebalance_timeout_ms != -1:
            partitions = [partition.partition for partition in self.assigned]
            answer.assignment = Assignment(topic_partitions=[TopicPartitions(topic_id=TOPIC_ID, partitions=partitions)])
            self._sent_assignment = list(self.assigned)
        return answer


class Rebalances:
    """The calls of the rebalance listener, and whether the consumer was a member of its group during each call."""

    def __init__(self) -> None:
        self.calls: list[tuple[list[TopicPartition], list[TopicPartition]]] = []
        self.members: list[bool] = []
        self.member: ClassicMembership | ConsumerMembership | None = None
        self.pause: Callable[[], Coroutine[Any, Any, None]] | None = None

    async def on_rebalance(self, revoked: list[TopicPartition], assigned: list[TopicPartition]) -> None:
        assert self.member is not None
        if self.pause is not None:
            await self.pause()
        self.calls.append((list(revoked), list(assigned)))
        self.members.append(self.member.is_member)


Work = Callable[[Any, Cluster, Rebalances], Coroutine[Any, Any, None]]


def run(
    work: Work,
    kind: type[ClassicMembership] | type[ConsumerMembership],
    subscription: Subscription = TOPIC,
    **settings: Any,
) -> None:
    async def scenario() -> None:
        cluster, rebalances = Cluster(), Rebalances()
        anything: Any = cluster
        wanted = ConsumerSettings(group_id="g", heartbeat_interval_ms=1, **settings)
        member = rebalances.member = kind(anything, wanted, subscription, rebalances.on_rebalance)
        try:
            async with asyncio.timeout(60):
                await work(member, cluster, rebalances)
        finally:
            await member._stop_heartbeats()

    asyncio.run(scenario())


async def poll_until(member: Any, holds: Callable[[], bool]) -> None:
    while not holds():
        await member.poll()
        await asyncio.sleep(0)
