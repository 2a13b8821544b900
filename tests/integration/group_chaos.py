"""Fifty members of one group that join, leave, crash and freeze, and a witness of everything they do.

Members speak the protocol directly, with one connection per member in one event loop: they are cheap, every member
behaves exactly as a correct client must, and the `Witness` sees every answer of the coordinator.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
import uuid
from typing import Any, ClassVar

from ottla.model.errors import ErrorCode
from ottla.model.ids import Uuid
from ottla.records.header import read_header
from ottla.wire.api import API_SPECS, ApiKey
from ottla.wire.codec import decode, encode
from ottla.wire.framing import request_parts
from ottla.wire.message import Message
from ottla.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, TopicPartitions
from ottla.wire.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartition,
)
from ottla.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from ottla.wire.messages.heartbeat import HeartbeatRequest
from ottla.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from ottla.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from ottla.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from ottla.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics
from ottla.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tests.integration.group_witness import Witness

__all__ = ["ChaosMember", "ClassicChaosMember", "ConsumerChaosMember"]

TURN_SECONDS = 0.25
RETRY_SECONDS = 0.1
SESSION_TIMEOUT_MS = 3000
REBALANCE_TIMEOUT_MS = 5000
CALL_SECONDS_MAX = 60.0

# The coordinator is not available yet, or not any more.
_TRY_AGAIN = {
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.REQUEST_TIMED_OUT,
}
# The coordinator no longer accepts the member's id, generation, epoch or instance id.
_FENCED = {
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.ILLEGAL_GENERATION,
    ErrorCode.FENCED_MEMBER_EPOCH,
    ErrorCode.FENCED_INSTANCE_ID,
}


class FencedError(Exception):
    """The coordinator has removed the member, which has to join again."""


class TryAgainError(Exception):
    pass


class ChaosMember:
    """The part that members of both protocols share: reading owned partitions and committing offsets."""

    ids: ClassVar[int] = 0

    def __init__(self, address: str, group_id: str, topic: str, witness: Witness, instance_id: str | None) -> None:
        ChaosMember.ids += 1
        self.name = instance_id or f"m{ChaosMember.ids}"
        self.address = address
        self.group_id = group_id
        self.topic = topic
        self.witness = witness
        self.instance_id = instance_id
        self.member_id = ""
        self.epoch = 0
        self.positions: dict[int, int] = {}
        self.stopping = False
        self.leaves = False
        self._frozen_until = 0.0
        self._alive_at = 0.0
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None
        self._correlation_id = 0
        self.task: asyncio.Task[None] | None = None

    # Life.

    def start(self) -> None:
        self.task = asyncio.create_task(self._run())

    async def leave(self) -> None:
        """Ends in good order."""
        self.stopping = self.leaves = True
        await self._end()

    async def crash(self) -> None:
        """Cancels the member's task at any point and drops its socket, without leaving the group."""
        assert self.task is not None
        self.task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self.task
        self._forget_everything()

    def freeze(self, seconds: float) -> None:
        self._frozen_until = time.monotonic() + seconds

    async def _end(self) -> None:
        assert self.task is not None
        await self.task

    async def _run(self) -> None:
        try:
            while not self.stopping:
                try:
                    await self._belong()
                except FencedError:
                    self.witness.counts["fenced"] += 1
                    self._forget_everything()
                    self.member_id, self.epoch = self._id_after_fencing(), 0
                except TryAgainError:
                    self.witness.counts["again"] += 1
                    await asyncio.sleep(RETRY_SECONDS)
            if self.leaves:
                with contextlib.suppress(FencedError, TryAgainError):
                    await self._say_goodbye()
                self._forget_everything()
        finally:
            if self._writer is not None:
                self._writer.transport.abort()

    async def _thaw(self) -> None:
        while (wait := self._frozen_until - time.monotonic()) > 0:
            await asyncio.sleep(wait)

    @property
    def is_surely_alive(self) -> bool:
        """True if the coordinator cannot have removed the member, however long its requests took."""
        return time.monotonic() < self._alive_at + min(SESSION_TIMEOUT_MS, REBALANCE_TIMEOUT_MS) / 1000

    def _forget_everything(self) -> None:
        self._alive_at = 0.0
        self._give_up(set(self.positions))

    def _give_up(self, partitions: set[int]) -> None:
        for partition in partitions:
            self.witness.release(self, partition)
            del self.positions[partition]

    def _id_after_fencing(self) -> str:
        return ""

    async def _belong(self) -> None:
        raise NotImplementedError

    async def _say_goodbye(self) -> None:
        raise NotImplementedError

    # Work.

    async def work(self) -> None:
        """One turn: reads the available records and commits their offsets."""
        await self._thaw()
        if await self.read():
            await self._thaw()
            await self.commit()

    async def read(self) -> bool:
        if not self.positions:
            return False
        wanted = [
            FetchPartition(partition=partition, fetch_offset=position, partition_max_bytes=4096)
            for partition, position in self.positions.items()
        ]
        request = FetchRequest(max_bytes=1 << 20, topics=[FetchTopic(topic=self.topic, partitions=wanted)])
        answer = await self.call(request, 12)
        has_records = False
        for part in (part for topic in answer.responses for part in topic.partitions):
            assert part.error_code == ErrorCode.NONE, part
            records = memoryview(part.records or b"")
            at = 0
            while at < len(records):
                header = read_header(records, at)
                at += header.size
                offsets = range(max(header.base_offset, self.positions[part.partition_index]), header.next_offset)
                self.witness.delivered[part.partition_index].update(offsets)
                self.positions[part.partition_index] = header.next_offset
                has_records = True
        return has_records

    async def commit(self, only: set[int] | None = None) -> None:
        wanted = {
            partition: offset for partition, offset in self.positions.items() if only is None or partition in only
        }
        if not wanted:
            return
        floors = {partition: self.witness.acknowledged[partition] for partition in wanted}
        topic = OffsetCommitRequestTopic(
            name=self.topic,
            partitions=[
                OffsetCommitRequestPartition(partition_index=partition, committed_offset=offset)
                for partition, offset in wanted.items()
            ],
        )
        request = OffsetCommitRequest(
            group_id=self.group_id,
            generation_id_or_member_epoch=self.epoch,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            topics=[topic],
        )
        answer = await self.call(request, 9)
        parts = [part for response_topic in answer.topics for part in response_topic.partitions]
        assert len(parts) == len(wanted), answer
        for part in parts:
            if part.error_code == ErrorCode.NONE:
                self.witness.counts["commits"] += 1
                self.witness.committed(part.partition_index, wanted[part.partition_index], floors[part.partition_index])
        for code in {part.error_code for part in parts} - self._commit_errors_that_pass():
            self.check(code)

    def _commit_errors_that_pass(self) -> set[int]:
        return set()

    async def take(self, partitions: set[int]) -> None:
        """Fetches the committed offsets of newly assigned partitions."""
        if not partitions:
            return
        for partition in partitions:
            self.witness.hold(self, partition)
            # The member holds the partition from now on, even if the fetch of its offset fails.
            self.positions[partition] = self.witness.acknowledged[partition]
        floors = {partition: self.witness.acknowledged[partition] for partition in partitions}
        topics = [OffsetFetchRequestTopics(name=self.topic, partition_indexes=sorted(partitions))]
        group = OffsetFetchRequestGroup(group_id=self.group_id, topics=topics)
        answer = await self.call(OffsetFetchRequest(groups=[group], require_stable=True), 8)
        (fetched,) = answer.groups
        self.check(fetched.error_code)
        for part in (part for topic in fetched.topics for part in topic.partitions):
            self.check(part.error_code)
            index = part.partition_index
            self.positions[index] = self.witness.read_back(index, part.committed_offset, floors[index])

    def check(self, code: int) -> None:
        if code in _TRY_AGAIN:
            raise TryAgainError(ErrorCode(code))
        if code in _FENCED:
            raise FencedError(ErrorCode(code))
        assert code == ErrorCode.NONE, f"{self.name} was told {ErrorCode(code).name}"

    # The connection.

    async def call(self, request: Message, version: int) -> Any:
        try:
            return await self._call(request, version)
        except (OSError, asyncio.IncompleteReadError) as error:
            # The node is gone; whether it received the request is unknown.
            self.witness.counts["disconnected"] += 1
            if self._writer is not None:
                self._writer.transport.abort()
                self._writer = None
            raise TryAgainError from error

    async def _call(self, request: Message, version: int) -> Any:
        if self._writer is None:
            host, _, port = self.address.rpartition(":")
            self._reader, self._writer = await asyncio.open_connection(host, int(port))
        assert self._reader is not None
        self._correlation_id += 1
        parts = request_parts(request.API_KEY, version, self._correlation_id, self.name, request)
        self._writer.write(b"".join(bytes(part) for part in parts))
        async with asyncio.timeout(CALL_SECONDS_MAX):
            size = int.from_bytes(await self._reader.readexactly(4), "big")
            frame = await self._reader.readexactly(size)
        assert int.from_bytes(frame[:4], "big") == self._correlation_id
        spec = API_SPECS[ApiKey(request.API_KEY)]
        answer, _ = decode(spec.response_class, memoryview(frame), version, 5 if version >= spec.flexible_since else 4)
        return answer


