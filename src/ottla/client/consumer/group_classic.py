"""A consumer in a classic group: subscriptions and assignments over `ClassicMember`.

With `cooperative-sticky` a member keeps its partitions while it joins again, and revokes only those that it is not
assigned any more. With the other assignors it revokes all of them first.

The coordinator does not announce new topics and partitions. From time to time every member looks for new topics that
its pattern matches, and the leader for partitions that it has not assigned; they then join again.
"""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Mapping

from ottla.client.classic_member import ClassicGroup, ClassicMember, Heartbeat
from ottla.client.cluster import Cluster
from ottla.client.consumer.assignors import ASSIGNORS, COOPERATIVE, STICKY, MemberSubscription, Racks
from ottla.client.consumer.membership import Identity, Membership, Rebalance, Subscription
from ottla.client.consumer.previous import decode_previous, encode_previous
from ottla.client.consumer.settings import ConsumerSettings
from ottla.client.errors import ClientError, is_temporary
from ottla.client.leaders import by_topic
from ottla.client.metadata import MetadataCache
from ottla.model.errors import KafkaError
from ottla.model.ids import TopicPartition
from ottla.wire.codec import decode, encode
from ottla.wire.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
)
from ottla.wire.messages.consumer_protocol import TopicPartition as ProtocolPartition
from ottla.wire.messages.join_group import JoinGroupResponse

__all__ = ["ClassicMembership", "decode_assignment", "encode_assignment"]

_SUBSCRIPTION_VERSION = 3
_ASSIGNMENT_VERSION = 3


