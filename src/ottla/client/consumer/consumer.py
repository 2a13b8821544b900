"""`Consumer`: assign or subscribe, then poll records, or whole batches if records need not be decoded.

Positions move when records are returned. Rebalances happen inside `poll` only, so an automatic commit covers processed
records. `async for` hands out the records of a poll one by one; records that were not handed out yet are not committed.
"""

from __future__ import annotations

import asyncio
import re
from collections import deque
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Self

from ottla.client.admin.groups import CommittedOffset
from ottla.client.admin.offsets import EARLIEST, LATEST, FoundOffset
from ottla.client.cluster import Cluster
from ottla.client.consumer.commits import Commits, OnCommit, as_commits
from ottla.client.consumer.decode import ConsumedBatch, ConsumedRecord, OpenedPayload, decode_batch
from ottla.client.consumer.deserializing import Deserializing
from ottla.client.consumer.fetcher import Fetcher
from ottla.client.consumer.group_classic import ClassicMembership
from ottla.client.consumer.group_consumer import ConsumerMembership
from ottla.client.consumer.interceptors import ConsumerInterceptors
from ottla.client.consumer.listeners import FunctionListener, OnPartitions, RebalanceListener
from ottla.client.consumer.membership import Identity, Membership, Subscription
from ottla.client.consumer.positions import PartitionState, Positions
from ottla.client.consumer.settings import ConsumerSettings
from ottla.client.consumer.starts import Starts
from ottla.client.consumer.wakeups import Wakeups
from ottla.client.errors import ClientError
from ottla.client.figures import ClientFigures
from ottla.client.measures import CONSUMER_METRICS, CONSUMER_TOTALS
from ottla.client.opening import opened
from ottla.client.settings import ClientSettings
from ottla.model.errors import ErrorCode, KafkaError
from ottla.model.ids import TopicPartition, Uuid

if TYPE_CHECKING:
    from pyarrow import RecordBatch

__all__ = ["Consumer"]


