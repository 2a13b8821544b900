"""A member of a classic group: join, let the leader assign, sync, send heartbeats.

With `cooperative-sticky` a member keeps its partitions while it joins again and gives up only what it is not assigned
any more; with the others it gives up everything first.

Nobody tells the members of new topics and partitions: now and then each looks for topics that its pattern finds, and
the leader for partitions that it has not assigned, and joins again.
"""

from __future__ import annotations

import asyncio
import re

from ottla.client.cluster import Cluster
from ottla.client.consumer.assignors import ASSIGNORS, COOPERATIVE, MemberSubscription
from ottla.client.consumer.membership import Membership, Rebalance, Subscription
from ottla.client.consumer.settings import ConsumerSettings
from ottla.client.errors import ClientError, check
from ottla.client.leaders import by_topic
from ottla.client.metadata import MetadataCache
from ottla.model.errors import ErrorCode, KafkaError
from ottla.model.ids import TopicPartition
from ottla.wire.codec import decode, encode
from ottla.wire.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
)
from ottla.wire.messages.consumer_protocol import TopicPartition as ProtocolPartition
from ottla.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from ottla.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from ottla.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from ottla.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse

__all__ = ["ClassicMembership", "decode_assignment", "encode_assignment"]

_SUBSCRIPTION_VERSION = 3
_ASSIGNMENT_VERSION = 3
_PROTOCOL_TYPE = "consumer"