class ClassicMembership(Membership):
    def __init__(
        self, cluster: Cluster, settings: ConsumerSettings, subscription: Subscription, on_rebalance: Rebalance
    ) -> None:
        super().__init__(cluster, settings, subscription, on_rebalance)
        group = ClassicGroup(
            group_id=self._group_id,
            protocol_type="consumer",
            session_timeout_ms=settings.session_timeout_ms,
            rebalance_timeout_ms=settings.max_poll_interval_ms,
            answer_timeout_ms=settings.max_poll_interval_ms + 5_000,
            deadline_ms=settings.max_poll_interval_ms + 60_000,
            instance_id=settings.group_instance_id,
        )
        self._member = ClassicMember(cluster, group)
        # By the name of its protocol.
        self._assignors = {
            assignor if isinstance(assignor, str) else assignor.name: assignor for assignor in settings.assignors
        }
        cooperative = [
            name == COOPERATIVE or getattr(assignor, "is_cooperative", False)
            for name, assignor in self._assignors.items()
        ]
        # As in Java, partitions are kept during a rebalance only if every assignor of the member allows it.
        self._is_cooperative = all(cooperative)
        # The last assignment and its generation, which the leader of a sticky group needs.
        self._previous: tuple[list[TopicPartition], int] = ([], -1)
        self._rejoin = True
        # JoinGroup and SyncGroup on their way.
        self._negotiation: asyncio.Task[list[TopicPartition] | None] | None = None
        # The LeaveGroup request that is sent when the application has not polled within max.poll.interval.ms.
        self._leave_task: asyncio.Task[None] | None = None
        self._topics: list[str] = []
        # As leader: the number of partitions of every topic of the group in the last assignment.
        self._counts: dict[str, int] = {}

    @property
    def identity(self) -> Identity:
        return Identity(self._member.member_id, self._member.generation, self._settings.group_instance_id)

    async def poll(self, deadline: float | None = None) -> None:
        self._has_polled()
        self._due.clear()
        while self._rejoin or self._negotiation is not None:
            if self._negotiation is None:
                await self._begin_to_join()
            if not await self._negotiated(deadline):
                return

    async def leave(self) -> None:
        task, self._negotiation = self._negotiation, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        await super().leave()
        if self._leave_task is not None:
            await self._leave_task

    async def _leave_group(self) -> None:
        await self._member.leave("the consumer is closed")

    async def _begin_to_join(self) -> None:
        if self._owned and (not self._is_cooperative or not self.is_member):
            # A removed member keeps nothing: other members may have owned its partitions and committed offsets.
            # Heartbeats keep the session meanwhile: a listener may need longer than a session lasts.
            await self._on_rebalance(self._owned, [])
            self._owned = []
        await self._stop_heartbeats()
        # A heartbeat may have reported another rebalance. The join that follows takes part in it.
        self._due.clear()
        self._counts = {}
        self._negotiation = asyncio.ensure_future(self._negotiate())

    async def _negotiated(self, deadline: float | None) -> bool:
        """Applies the assignment when it is there. Returns False at the deadline; the next poll waits on."""
        task = self._negotiation
        assert task is not None
        # Other members may take long to join. A poll does not wait for them beyond its time-out.
        left = None if deadline is None else max(deadline - asyncio.get_running_loop().time(), 0)
        done, _ = await asyncio.wait([task], timeout=left)
        self._has_polled()
        if not done:
            return False
        self._negotiation = None
        assignment = task.result()
        if assignment is None or not self.is_member:
            # A member that was removed since the join has no right to its assignment any more.
            return True
        revoked = [partition for partition in self._owned if partition not in set(assignment)]
        # If a listener fails, the consumer may have the old partitions or the new ones: the next join gives all of them
        # up, or claims them.
        self._owned = sorted({*self._owned, *assignment})
        try:
            await self._on_rebalance(revoked, assignment)
        except BaseException:
            self._rejoin = True
            raise
        self._owned = assignment
        self._previous = (assignment, self._member.generation)
        # Partitions that a cooperative member has revoked are assigned to other members in the next round.
        must_join = self._is_cooperative and bool(revoked)
        if must_join or not self.is_member or (self._task is not None and self._task.done()):
            # In the last two cases the membership has ended meanwhile.
            self._rejoin = True
        return True

    async def _negotiate(self) -> list[TopicPartition] | None:
        """Joins, and returns the member's assignment; None if it has to join again."""
        self._topics = await self._wanted_topics()
        joined = await self._member.join({name: self._metadata(name) for name in self._assignors})
        if joined is None:
            return None
        assignments = await self._assign(joined) if joined.leader == joined.member_id else {}
        content = await self._member.sync(joined, assignments)
        if content is None:
            return None
        assignment = decode_assignment(content)
        on_assignment = getattr(self._assignors.get(joined.protocol_name or ""), "on_assignment", None)
        if on_assignment is not None:
            on_assignment(assignment, decode_user_data(content), joined.generation_id)
        await self._cluster.refresh(self._topics)
        # A later request to join is for another rebalance. It may come while the listener still handles this one.
        self._rejoin = False
        # From now on the session needs heartbeats, also if the application polls late.
        self._task = asyncio.ensure_future(self._heartbeats())
        return assignment

    def _metadata(self, assignor: str) -> bytes:
        own = getattr(self._assignors[assignor], "subscription_data", None)
        if assignor == STICKY:
            data = encode_previous(*self._previous)
        elif self._assignors[assignor] == COOPERATIVE:
            # Leaders of Apache Kafka before KIP-792 look for the generation here. They give the partitions of a member
            # without a generation to other members at once, if those send theirs.
            data = self._member.generation.to_bytes(4, "big", signed=True)
        else:
            data = b"" if own is None else own(self._topics)
        subscription = ConsumerProtocolSubscription(
            topics=self._topics,
            user_data=memoryview(data) if data else None,
            owned_partitions=_protocol_partitions(self._owned),
            generation_id=self._member.generation,
            rack_id=self._settings.rack or None,
        )
        return _SUBSCRIPTION_VERSION.to_bytes(2, "big") + encode(subscription, _SUBSCRIPTION_VERSION)

    async def _wanted_topics(self) -> list[str]:
        if self._subscription.pattern is None:
            return list(self._subscription.topics)
        return self._matching(await self._cluster.refresh(None))

    def _matching(self, metadata: MetadataCache) -> list[str]:
        return self._subscription.matching(metadata, hides_internal=self._settings.exclude_internal_topics)

    async def _has_grown(self) -> bool:
        """True if there are unassigned topics or partitions. Errors are ignored, because the check is repeated."""
        pattern = self._subscription.pattern
        names = None if pattern is not None else sorted({*self._topics, *self._counts})
        deadline = self._cluster.deadline(self._settings.heartbeat_interval_ms)
        try:
            metadata = await self._cluster.refresh(names, deadline=deadline)
        except (ClientError, KafkaError):
            return False
        if pattern is not None and not set(self._matching(metadata)) <= set(self._topics):
            return True
        known = metadata.topics
        return any(name in known and len(known[name].partitions) > count for name, count in self._counts.items())

    async def _assign(self, joined: JoinGroupResponse) -> dict[str, bytes]:
        """As leader: the assignments of all members, or none if the present assignments stay (KIP-814)."""
        name = joined.protocol_name or ""
        members = {
            member.member_id: _decode_subscription(memoryview(member.metadata), is_sticky=name == STICKY)
            for member in joined.members
        }
        topics = sorted({topic for subscription in members.values() for topic in subscription.topics})
        metadata = await self._cluster.refresh(topics)
        counts = {name: len(metadata.topics[name].partitions) for name in topics if name in metadata.topics}
        self._counts = {name: counts.get(name, 0) for name in topics}
        if joined.skip_assignment:
            return {}
        own = self._assignors.get(name)
        racks = _racks(metadata, counts)
        if own is not None and not isinstance(own, str):
            assignment = own.assign(members, counts, racks)
        elif name in ASSIGNORS:
            assignment = ASSIGNORS[name](members, counts, racks)
        else:
            raise ClientError(f"The group chose the assignor {joined.protocol_name!r}, which is not known here.")
        data = getattr(own, "assignment_data", None)
        return {
            member_id: encode_assignment(assignment.get(member_id, []), b"" if data is None else data(member_id))
            for member_id in members
        }

    async def _heartbeats(self) -> None:
        now = asyncio.get_running_loop().time
        age_max = self._cluster.settings.metadata_age_max_ms / 1000
        fresh_until = now() + age_max
        while True:
            await asyncio.sleep(self._settings.heartbeat_interval_ms / 1000)
            if self._is_poll_overdue:
                # Not a member from now on: a poll may come before the coordinator has answered, and must not read on.
                leaving = copy.copy(self._member)
                self._member.forget()
                self._join_at_next_poll()
                self._leave_task = asyncio.ensure_future(leaving.leave("the application does not poll"))
                return
            # A missing topic may be created at any time, so it is looked up even if the metadata is fresh.
            if now() >= fresh_until or 0 in self._counts.values():
                fresh_until = now() + age_max
                if await self._has_grown():
                    self._join_at_next_poll()
            try:
                answer = await self._member.heartbeat()
            except KafkaError:
                self._join_at_next_poll()
                return
            except ClientError as error:
                if not is_temporary(error):
                    # The join fails as well, and so the poll reports the error.
                    self._join_at_next_poll()
                    return
                # The coordinator was not reached. The next answer shows whether the session has survived it.
                continue
            if answer is not Heartbeat.ALIVE:
                self._join_at_next_poll()
            if answer in (Heartbeat.REMOVED, Heartbeat.REFUSED):
                return
            # During a rebalance heartbeats keep the session, until the next poll joins again or polls stay out.

    def _join_at_next_poll(self) -> None:
        self._rejoin = True
        self._due.set()

    def enforce_rebalance(self) -> None:
        self._join_at_next_poll()


