"""What a member of a group gives up, and when it says so, over a coordinator that answers by a script."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from ottla.client.consumer.assignors import COOPERATIVE
from ottla.client.consumer.group_classic import ClassicMembership, encode_assignment
from ottla.client.consumer.group_consumer import ConsumerMembership
from ottla.client.consumer.membership import Subscription
from ottla.client.consumer.settings import ConsumerSettings
from ottla.client.errors import TimedOut
from ottla.client.metadata import MetadataCache, PartitionInfo, TopicInfo
from ottla.client.settings import ClientSettings
from ottla.model.errors import ErrorCode, KafkaError
from ottla.model.ids import TopicPartition, Uuid
from ottla.wire.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from ottla.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from ottla.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse, JoinGroupResponseMember
from ottla.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse

ONE, OTHER = TopicPartition("t", 0), TopicPartition("t", 1)
TOPIC_ID = Uuid(b"t" * 16)
TOPIC = Subscription(("t",))


class Cluster:
    """Its coordinator gives every member what `assigned` says, and every heartbeat the error that is next."""

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
        self.said: list[tuple[int, list[int]]] = []
        # How many of the next answers do not arrive.
        self.lost = 0
        self.is_silent = False
        # Whether a classic group has its only member for leader.
        self.leads = False
        self._told: list[TopicPartition] | None = None

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
            return answer
        if isinstance(request, HeartbeatRequest):
            self.heartbeats += 1
            return HeartbeatResponse(error_code=self.errors.pop(0) if self.errors else 0)
        if isinstance(request, JoinGroupRequest):
            self.epoch += 1
            protocol = request.protocols[0]
            member = JoinGroupResponseMember(member_id="m", metadata=protocol.metadata)
            return JoinGroupResponse(
                member_id="m",
                generation_id=self.epoch,
                leader="m" if self.leads else "another",
                protocol_name=protocol.name,
                members=[member] if self.leads else [],
            )
        if isinstance(request, SyncGroupRequest) and self.leads:
            return SyncGroupResponse(assignment=request.assignments[0].assignment)
        return SyncGroupResponse(assignment=memoryview(encode_assignment(self.assigned)))

    def _heartbeat(self, request: ConsumerGroupHeartbeatRequest) -> ConsumerGroupHeartbeatResponse:
        owned = [number for topic in request.topic_partitions or () for number in topic.partitions]
        self.said.append((request.member_epoch, owned))
        if self.errors:
            return ConsumerGroupHeartbeatResponse(error_code=self.errors.pop(0))
        self.epoch += 1
        answer = ConsumerGroupHeartbeatResponse(member_id="m", member_epoch=self.epoch, heartbeat_interval_ms=1)
        # An assignment is sent when it changes, and to a member that sends all of its fields.
        if self.assigned != self._told or request.rebalance_timeout_ms != -1:
            partitions = [one.partition for one in self.assigned]
            answer.assignment = Assignment(topic_partitions=[TopicPartitions(topic_id=TOPIC_ID, partitions=partitions)])
            self._told = list(self.assigned)
        return answer


class Rebalances:
    """What the consumer was told, and whether its member was one at that time."""

    def __init__(self) -> None:
        self.told: list[tuple[list[TopicPartition], list[TopicPartition]]] = []
        self.members: list[bool] = []
        self.member: ClassicMembership | ConsumerMembership | None = None
        self.pause: Callable[[], Coroutine[Any, Any, None]] | None = None

    async def on_rebalance(self, revoked: list[TopicPartition], assigned: list[TopicPartition]) -> None:
        assert self.member is not None
        if self.pause is not None:
            await self.pause()
        self.told.append((list(revoked), list(assigned)))
        self.members.append(self.member.is_member)


Work = Callable[[Any, Cluster, Rebalances], Coroutine[Any, Any, None]]


def run(
    work: Work,
    kind: type[ClassicMembership] | type[ConsumerMembership],
    subscription: Subscription = TOPIC,
    **settings: Any,
) -> None:
    async def whole() -> None:
        cluster, rebalances = Cluster(), Rebalances()
        anything: Any = cluster
        wanted = ConsumerSettings(group_id="g", heartbeat_interval_ms=1, **settings)
        member = rebalances.member = kind(anything, wanted, subscription, rebalances.on_rebalance)
        try:
            async with asyncio.timeout(60):
                await work(member, cluster, rebalances)
        finally:
            await member._stop_heartbeats()

    asyncio.run(whole())


async def poll_until(member: Any, holds: Callable[[], bool]) -> None:
    while not holds():
        await member.poll()
        await asyncio.sleep(0)


def test_partitions_are_given_up_before_the_coordinator_hears_of_it() -> None:
    async def work(member: ConsumerMembership, cluster: Cluster, rebalances: Rebalances) -> None:
        await poll_until(member, lambda: len(rebalances.told) == 1)

        async def pause() -> None:
            # Long enough for any number of heartbeats.
            begun = len(cluster.said)
            while len(cluster.said) < begun + 3:
                await asyncio.sleep(0)
            assert all(owned == [0] for _, owned in cluster.said[begun:])

        cluster.assigned = []
        rebalances.pause = pause
        await poll_until(member, lambda: len(rebalances.told) == 2)
        await poll_until(member, lambda: cluster.said[-1][1] == [])

    run(work, ConsumerMembership)


def test_an_assignment_whose_answer_was_lost_is_asked_for_again() -> None:
    async def work(member: ConsumerMembership, cluster: Cluster, rebalances: Rebalances) -> None:
        await poll_until(member, lambda: len(rebalances.told) == 1)
        cluster.lost, cluster.assigned = 1, [ONE, OTHER]
        await poll_until(member, lambda: len(rebalances.told) == 2)
        assert rebalances.told[-1] == ([], [ONE, OTHER])

    run(work, ConsumerMembership)


def test_an_assignment_of_a_topic_that_is_not_known_yet_is_asked_for_again() -> None:
    async def work(member: ConsumerMembership, cluster: Cluster, rebalances: Rebalances) -> None:
        # The first broker that is asked has not heard of the topic.
        name = cluster.metadata.names.pop(TOPIC_ID)
        await poll_until(member, lambda: len(cluster.said) > 1)
        cluster.metadata.names[TOPIC_ID] = name
        await poll_until(member, lambda: rebalances.told == [([], [ONE])])

    run(work, ConsumerMembership)


def test_a_member_whose_assignment_could_not_be_taken_over_asks_for_it_again() -> None:
    async def work(member: ConsumerMembership, cluster: Cluster, rebalances: Rebalances) -> None:
        name = cluster.metadata.names.pop(TOPIC_ID)
        cluster.refusals = 1
        with pytest.raises(TimedOut):
            await poll_until(member, lambda: False)
        cluster.metadata.names[TOPIC_ID] = name
        await poll_until(member, lambda: rebalances.told == [([], [ONE])])

    run(work, ConsumerMembership)


def test_who_leaves_while_it_joins_is_no_member_for_long() -> None:
    async def work(member: ConsumerMembership, cluster: Cluster, _: Rebalances) -> None:
        cluster.is_silent = True
        await poll_until(member, lambda: bool(cluster.said))
        await member.leave()
        assert [epoch for epoch, _ in cluster.said] == [0, -1]

    run(work, ConsumerMembership)


def test_who_never_asked_to_join_does_not_leave() -> None:
    async def work(member: ConsumerMembership, cluster: Cluster, _: Rebalances) -> None:
        await member.leave()
        assert not cluster.said

    run(work, ConsumerMembership)


def test_a_group_of_another_kind_is_told() -> None:
    async def work(member: ConsumerMembership, cluster: Cluster, _: Rebalances) -> None:
        cluster.errors.append(ErrorCode.GROUP_ID_NOT_FOUND)
        with pytest.raises(KafkaError) as raised:
            await poll_until(member, lambda: False)
        assert raised.value.code == ErrorCode.GROUP_ID_NOT_FOUND

    run(work, ConsumerMembership)


@pytest.mark.parametrize(
    "code", [ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.GROUP_ID_NOT_FOUND]
)
def test_who_was_put_out_gives_everything_up_before_it_joins_again(code: ErrorCode) -> None:
    async def work(member: ConsumerMembership, cluster: Cluster, rebalances: Rebalances) -> None:
        await poll_until(member, lambda: len(rebalances.told) == 1)
        cluster.errors.append(code)
        while cluster.errors:
            await asyncio.sleep(0)
        heard = len(cluster.said)
        for _ in range(50):
            await asyncio.sleep(0)
        assert len(cluster.said) == heard
        await poll_until(member, lambda: len(rebalances.told) == 3)
        assert rebalances.told == [([], [ONE]), ([ONE], []), ([], [ONE])]
        # Nothing is committed for what others may have had.
        assert rebalances.members == [True, False, True]

    run(work, ConsumerMembership)


def test_who_was_put_out_of_a_cooperative_group_gives_everything_up() -> None:
    async def work(member: ClassicMembership, cluster: Cluster, rebalances: Rebalances) -> None:
        await member.poll()
        cluster.errors.append(ErrorCode.UNKNOWN_MEMBER_ID)
        await member.wait()
        await member.poll()
        assert rebalances.told == [([], [ONE]), ([ONE], []), ([], [ONE])]
        assert rebalances.members == [True, False, True]

    run(work, ClassicMembership, assignors=(COOPERATIVE,))


def test_a_cooperative_member_keeps_what_it_has_while_others_come() -> None:
    async def work(member: ClassicMembership, cluster: Cluster, rebalances: Rebalances) -> None:
        cluster.assigned = [ONE, OTHER]
        await member.poll()
        cluster.assigned = [OTHER]
        cluster.errors.append(ErrorCode.REBALANCE_IN_PROGRESS)
        await member.wait()
        await member.poll()
        assert rebalances.told == [([], [ONE, OTHER]), ([ONE], [OTHER]), ([], [OTHER])]
        assert all(rebalances.members)

    run(work, ClassicMembership, assignors=(COOPERATIVE,))


@pytest.mark.parametrize(
    "code",
    [ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.ILLEGAL_GENERATION, ErrorCode.UNKNOWN_MEMBER_ID],
)
def test_a_listener_that_takes_its_time_keeps_the_session_and_causes_one_rebalance(code: ErrorCode) -> None:
    is_removed = code in (ErrorCode.ILLEGAL_GENERATION, ErrorCode.UNKNOWN_MEMBER_ID)

    async def work(member: ClassicMembership, cluster: Cluster, rebalances: Rebalances) -> None:
        await member.poll()

        async def pause() -> None:
            rebalances.pause = None
            assert member.is_member
            cluster.errors += [code, code]
            # A removed member has nothing left to say.
            wanted = cluster.heartbeats + (1 if is_removed else 3)
            while cluster.heartbeats < wanted or member.is_member == is_removed:
                await asyncio.sleep(0)
            cluster.errors.clear()

        member.enforce_rebalance()
        rebalances.pause = pause
        await member.poll()
        wanted = cluster.heartbeats + 3
        while cluster.heartbeats < wanted:
            await member.poll()
            await asyncio.sleep(0)
        assert rebalances.told == [([], [ONE]), ([ONE], []), ([], [ONE])]
        assert cluster.epoch == 2

    run(work, ClassicMembership)


def test_a_member_that_could_not_take_over_its_assignment_joins_again() -> None:
    async def work(member: ClassicMembership, cluster: Cluster, rebalances: Rebalances) -> None:
        cluster.refusals = 1
        with pytest.raises(TimedOut):
            await member.poll()
        await member.poll()
        assert rebalances.told == [([], [ONE])]

    run(work, ClassicMembership)


@pytest.mark.parametrize("subscription", [TOPIC, Subscription((), "t|u")])
def test_what_comes_later_is_read_too(subscription: Subscription) -> None:
    """New partitions, and new topics that a pattern finds."""

    async def work(member: ClassicMembership, cluster: Cluster, rebalances: Rebalances) -> None:
        cluster.settings = replace(cluster.settings, metadata_age_max_ms=0)
        cluster.leads = True
        await member.poll()
        for _ in range(20):
            await asyncio.sleep(0)
        partition = PartitionInfo(2, 1, 0, (), (), ())
        if subscription.pattern is None:
            new = TopicPartition("t", 2)
            cluster.metadata.topics["t"].partitions[2] = partition
        else:
            cluster.metadata.topics["u"] = TopicInfo("u", Uuid(b"u" * 16), False, {0: partition}, None)
            new = TopicPartition("u", 0)
        await member.wait()
        await member.poll()
        assert rebalances.told == [([], [ONE, OTHER]), ([ONE, OTHER], []), ([], [ONE, OTHER, new])]

    run(work, ClassicMembership, subscription)