class ClassicChaosMember(ChaosMember):
    """A classic member (JoinGroup, SyncGroup, Heartbeat): gives up all partitions at every rebalance."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.joined = False

    async def _belong(self) -> None:
        if not self.joined:
            await self._thaw()
            await self._join()
        request = HeartbeatRequest(
            group_id=self.group_id,
            generation_id=self.epoch,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
        )
        sent_at = time.monotonic()
        code = (await self.call(request, 4)).error_code
        if code == ErrorCode.REBALANCE_IN_PROGRESS:
            await self._rejoin()
            return
        self.check(code)
        self._alive_at = sent_at
        for partition in self.positions:
            self.witness.hold(self, partition)
        await self.work()
        await asyncio.sleep(TURN_SECONDS)

    async def _rejoin(self) -> None:
        await self._thaw()
        await self.commit()
        self._give_up(set(self.positions))
        self.joined = False

    def _forget_everything(self) -> None:
        super()._forget_everything()
        self.joined = False

    def _commit_errors_that_pass(self) -> set[int]:
        # Between join and sync of a generation no member owns a partition. The next heartbeat gets this error, too.
        return {ErrorCode.REBALANCE_IN_PROGRESS}

    async def _join(self) -> None:
        subscription = b"\x00\x00" + encode(ConsumerProtocolSubscription(topics=[self.topic]), 0)
        request = JoinGroupRequest(
            group_id=self.group_id,
            session_timeout_ms=SESSION_TIMEOUT_MS,
            rebalance_timeout_ms=REBALANCE_TIMEOUT_MS,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="range", metadata=subscription)],
        )
        answer = await self.call(request, 9)
        if answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = answer.member_id
            return await self._join()
        if answer.error_code == ErrorCode.REBALANCE_IN_PROGRESS:
            # The group changed to the other protocol while the member waited.
            raise TryAgainError
        self.check(answer.error_code)
        self.member_id, self.epoch = answer.member_id, answer.generation_id
        shares = []
        if answer.leader == self.member_id and not answer.skip_assignment:
            shares = self._assign([member.member_id for member in answer.members])
        await self._thaw()
        sync = SyncGroupRequest(
            group_id=self.group_id,
            generation_id=self.epoch,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            protocol_type="consumer",
            protocol_name="range",
            assignments=shares,
        )
        sent_at = time.monotonic()
        synced = await self.call(sync, 5)
        if synced.error_code == ErrorCode.REBALANCE_IN_PROGRESS:
            return None
        self.check(synced.error_code)
        assignment, _ = decode(ConsumerProtocolAssignment, memoryview(synced.assignment), 0, 2)
        partitions = {index for partition in assignment.assigned_partitions for index in partition.partitions}
        self._alive_at = sent_at
        self.witness.assigned(self.epoch, self.name, partitions)
        self.witness.counts["assignments"] += 1
        self.joined = True
        await self.take(partitions)
        return None

    def _assign(self, members: list[str]) -> list[SyncGroupRequestAssignment]:
        shares = []
        for number, member in enumerate(sorted(members)):
            indexes = list(range(number, self.witness.partitions, len(members)))
            share = ConsumerProtocolAssignment(
                assigned_partitions=[TopicPartition(topic=self.topic, partitions=indexes)]
            )
            shares.append(SyncGroupRequestAssignment(member_id=member, assignment=b"\x00\x00" + encode(share, 0)))
        return shares

    async def _say_goodbye(self) -> None:
        await self.commit()
        identity = MemberIdentity(member_id=self.member_id, group_instance_id=self.instance_id)
        await self.call(LeaveGroupRequest(group_id=self.group_id, members=[identity]), 5)


class ConsumerChaosMember(ChaosMember):
    """A member of the consumer protocol (KIP-848): gives up only the partitions that the coordinator revokes."""

    topic_id: Uuid

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.member_id = str(uuid.uuid4())
        self._acknowledges = False

    def _id_after_fencing(self) -> str:
        return self.member_id

    def _commit_errors_that_pass(self) -> set[int]:
        # The member epoch has changed meanwhile; the next heartbeat returns the new epoch.
        return {ErrorCode.STALE_MEMBER_EPOCH}

    async def _belong(self) -> None:
        await self._thaw()
        joins = self.epoch == 0
        owned = [TopicPartitions(topic_id=self.topic_id, partitions=sorted(self.positions))] if self.positions else []
        request = ConsumerGroupHeartbeatRequest(
            group_id=self.group_id,
            member_id=self.member_id,
            member_epoch=self.epoch,
            instance_id=self.instance_id,
            rebalance_timeout_ms=REBALANCE_TIMEOUT_MS if joins else -1,
            subscribed_topic_names=[self.topic] if joins else None,
            topic_partitions=owned if joins or self._acknowledges else None,
        )
        self._acknowledges = False
        sent_at = time.monotonic()
        answer = await self.call(request, 1)
        if answer.error_code == ErrorCode.UNRELEASED_INSTANCE_ID:
            raise TryAgainError
        self.check(answer.error_code)
        self._alive_at = sent_at
        self.epoch = answer.member_epoch
        for partition in self.positions:
            self.witness.hold(self, partition)
        if answer.assignment is not None:
            await self._reconcile(
                {
                    index
                    for topic_partition in answer.assignment.topic_partitions
                    for index in topic_partition.partitions
                }
            )
            return
        await self.work()
        await asyncio.sleep(TURN_SECONDS)

    async def _reconcile(self, target: set[int]) -> None:
        self.witness.counts["assignments"] += 1
        given_up = set(self.positions) - target
        await self.commit(given_up)
        self._give_up(given_up)
        await self.take(target - set(self.positions))
        self._acknowledges = True

    async def _say_goodbye(self) -> None:
        await self.commit()
        self._give_up(set(self.positions))
        request = ConsumerGroupHeartbeatRequest(
            group_id=self.group_id,
            member_id=self.member_id,
            member_epoch=-1 if self.instance_id is None else -2,
            instance_id=self.instance_id,
        )
        await self.call(request, 1)