class ClassicMembership(Membership):
    def __init__(
        self, cluster: Cluster, settings: ConsumerSettings, subscription: Subscription, on_rebalance: Rebalance
    ) -> None:
        super().__init__(cluster, settings, subscription, on_rebalance)
        self._rejoin = True
        self._topics: list[str] = []
        # What the leader has assigned: the number of partitions of every topic of the group.
        self._counts: dict[str, int] = {}

    async def poll(self) -> None:
        self._has_polled()
        self._due.clear()
        while self._rejoin:
            await self._join()

    async def _say_goodbye(self) -> None:
        if self._member_id and self._settings.group_instance_id is None:
            member = MemberIdentity(member_id=self._member_id, reason="the consumer is closed")
            await self._tell_goodbye(LeaveGroupRequest(group_id=self._group_id, members=[member]))

    async def _join(self) -> None:
        await self._stop_heartbeats()
        self._counts = {}
        eager = COOPERATIVE not in self._settings.assignors or self._settings.assignors[0] != COOPERATIVE
        if self._owned and (eager or not self.is_member):
            # Who was put out of the group keeps nothing: others may have had it meanwhile, and are further.
            await self._on_rebalance(self._owned, [])
            self._owned = []
        self._topics = await self._wanted_topics()
        try:
            joined = await self._ask_join()
            assignment = await self._ask_sync(joined)
        except KafkaError as error:
            if error.code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION):
                self._member_id, self._epoch = "", -1
            elif error.code not in (ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.MEMBER_ID_REQUIRED):
                raise
            return
        await self._cluster.refresh(self._topics)
        revoked = [one for one in self._owned if one not in set(assignment)]
        await self._on_rebalance(revoked, assignment)
        self._owned = assignment
        if joined.protocol_name == COOPERATIVE and revoked:
            # What was given up can be assigned to others in the next round.
            return
        self._rejoin = False
        self._task = asyncio.ensure_future(self._heartbeats())

    async def _wanted_topics(self) -> list[str]:
        if self._subscription.pattern is None:
            return list(self._subscription.topics)
        return self._matching(await self._cluster.refresh(None), self._subscription.pattern)

    def _matching(self, metadata: MetadataCache, pattern: str) -> list[str]:
        matches = re.compile(pattern).fullmatch
        return sorted(name for name, info in metadata.topics.items() if matches(name) and not info.is_internal)

    async def _has_grown(self) -> bool:
        """Whether there are topics or partitions that nobody reads; what cannot be found out now is left for later."""
        pattern = self._subscription.pattern
        names = None if pattern is not None else sorted({*self._topics, *self._counts})
        deadline = self._cluster.deadline(self._settings.heartbeat_interval_ms)
        try:
            metadata = await self._cluster.refresh(names, deadline=deadline)
        except (ClientError, KafkaError):
            return False
        if pattern is not None and not set(self._matching(metadata, pattern)) <= set(self._topics):
            return True
        known = metadata.topics
        return any(name in known and len(known[name].partitions) > count for name, count in self._counts.items())

    async def _ask_join(self) -> JoinGroupResponse:
        subscription = ConsumerProtocolSubscription(
            topics=self._topics,
            owned_partitions=_protocol_partitions(self._owned),
            generation_id=self._epoch,
            rack_id=self._settings.rack or None,
        )
        metadata = _SUBSCRIPTION_VERSION.to_bytes(2, "big") + encode(subscription, _SUBSCRIPTION_VERSION)
        request = JoinGroupRequest(
            group_id=self._group_id,
            session_timeout_ms=self._settings.session_timeout_ms,
            rebalance_timeout_ms=self._settings.max_poll_interval_ms,
            member_id=self._member_id,
            group_instance_id=self._settings.group_instance_id,
            protocol_type=_PROTOCOL_TYPE,
            protocols=[
                JoinGroupRequestProtocol(name=name, metadata=memoryview(metadata)) for name in self._settings.assignors
            ],
        )
        response: JoinGroupResponse = await self._cluster.ask_coordinator(
            self._cluster.GROUP,
            self._group_id,
            request,
            purpose="group",
            # The coordinator answers when everybody is there.
            timeout_ms=self._settings.max_poll_interval_ms + 5_000,
            deadline=self._cluster.deadline(self._settings.max_poll_interval_ms + 60_000),
        )
        if response.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self._member_id = response.member_id
        check(response.error_code)
        self._member_id, self._epoch = response.member_id, response.generation_id
        return response

    async def _ask_sync(self, joined: JoinGroupResponse) -> list[TopicPartition]:
        assignments = []
        if joined.leader == joined.member_id and not joined.skip_assignment:
            assignments = await self._assign(joined)
        request = SyncGroupRequest(
            group_id=self._group_id,
            generation_id=joined.generation_id,
            member_id=joined.member_id,
            group_instance_id=self._settings.group_instance_id,
            protocol_type=_PROTOCOL_TYPE,
            protocol_name=joined.protocol_name,
            assignments=assignments,
        )
        response: SyncGroupResponse = await self._cluster.ask_coordinator(
            self._cluster.GROUP,
            self._group_id,
            request,
            purpose="group",
            timeout_ms=self._settings.max_poll_interval_ms + 5_000,
            deadline=self._cluster.deadline(self._settings.max_poll_interval_ms + 60_000),
        )
        check(response.error_code)
        return decode_assignment(memoryview(response.assignment))

    async def _assign(self, joined: JoinGroupResponse) -> list[SyncGroupRequestAssignment]:
        members = {member.member_id: _decode_subscription(memoryview(member.metadata)) for member in joined.members}
        topics = sorted({topic for one in members.values() for topic in one.topics})
        metadata = await self._cluster.refresh(topics)
        counts = {name: len(metadata.topics[name].partitions) for name in topics if name in metadata.topics}
        self._counts = {name: counts.get(name, 0) for name in topics}
        assignor = ASSIGNORS.get(joined.protocol_name or "")
        if assignor is None:
            raise ClientError(f"The group chose the assignor {joined.protocol_name!r}, which is not known here.")
        return [
            SyncGroupRequestAssignment(member_id=member_id, assignment=memoryview(encode_assignment(partitions)))
            for member_id, partitions in assignor(members, counts).items()
        ]

    async def _heartbeats(self) -> None:
        request = HeartbeatRequest(
            group_id=self._group_id,
            generation_id=self._epoch,
            member_id=self._member_id,
            group_instance_id=self._settings.group_instance_id,
        )
        now = asyncio.get_running_loop().time
        age_max = self._cluster.settings.metadata_age_max_ms / 1000
        fresh_until = now() + age_max
        while True:
            await asyncio.sleep(self._settings.heartbeat_interval_ms / 1000)
            if self._nobody_polls:
                await self._say_goodbye()
                self._member_id, self._epoch, self._rejoin = "", -1, True
                return
            if now() >= fresh_until:
                fresh_until = now() + age_max
                if await self._has_grown():
                    self._rejoin = True
                    self._due.set()
            try:
                response: HeartbeatResponse = await self._cluster.ask_coordinator(
                    self._cluster.GROUP, self._group_id, request, purpose="group"
                )
                check(response.error_code)
            except KafkaError as error:
                if error.code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION):
                    self._member_id, self._epoch = "", -1
                self._rejoin = True
                self._due.set()
                if error.code != ErrorCode.REBALANCE_IN_PROGRESS:
                    return
                # Until the next poll joins again, the session is kept, and given up where no poll comes.
            except ClientError:
                # The session may survive this; if not, the next answer says so.
                continue


def encode_assignment(partitions: list[TopicPartition]) -> bytes:
    assignment = ConsumerProtocolAssignment(assigned_partitions=_protocol_partitions(partitions))
    return _ASSIGNMENT_VERSION.to_bytes(2, "big") + encode(assignment, _ASSIGNMENT_VERSION)


def decode_assignment(content: memoryview) -> list[TopicPartition]:
    if len(content) < 2:
        return []
    version = min(int.from_bytes(content[:2], "big"), _ASSIGNMENT_VERSION)
    assignment, _ = decode(ConsumerProtocolAssignment, content, version, 2)
    return sorted(
        TopicPartition(topic.topic, one) for topic in assignment.assigned_partitions for one in topic.partitions
    )


def _decode_subscription(content: memoryview) -> MemberSubscription:
    version = min(int.from_bytes(content[:2], "big"), _SUBSCRIPTION_VERSION)
    one, _ = decode(ConsumerProtocolSubscription, content, version, 2)
    owned = tuple(TopicPartition(topic.topic, number) for topic in one.owned_partitions for number in topic.partitions)
    return MemberSubscription(tuple(one.topics), owned, one.generation_id)


def _protocol_partitions(partitions: list[TopicPartition]) -> list[ProtocolPartition]:
    return [ProtocolPartition(topic=name, partitions=numbers) for name, numbers in by_topic(partitions).items()]