def encode_assignment(partitions: list[TopicPartition], user_data: bytes = b"") -> bytes:
    assignment = ConsumerProtocolAssignment(
        assigned_partitions=_protocol_partitions(partitions), user_data=memoryview(user_data) if user_data else None
    )
    return _ASSIGNMENT_VERSION.to_bytes(2, "big") + encode(assignment, _ASSIGNMENT_VERSION)


def decode_assignment(content: memoryview) -> list[TopicPartition]:
    if len(content) < 2:
        return []
    version = min(int.from_bytes(content[:2], "big"), _ASSIGNMENT_VERSION)
    assignment, _ = decode(ConsumerProtocolAssignment, content, version, 2)
    return sorted(
        TopicPartition(topic.topic, partition)
        for topic in assignment.assigned_partitions
        for partition in topic.partitions
    )


def decode_user_data(content: memoryview) -> bytes:
    """The data that a custom assignor has added to the assignment of a member."""
    if len(content) < 2:
        return b""
    version = min(int.from_bytes(content[:2], "big"), _ASSIGNMENT_VERSION)
    assignment, _ = decode(ConsumerProtocolAssignment, content, version, 2)
    return bytes(assignment.user_data or b"")


def _decode_subscription(content: memoryview, *, is_sticky: bool) -> MemberSubscription:
    version = min(int.from_bytes(content[:2], "big"), _SUBSCRIPTION_VERSION)
    subscription, _ = decode(ConsumerProtocolSubscription, content, version, 2)
    owned = [
        TopicPartition(topic.topic, number) for topic in subscription.owned_partitions for number in topic.partitions
    ]
    generation, data = subscription.generation_id, bytes(subscription.user_data or b"")
    if is_sticky and data:
        owned, generation = decode_previous(data)
    return MemberSubscription(tuple(subscription.topics), tuple(owned), generation, subscription.rack_id, data)


def _racks(metadata: MetadataCache, counts: Mapping[str, int]) -> Racks:
    """The racks of the replicas of each partition; empty if brokers have no racks."""
    by_node = {node_id: broker.rack for node_id, broker in metadata.brokers.items() if broker.rack}
    if not by_node:
        return {}
    return {
        TopicPartition(topic, number): frozenset(by_node[node] for node in info.replicas if node in by_node)
        for topic in counts
        for number, info in metadata.topics[topic].partitions.items()
    }


def _protocol_partitions(partitions: list[TopicPartition]) -> list[ProtocolPartition]:
    return [ProtocolPartition(topic=name, partitions=numbers) for name, numbers in by_topic(partitions).items()]
