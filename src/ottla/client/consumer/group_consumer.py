"""A member of a consumer group of the new protocol (KIP-848), which has a single request.

The member sends heartbeats with its owned partitions; the coordinator answers with the target assignment. Partitions
are first revoked (and committed); the next heartbeat does not own them any more, and only then other members get them.
So a heartbeat also names the partitions of an assignment that no poll has applied yet: a poll may apply it before the
coordinator sees the heartbeat.

The coordinator sends an assignment once, when it changes, and again in answer to a full heartbeat. A member sends a
full heartbeat when it joins, and whenever it cannot know that it has received and applied the last response: otherwise
the partitions in that response would never be read.
"""

from __future__ import annotations

import asyncio
import re
import uuid
from typing import TYPE_CHECKING

from ottla.client.cluster import Cluster
from ottla.client.consumer.membership import Identity, Membership, Rebalance, Subscription
from ottla.client.consumer.settings import ConsumerSettings
from ottla.client.errors import ClientError, error_of
from ottla.client.leaders import by_topic
from ottla.model.errors import ErrorCode, KafkaError
from ottla.model.ids import TopicPartition, Uuid
from ottla.wire.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)

if TYPE_CHECKING:
    from ottla.wire.message import Message

__all__ = ["ConsumerMembership"]

_LEAVE = -1
_LEAVE_STATIC = -2
_REJOIN = {ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID}