class Consumer:
    """An async context manager. One event loop owns it; see `blocking` for threads.

    The first argument is a dictionary with Kafka's configuration keys, or typed settings together with the second.
    """

    def __init__(
        self, settings: ClientSettings | Cluster | Mapping[str, Any], consumer: ConsumerSettings | None = None
    ) -> None:
        self.settings, self._cluster, self._owned, config = opened(
            settings, consumer, default=ConsumerSettings, read=_read
        )
        self._positions = Positions()
        self._starts = Starts(self._cluster, self.settings, self._positions)
        self._fetcher = Fetcher(self._cluster, self.settings, self._positions, self._starts)
        self.measures = self._fetcher.measures
        self._interceptors = ConsumerInterceptors(self.settings.interceptors)
        self._deserializing = Deserializing(self.settings.key_deserializer, self.settings.value_deserializer)
        self._deserializing.configure(config)
        self._commits = Commits(self._cluster, self.settings, self.measures, self._interceptors, self._committable)
        self._membership: Membership | None = None
        self._listener = RebalanceListener()
        self._opened = OpenedPayload()
        # Records of the last poll that `async for` has not handed out yet.
        self._waiting: deque[ConsumedRecord] = deque()
        self._wakeups = Wakeups(self._fetcher.arrived.set)
        self._closed = False
        self._figures = ClientFigures(
            self._cluster,
            CONSUMER_METRICS,
            CONSUMER_TOTALS,
            self.measures,
            resource={"group_id": self.settings.group_id, "client_rack": self.settings.rack},
            gauges=self._gauges,
            owns_connections=self._owned,
        )

    def metrics(self) -> dict[str, float]:
        """Recent rates and averages under Kafka's names; `measures` has the totals."""
        return self._figures.values()

    async def client_instance_id(self, timeout_ms: int = 30_000) -> Uuid:
        """The id under which brokers get this client's metrics (KIP-714)."""
        return await self._figures.instance_id(timeout_ms)

    def _gauges(self) -> dict[str, float]:
        lags = [lag for partition in self._positions.states if (lag := self.lag(partition)) is not None]
        return {"lag_max": max(lags, default=float("nan")), "assigned": len(self._positions.states)}

    # Assignment.

    async def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Reads exactly these partitions, without group membership. Automatic commits need group.id alone."""
        wanted = list(partitions)
        await self._leave(keeps=wanted)
        await self._cluster.refresh(
            sorted({partition.topic for partition in wanted}), create=self.settings.allow_auto_create
        )
        for partition in wanted:
            info = self._cluster.metadata.topics.get(partition.topic)
            if info is None or (info.error is not None and not info.error.code.retriable):
                raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"There is no topic {partition.topic!r}.")
        self._assign(wanted)

    async def subscribe(
        self,
        topics: Iterable[str] = (),
        *,
        pattern: str | re.Pattern[str] | None = None,
        listener: RebalanceListener | None = None,
        on_assigned: OnPartitions | None = None,
        on_revoked: OnPartitions | None = None,
        on_lost: OnPartitions | None = None,
    ) -> None:
        """Becomes a member of the group at the next poll.

        The coordinator of a group of the new protocol matches a pattern that is text. A compiled pattern is matched
        here, as every pattern of a classic group.
        """
        if self.settings.group_id is None:
            raise ClientError("A consumer that subscribes needs a group: set group.id (--group on the command line).")
        if isinstance(topics, str):
            raise ClientError(f"Topics are a list: write [{topics!r}].")
        await self._leave()
        self._assign([])
        self._listener = listener or FunctionListener(on_assigned, on_revoked, on_lost)
        subscription = Subscription(tuple(topics), pattern)
        kind = ClassicMembership if self.settings.group_protocol == "classic" else ConsumerMembership
        if subscription.topics:
            await self._cluster.refresh(list(subscription.topics), create=self.settings.allow_auto_create)
        self._membership = kind(self._cluster, self.settings, subscription, self._on_rebalance)
        self._commits.membership = self._membership

    async def unsubscribe(self) -> None:
        """Leaves the group, and reads nothing until the next `subscribe` or `assign`."""
        await self._leave()
        self._assign([])

    @property
    def assignment(self) -> list[TopicPartition]:
        return list(self._positions.states)

    @property
    def subscription(self) -> Subscription | None:
        return None if self._membership is None else self._membership.subscription

    @property
    def member(self) -> Identity | None:
        """The member of the group, as `Producer.send_offsets` takes it."""
        return None if self._membership is None else self._membership.identity

    def enforce_rebalance(self) -> None:
        """Makes a member of a classic group join again at the next poll, as after a change of its subscription data."""
        if self._membership is not None:
            self._membership.enforce_rebalance()

    # Positions.

    def pause(self, *partitions: TopicPartition) -> None:
        for partition in partitions:
            self._positions.get(partition).paused = True

    def resume(self, *partitions: TopicPartition) -> None:
        for partition in partitions:
            self._positions.get(partition).paused = False

    @property
    def paused(self) -> list[TopicPartition]:
        return [partition for partition, state in self._positions.states.items() if state.paused]

    def seek(self, partition: TopicPartition, offset: int, *, leader_epoch: int = -1) -> None:
        """Moves to an offset. The leader epoch of the previous record allows to detect a truncated log."""
        if offset < 0:
            raise ClientError(
                f"{partition}: the offset {offset} is negative; use seek_to(EARLIEST) or seek_to(LATEST)."
            )
        self._positions.get(partition).seek(offset, leader_epoch)
        self._forget_waiting(lambda other: other != partition)

    async def seek_to(self, time: int, *partitions: TopicPartition) -> None:
        """Moves to the first offset (`EARLIEST`), the end (`LATEST`), or the first record from a timestamp on."""
        wanted = partitions or tuple(self._positions.states)
        for partition, start in (await self.offsets_for_times(dict.fromkeys(wanted, time))).items():
            self.seek(partition, start.offset if start else (await self.end_offsets([partition]))[partition])

    async def seek_to_beginning(self, *partitions: TopicPartition) -> None:
        await self.seek_to(EARLIEST, *partitions)

    async def seek_to_end(self, *partitions: TopicPartition) -> None:
        await self.seek_to(LATEST, *partitions)

    def position(self, partition: TopicPartition) -> int:
        """The offset of the next returned record; -1 if it is not known yet."""
        position = self._positions.get(partition).position
        waiting = (record.offset for record in self._waiting if (record.topic, record.partition) == partition)
        return next(waiting, position)

    def lag(self, partition: TopicPartition) -> int | None:
        """The number of records up to the last known end of the partition."""
        state = self._positions.get(partition)
        end = state.last_stable_offset if self.settings.read_committed else state.high_watermark
        return None if end < 0 or state.position < 0 else max(end - state.position, 0)

    # Reading.

    async def poll(self, timeout_ms: int = 1_000, *, max_records: int | None = None) -> list[ConsumedRecord]:
        """The next records, at least one unless the time-out expires."""
        if self._waiting:
            return self.take_waiting()
        limit = self.settings.max_poll_records if max_records is None else max_records
        end = self._cluster.deadline(timeout_ms)
        records: list[ConsumedRecord] = []
        while True:
            await self._work(end)
            while len(records) < limit:
                batch = self._fetcher.take()
                if batch is None:
                    break
                try:
                    records += await self._open(batch, self._positions.get(batch.partition), limit - len(records))
                except BaseException as error:
                    # Whatever a deserializer raises, no record may be skipped: the position stays before the bad batch
                    # until a seek. Earlier records are returned first, or by the next poll if this one is cancelled.
                    self._fetcher.put_back(batch)
                    if not isinstance(error, Exception):
                        self._waiting.extend(records)
                    if not records or not isinstance(error, Exception):
                        raise
                    break
            if records or not await self._wait(end):
                self.measures.records += len(records)
                return self._interceptors.on_consume(records) if records and self._interceptors else records

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> ConsumedRecord:
        """The next record; waits for it without limit."""
        while (record := self.next_waiting()) is None:
            if self._closed:
                raise StopAsyncIteration
            await self.fill_waiting()
        return record

    def next_waiting(self) -> ConsumedRecord | None:
        """The next record of the last `fill_waiting`, which counts as handed out from now on."""
        return self._waiting.popleft() if self._waiting else None

    async def fill_waiting(self, timeout_ms: int = 1_000, *, max_records: int | None = None) -> None:
        """Polls records for `next_waiting` and `take_waiting`, if none wait."""
        if not self._waiting:
            # An assignment during the poll replaces the queue.
            records = await self.poll(timeout_ms, max_records=max_records)
            self._waiting.extend(records)

    def take_waiting(self) -> list[ConsumedRecord]:
        """All records of the last `fill_waiting`, which count as handed out from now on."""
        waiting, self._waiting = self._waiting, deque()
        return list(waiting)

    async def batches(self, timeout_ms: int = 1_000, *, headers: bool = True) -> list[RecordBatch]:
        """All fetched records as Arrow record batches, in order, each of one partition. Needs pyarrow.

        The columns are key, value, topic, partition, offset, timestamp, timestampType and, unless switched off,
        headers. With a deserializer, key or value are what it makes of the bytes. As with `poll`, records before one
        that cannot be read are returned first; then every call raises the error, which names its offset, until a seek.
        """
        # Imported with the first batch: a consumer of records needs no Arrow.
        from ottla.client.columns.reading import readable_columns

        fetched = await self._take_batches(timeout_ms)
        count, part_end = 0, -1
        try:
            result, count, part_end = await self._deserializing.run(
                lambda: readable_columns(fetched, self._deserializing, headers=headers)
            )
            return result
        finally:
            # What is not handed out does not count as read, and comes first in the next call.
            for number in range(len(fetched) - 1, count - 1, -1):
                batch, position = fetched[number]
                self._fetcher.put_back(batch, part_end if number == count and part_end >= 0 else position)

    async def raw_batches(self, timeout_ms: int = 1_000, *, with_skipped: bool = False) -> list[ConsumedBatch]:
        """All fetched data as whole batches. The first batch may contain records before the position.

        `with_skipped` also returns markers and aborted batches, which the position passes, with empty views.
        """
        return [batch for batch, _ in await self._take_batches(timeout_ms, with_skipped=with_skipped)]

    async def _take_batches(self, timeout_ms: int, *, with_skipped: bool = False) -> list[tuple[ConsumedBatch, int]]:
        """All fetched batches, each with the position before it."""
        end = self._cluster.deadline(timeout_ms)
        while True:
            await self._work(end)
            taken = []
            while (batch := self._fetcher.take()) is not None:
                state = self._positions.get(batch.partition)
                position, state.position = state.position, batch.header.next_offset
                state.leader_epoch = batch.header.leader_epoch
                if len(batch.view) or with_skipped:
                    taken.append((batch, position))
            if taken or not await self._wait(end):
                self.measures.records += sum(batch.header.record_count for batch, _ in taken)
                return taken

    def wakeup(self) -> None:
        """Makes the present or next waiting call raise WokenUp, also a listener's. For any thread or signal handler."""
        self._wakeups.wakeup()

    # Offsets.

    async def commit(self, offsets: Mapping[TopicPartition, int | CommittedOffset] | None = None) -> None:
        """Commits these offsets, or the positions of all assigned partitions. Raises KafkaError or ClientError."""
        wanted = self._committable() if offsets is None else as_commits(offsets)
        await self._wakeups.interruptible(self._commits.commit(wanted))

    def commit_async(
        self,
        offsets: Mapping[TopicPartition, int | CommittedOffset] | None = None,
        on_commit: OnCommit | None = None,
    ) -> None:
        """Commits in the background, without retries; `on_commit` gets the offsets and the error."""
        self._commits.commit_async(self._committable() if offsets is None else as_commits(offsets), on_commit)

    async def committed(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, CommittedOffset]:
        return await self._wakeups.interruptible(self._starts.committed(partitions))

    async def offsets_for_times(self, times: Mapping[TopicPartition, int]) -> dict[TopicPartition, FoundOffset | None]:
        """The first record from each timestamp on; None if there is none."""
        return await self._wakeups.interruptible(self._starts.for_times(times))

    async def beginning_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return await self._wakeups.interruptible(self._starts.numbers(partitions, EARLIEST))

    async def end_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return await self._wakeups.interruptible(self._starts.numbers(partitions, LATEST))

    async def knows(self, topic: str) -> bool:
        """True if the topic exists."""
        info = (await self._cluster.refresh([topic])).topics.get(topic)
        return info is not None and (info.error is None or bool(info.partitions))

    async def partitions(self, topic: str) -> list[TopicPartition]:
        return [TopicPartition(topic, number) for number in (await self._cluster.topic(topic)).partitions]

    # Close.

    async def close(self) -> None:
        """Commits if auto-commit is on, and leaves the group."""
        if self._closed:
            return
        self._closed = True
        try:
            await self._leave()
        finally:
            await self._commits.wait_pending()
            await self._fetcher.close()
            self._interceptors.close()
            self._deserializing.close()
            await self._figures.close()
            if self._owned:
                await self._cluster.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    # Internals.

    async def _work(self, deadline: float) -> None:
        """Does everything that is due before records can be returned."""
        self._wakeups.check()
        if self._membership is not None:
            await self._membership.poll(deadline)
        await self._commits.commit_when_due()
        if self._fetcher.failure is not None:
            failure, self._fetcher.failure = self._fetcher.failure, None
            raise failure
        await self._starts.find_due()
        if self._membership is not None and self._positions.states and not self._membership.is_member:
            # The membership ended during the wait, so the fetched records belong to other members.
            await self._membership.poll(deadline)
        self._fetcher.start()

    async def _wait(self, end: float) -> bool:
        """Waits for records, or until the group, a commit or a position is due; returns False at the deadline."""
        loop = asyncio.get_running_loop()
        if self._fetcher.has_next or self._fetcher.failure is not None:
            return True
        lookups = [self._positions.get(partition).look_again for partition in self._positions.unknown]
        until = min(end, self._commits.next_at, *lookups)
        self._fetcher.arrived.clear()
        # A wakeup before the line above would be missed otherwise.
        self._wakeups.check()
        waits: list[asyncio.Future[object]] = [asyncio.ensure_future(self._fetcher.arrived.wait())]
        if self._membership is not None:
            waits.append(asyncio.ensure_future(self._membership.wait()))
        try:
            left = max(until - loop.time(), 0)
            done, _ = await asyncio.wait(waits, timeout=left, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for waiter in waits:
                waiter.cancel()
        self._wakeups.check()
        return bool(done) or loop.time() < end

    async def _open(self, batch: ConsumedBatch, state: PartitionState, limit: int) -> list[ConsumedRecord]:
        header = batch.header
        records: list[ConsumedRecord] = []
        if len(batch.view):
            where, opened = state.position, self._opened
            records = decode_batch(batch.partition, header, batch.view, from_offset=where, limit=limit, opened=opened)
        state.leader_epoch = header.leader_epoch
        count = len(records)
        if self._deserializing:
            raw, turn = records, state.turn
            records = await self._deserializing.run(lambda: self._deserializing.apply(raw))
            if state.turn != turn:
                # Another task has moved the position meanwhile.
                return []
        has_more = count == limit and records[-1].offset + 1 < header.next_offset
        if has_more or len(records) < count:
            state.position = records[-1].offset + 1
            self._fetcher.put_back(batch)
        else:
            self._opened.close()
            state.position = max(header.next_offset, records[-1].offset + 1 if records else 0)
        return records

    def _forget_waiting(self, keeps: Any) -> None:
        kept = (record for record in self._waiting if keeps(TopicPartition(record.topic, record.partition)))
        self._waiting = deque(kept)

    def _committable(self) -> dict[TopicPartition, CommittedOffset]:
        """The positions behind the records that were handed out."""
        offsets = {
            partition: CommittedOffset(offset, epoch)
            for partition, (offset, epoch) in self._positions.committable().items()
        }
        for record in reversed(self._waiting):
            partition = TopicPartition(record.topic, record.partition)
            if partition in offsets:
                offsets[partition] = CommittedOffset(record.offset, record.leader_epoch)
        return offsets

    def _assign(self, partitions: list[TopicPartition]) -> None:
        self._positions.assign(partitions)
        self._forget_waiting(self._positions.states.__contains__)

    async def _leave(self, *, keeps: Iterable[TopicPartition] = ()) -> None:
        """Commits, unless all partitions are kept. A member also calls its listener and leaves the group."""
        membership = self._membership
        if membership is None:
            if not self._positions.states.keys() <= set(keeps):
                await self._commits.commit_last()
            return
        try:
            await self._give_up(self.assignment)
        finally:
            # Also after an error of the listener: other members get the partitions.
            self._assign([partition for partition in keeps if partition in self._positions.states])
            await membership.leave()
            self._membership = self._commits.membership = None

    async def _give_up(self, partitions: list[TopicPartition]) -> None:
        """Commits, and calls the listener. A removed member commits nothing: other members may have committed since."""
        if partitions and self._membership is not None and self._membership.is_member:
            await self._commits.commit_last()
            await self._commits.wait_pending()
            await self._listener.on_revoked(partitions)
            # Commits of the listener must not come after a join or a leave, which is sent on another connection.
            await self._commits.wait_pending()
        elif partitions:
            await self._listener.on_lost(partitions)

    async def _on_rebalance(self, revoked: list[TopicPartition], assigned: list[TopicPartition]) -> None:
        before = set(self._positions.states)
        # After a listener has failed, the membership and the consumer may have different partitions.
        revoked = [partition for partition in revoked if partition in before]
        self.measures.rebalances += 1
        await self._give_up(revoked)
        self._assign(assigned)
        added = [partition for partition in assigned if partition not in before]
        if added or not revoked:
            await self._listener.on_assigned(added)


def _read(config: Mapping[str, Any]) -> tuple[ClientSettings, ConsumerSettings]:
    # Imported with the first dictionary: settings in types need no reader.
    from ottla.client.config.consumer import read_consumer

    return read_consumer(config)