class ConsumerMembership(Membership):
    def __init__(
        self, cluster: Cluster, settings: ConsumerSettings, subscription: Subscription, on_rebalance: Rebalance
    ) -> None:
        super().__init__(cluster, settings, subscription, on_rebalance)
        self._member_id = str(uuid.UUID(int=cluster.random.getrandbits(128), version=4))
        self._epoch = 0
        self._target: list[TopicPartition] | None = None
        # The target that a poll is applying.
        self._taking: list[TopicPartition] = []
        # True after a listener has failed: the consumer may have the old partitions or the new ones.
        self._unsure = False
        # The topic ids of these partitions and of the owned ones, from the coordinator: the metadata of a broker may be
        # too old to have the topics, and heartbeats without them would give the partitions up.
        self._ids: dict[str, Uuid] = {}
        self._now = asyncio.Event()
        self._failure: Exception | None = None
        # True if the next heartbeat is a full one.
        self._full = True
        # The subscribed topics: those of the subscription, or those that match a compiled pattern.
        self._names = list(subscription.topics)
        self._names_due = 0.0
        # True while a join may have succeeded without a response.
        self._joining = False

    @property
    def identity(self) -> Identity:
        return Identity(self._member_id, self._epoch, self._settings.group_instance_id)

    async def poll(self, deadline: float | None = None) -> None:  # noqa: ARG002 (it does not wait)
        self._has_polled()
        if self._failure is not None:
            failure, self._failure = self._failure, None
            raise failure
        self._due.clear()
        # A newer target may arrive while a target is applied: the partitions that it revokes must not be read any more.
        while self._target is not None:
            await self._take_over(self._target)
        if self._task is None:
            self._task = asyncio.ensure_future(self._run())

    async def _take_over(self, target: list[TopicPartition]) -> None:
        revoked = [partition for partition in self._owned if partition not in set(target)]
        if self._unsure or set(target) != set(self._owned):
            self._taking = target
            try:
                await self._on_rebalance(revoked, target)
                # Only now: other members get partitions that a heartbeat does not own.
                self._owned, self._unsure = target, False
            except BaseException:
                self._owned, self._unsure = self._held, True
                raise
            finally:
                self._taking = []
                # The next heartbeat, or a join that has waited, follows at once.
                self._now.set()
        if self._target is target:
            self._target = None

    async def _leave_group(self) -> None:
        if not self.is_member and not self._joining:
            return
        # On the connection of the heartbeats, so that a join in flight is processed before the leave.
        if await self._send_leave(self._leave_request(), purpose="group"):
            self._epoch, self._joining = 0, False

    def _leave_request(self) -> Message:
        return ConsumerGroupHeartbeatRequest(
            group_id=self._group_id,
            member_id=self._member_id,
            member_epoch=_LEAVE if self._settings.group_instance_id is None else _LEAVE_STATIC,
            instance_id=self._settings.group_instance_id,
        )

    async def _run(self) -> None:
        try:
            while True:
                if self._is_poll_overdue:
                    await self._step_aside()
                    return
                if self._held and not self.is_member:
                    # The coordinator has removed the member. It joins again after the consumer has revoked all
                    # partitions: other members may have owned them and committed offsets.
                    interval_ms = None
                else:
                    await self._match_topics()
                    interval_ms = await self._heartbeat()
                try:
                    async with asyncio.timeout(None if interval_ms is None else interval_ms / 1000):
                        await self._now.wait()
                except TimeoutError:
                    pass
                self._now.clear()
        except (ClientError, KafkaError) as error:
            self._failure = error
            self._due.set()
            self._task = None

    async def _match_topics(self) -> None:
        """Looks for the topics that a compiled pattern matches, from time to time."""
        now = asyncio.get_running_loop().time()
        if not isinstance(self._subscription.pattern, re.Pattern) or now < self._names_due:
            return
        self._names_due = now + self._cluster.settings.metadata_age_max_ms / 1000
        metadata = await self._cluster.refresh(None)
        names = self._subscription.matching(metadata, hides_internal=self._settings.exclude_internal_topics)
        if names != self._names:
            self._names, self._full = names, True

    async def _step_aside(self) -> None:
        """Leaves the group. The next poll revokes all partitions, and the one after that joins again."""
        # First: a poll may come before the coordinator has answered, and must not read on.
        self._joining = self._joining or self.is_member
        self._lose_everything()
        await self._leave_group()
        self._task = None
        self._due.set()

    def _lose_everything(self) -> None:
        self._epoch = 0
        self._full = True
        self._target = []
        self._due.set()

    async def _heartbeat(self) -> int:
        """Sends a heartbeat; returns the milliseconds until the next."""
        response: ConsumerGroupHeartbeatResponse = await self._cluster.ask_coordinator(
            self._cluster.GROUP, self._group_id, self._next_request, purpose="group"
        )
        self._joining = False
        error = error_of(response.error_code, response.error_message)
        if error is not None:
            # A joining member gets GROUP_ID_NOT_FOUND if the group is of another type.
            if error.code in _REJOIN or (error.code == ErrorCode.GROUP_ID_NOT_FOUND and self.is_member):
                self._lose_everything()
                return 0
            if error.code == ErrorCode.FENCED_INSTANCE_ID:
                # Another member with this instance id has the partitions.
                self._lose_everything()
            if error.code == ErrorCode.UNRELEASED_INSTANCE_ID or not error.code.retriable:
                raise error
            return self._cluster.settings.retry_backoff_ms
        self._member_id = response.member_id or self._member_id
        self._epoch = response.member_epoch
        if response.assignment is not None and not await self._take(response.assignment):
            return min(response.heartbeat_interval_ms, self._cluster.settings.retry_backoff_max_ms)
        self._full = False
        return response.heartbeat_interval_ms

    def _next_request(self) -> Message:
        request = self._request()
        # Reset when the response arrives.
        self._full = self._joining = True
        return request

    def _request(self) -> Message:
        request = ConsumerGroupHeartbeatRequest(
            group_id=self._group_id,
            member_id=self._member_id,
            member_epoch=self._epoch,
            instance_id=self._settings.group_instance_id,
            topic_partitions=[
                TopicPartitions(topic_id=self._ids[name], partitions=numbers)
                for name, numbers in by_topic(self._held).items()
            ],
        )
        if self._full:
            request.rack_id = self._settings.rack or None
            request.rebalance_timeout_ms = self._settings.max_poll_interval_ms
            request.server_assignor = self._settings.remote_assignor
            if isinstance(self._subscription.pattern, str):
                request.subscribed_topic_regex = self._subscription.pattern
                request.subscribed_topic_names = []
            else:
                request.subscribed_topic_names = list(self._names)
        return request

    @property
    def _held(self) -> list[TopicPartition]:
        """The partitions that are read, or will be if a poll comes before the next response."""
        return sorted({*self._owned, *self._taking, *(self._target or ())})

    async def _take(self, assignment: Assignment) -> bool:
        """Sets the target. Returns False if a topic id is unknown: not all brokers know a new topic at once."""
        names = self._cluster.metadata.names
        if any(topic.topic_id not in names for topic in assignment.topic_partitions):
            await self._cluster.refresh(None if isinstance(self._subscription.pattern, str) else list(self._names))
        target = [
            TopicPartition(names[topic.topic_id], partition)
            for topic in assignment.topic_partitions
            if topic.topic_id in names
            for partition in topic.partitions
        ]
        held = {name: self._ids[name] for name in by_topic(self._held)}
        topic_ids = [topic.topic_id for topic in assignment.topic_partitions if topic.topic_id in names]
        self._ids = held | {names[topic_id]: topic_id for topic_id in topic_ids}
        self._target = sorted(target)
        self._due.set()
        return all(topic.topic_id in names for topic in assignment.topic_partitions)
