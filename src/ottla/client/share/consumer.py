"""`ShareConsumer`: a member of a share group (KIP-932), whose members read the same partitions together.

A poll acquires records: no other member gets them until they are acknowledged, or their lock expires. With implicit
acknowledgement (the default), the next poll accepts the records of the last one. With explicit acknowledgement, the
application decides about every record before it polls again. Closing releases records without a decision.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any, Self

from ottla.client.cluster import Cluster
from ottla.client.consumer.deserializing import Deserializing
from ottla.client.consumer.membership import Subscription
from ottla.client.consumer.wakeups import Wakeups
from ottla.client.errors import ClientError, TimedOut
from ottla.client.figures import ClientFigures
from ottla.client.measures import SHARE_METRICS, SHARE_TOTALS
from ottla.client.opening import opened
from ottla.client.settings import ClientSettings
from ottla.client.share.acknowledgements import Acknowledge
from ottla.client.share.fetcher import ShareFetcher
from ottla.client.share.held import HeldRecords, OnAcknowledged
from ottla.client.share.membership import ShareMembership
from ottla.client.share.records import AcquiredRecords, SharedRecord, Taken
from ottla.client.share.settings import ShareSettings
from ottla.model.errors import ErrorCode, KafkaError
from ottla.model.ids import TopicPartition, Uuid

__all__ = ["ShareConsumer"]

# `close` waits this long for acknowledgements, as Kafka's consumer does.
CLOSE_TIMEOUT_MS = 30_000


class ShareConsumer:
    """An async context manager. One event loop owns it; see `blocking` for threads.

    The first argument is a dictionary with Kafka's configuration keys, or typed settings together with the second.
    """

    def __init__(
        self, settings: ClientSettings | Cluster | Mapping[str, Any], share: ShareSettings | None = None
    ) -> None:
        self.settings, self._cluster, self._owned, config = opened(settings, share, default=ShareSettings, read=_read)
        if not self.settings.group_id:
            raise ClientError("A share consumer needs a group: set group.id.")
        self._deserializing = Deserializing(self.settings.key_deserializer, self.settings.value_deserializer)
        self._deserializing.configure(config)
        self._held = HeldRecords()
        self._fetcher = ShareFetcher(self._cluster, self.settings, self._held.drop, self._acknowledged)
        self.measures = self._fetcher.measures
        self._membership: ShareMembership | None = None
        self._assigned: list[TopicPartition] = []
        self._on_acknowledged: OnAcknowledged | None = None
        # Records of the last poll that `async for` has not handed out yet, and the record that it handed out last.
        self._waiting: deque[SharedRecord] = deque()
        self._last: SharedRecord | None = None
        # Records that a cancelled poll has read and not returned, and its unfinished read.
        self._undelivered: list[tuple[int, list[SharedRecord]]] = []
        self._reading: tuple[AcquiredRecords, asyncio.Task[Taken]] | None = None
        # An error that a poll raises after the records before it.
        self._error: Exception | None = None
        self._tasks: set[asyncio.Task[Any]] = set()
        # The request of a poll that renews locks. It goes on if the poll is cancelled, and the next poll waits for it.
        self._renewing: asyncio.Task[Any] | None = None
        self._wakeups = Wakeups(lambda: self._fetcher.arrived.set())
        self._closed = False
        self._figures = ClientFigures(
            self._cluster,
            SHARE_METRICS,
            SHARE_TOTALS,
            self.measures,
            resource={"group_id": self.settings.group_id, "client_rack": self.settings.rack},
            owns_connections=self._owned,
        )

    def metrics(self) -> dict[str, float]:
        """Recent rates and averages under Kafka's names; `measures` has the totals."""
        return self._figures.values()

    async def client_instance_id(self, timeout_ms: int = 30_000) -> Uuid:
        """The id under which brokers get this client's metrics (KIP-714)."""
        return await self._figures.instance_id(timeout_ms)

    # Subscription.

    async def subscribe(self, topics: Iterable[str]) -> None:
        """Becomes a member of the group at the next poll, or changes the topics of the member."""
        if isinstance(topics, str):
            raise ClientError(f"Topics are a list: write [{topics!r}].")
        names = tuple(topics)
        if not names:
            await self.unsubscribe()
            return
        await self._cluster.refresh(list(names), create=self.settings.allow_auto_create)
        if self._membership is not None:
            self._membership.change(names)
            return
        self._membership = ShareMembership(self._cluster, self.settings, Subscription(names), self._on_rebalance)

    async def unsubscribe(self) -> None:
        """Sends the acknowledgements that were made, releases all other records, and leaves the group."""
        await self._leave()

    @property
    def subscription(self) -> tuple[str, ...]:
        return () if self._membership is None else self._membership.subscription.topics

    @property
    def assignment(self) -> list[TopicPartition]:
        """The partitions from which the member gets records; other members may have them, too."""
        return list(self._assigned)

    @property
    def acquisition_lock_timeout_ms(self) -> int | None:
        """How long acquired records are locked; None before the first fetch."""
        return self._fetcher.lock_timeout_ms

    # Reading.

    async def poll(self, timeout_ms: int = 1_000) -> list[SharedRecord]:
        """The next records, at least one unless the time-out expires.

        A record that cannot be deserialized is released, a damaged batch is rejected, and poll raises the error. The
        next poll continues behind them.
        """
        if self._membership is None:
            raise ClientError("The share consumer is not subscribed to any topics.")
        if self._waiting:
            records = list(self._waiting)
            self._waiting.clear()
            return records
        self._last = None
        await self._settle()
        if renewed := self._held.records:
            return renewed
        end = self._cluster.deadline(timeout_ms)
        while True:
            await self._work(end)
            polled = await self._take()
            if polled or not await self._wait(end):
                self.measures.records += len(polled)
                return polled

    async def _settle(self) -> None:
        """Decides about the records of the last poll, or demands that the application has done so."""
        if not self.settings.explicit:
            self._held.accept_all()
        elif (undecided := self._held.undecided) and self._renewing is None:
            raise ClientError(
                f"{undecided} records of the last poll are not acknowledged. With explicit acknowledgement, "
                "acknowledge every record before the next poll."
            )
        while self._renewing is not None or self._held.has_renewals:
            # The application holds renewed records until it decides about them: a poll returns them again.
            task = self._renewing = self._renewing or self._begin_to_send_decisions()
            try:
                await asyncio.shield(task)
            finally:
                self._renewing = None if task.done() else task
        self._fetcher.add(self._held.take())
        self._held.begin_poll()

    def _begin_to_send_decisions(self) -> asyncio.Task[dict[TopicPartition, KafkaError | None]]:
        """`_send_decisions` as a task. Wait for it with a shield, so that it goes on if the wait is cancelled.

        A request that is cancelled would end the share session, and with it the locks of all held records.
        """
        task = asyncio.ensure_future(self._send_decisions())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _send_decisions(self) -> dict[TopicPartition, KafkaError | None]:
        """Sends all decisions. Records whose lock could not be renewed belong to the broker again."""
        renewals = self._held.renewals
        results = await self._fetcher.acknowledge(self._held.take())
        for node_id, partition, offset in renewals:
            if results.get(partition) is not None:
                self._held.lose(node_id, partition, offset)
        return results

    async def _work(self, deadline: float) -> None:
        self._wakeups.check()
        assert self._membership is not None
        await self._membership.poll(deadline)
        self._fetcher.member_id = self._membership.identity.member_id
        if self._error is not None:
            error, self._error = self._error, None
            raise error
        if self._fetcher.failure is not None:
            failure, self._fetcher.failure = self._fetcher.failure, None
            raise failure
        if not self._fetcher.ready:
            self._fetcher.start(self._assigned, self._held.partitions_of)

    async def _take(self) -> list[SharedRecord]:
        """The next records. They are held only when they are returned: a cancelled poll has delivered nothing."""
        while self._reading is not None or (
            self._fetcher.ready and self._undelivered_count() < self.settings.max_poll_records and self._error is None
        ):
            acquired, taken = await self._read()
            self._undelivered.append((acquired.node_id, taken.records))
            self._held.decide(acquired.node_id, acquired.partition, taken.decided)
            self._error = taken.error or self._error
            ready = self._fetcher.ready
            # A broken connection may have removed the records meanwhile.
            if not acquired.offsets and ready and ready[0] is acquired:
                ready.popleft()
        delivered: list[SharedRecord] = []
        for node_id, records in self._undelivered:
            self._held.deliver(node_id, records)
            delivered += records
        self._undelivered.clear()
        if not delivered:
            # Gaps are acknowledged with the next request.
            self._fetcher.add(self._held.take())
        return delivered

    def _undelivered_count(self) -> int:
        return sum(len(records) for _, records in self._undelivered)

    async def _read(self) -> tuple[AcquiredRecords, Taken]:
        """Decodes and deserializes records. If the poll is cancelled, the next poll gets them."""
        if self._reading is None:
            acquired = self._fetcher.ready[0]
            limit = self.settings.max_poll_records - self._undelivered_count()
            work = self._deserializing.run(partial(acquired.take, limit, self._deserializing))
            self._reading = acquired, asyncio.ensure_future(work)
        acquired, task = self._reading
        try:
            taken = await asyncio.shield(task)
        except Exception:
            self._reading = None
            raise
        self._reading = None
        return acquired, taken

    async def _wait(self, end: float) -> bool:
        """Waits for records or the group; returns False at the deadline."""
        assert self._membership is not None
        if self._error is not None or self._fetcher.ready or self._fetcher.failure is not None:
            return True
        self._fetcher.arrived.clear()
        # A wakeup before the line above would be missed otherwise.
        self._wakeups.check()
        waits = [
            asyncio.ensure_future(self._fetcher.arrived.wait()),
            asyncio.ensure_future(self._membership.wait()),
        ]
        try:
            left = max(end - asyncio.get_running_loop().time(), 0)
            done, _ = await asyncio.wait(waits, timeout=left, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for waiter in waits:
                waiter.cancel()
        self._wakeups.check()
        return bool(done) or asyncio.get_running_loop().time() < end

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SharedRecord:
        """The next record; waits for it without limit. With implicit acknowledgement it accepts the previous one."""
        while (record := self.next_waiting()) is None:
            if self._closed:
                raise StopAsyncIteration
            await self.fill_waiting()
        return record

    def next_waiting(self) -> SharedRecord | None:
        """The next record of the last `fill_waiting`."""
        if self._last is not None and not self.settings.explicit:
            self._held.accept(self._last)
        self._last = self._waiting.popleft() if self._waiting else None
        return self._last

    async def fill_waiting(self) -> None:
        """Polls records for `next_waiting`."""
        self._waiting.extend(await self.poll())

    def wakeup(self) -> None:
        """Makes the present or the next poll raise WokenUp. May be called from any thread and from signal handlers."""
        self._wakeups.wakeup()

    # Acknowledgement.

    def acknowledge(self, record: SharedRecord, kind: Acknowledge = Acknowledge.ACCEPT) -> None:
        """Decides about a record of the last poll. The next poll or commit sends the decision."""
        self.acknowledge_offset(record.topic, record.partition, record.offset, kind)

    def acknowledge_offset(
        self, topic: str, partition: int, offset: int, kind: Acknowledge = Acknowledge.ACCEPT
    ) -> None:
        if not self.settings.explicit:
            raise ClientError("The next poll acknowledges records: set share.acknowledgement.mode to explicit.")
        if self._held.is_taken_back(topic, partition, offset):
            # Not a mistake of the application: the callback gets the error, as after an answer of the broker.
            released = KafkaError(ErrorCode.INVALID_RECORD_STATE, "The broker has released the record.")
            self._acknowledged(TopicPartition(topic, partition), [offset], released)
            return
        self._held.acknowledge(topic, partition, offset, Acknowledge(kind))

    async def commit(self, *, timeout_ms: int | None = None) -> dict[TopicPartition, KafkaError | None]:
        """Sends the acknowledgements that were made, and waits for the answers: an error, or None, by partition.

        With implicit acknowledgement it accepts all records that were handed out.
        """
        self._accept_handed_out()
        try:
            async with asyncio.timeout_at(self._cluster.deadline(timeout_ms)):
                return await asyncio.shield(self._begin_to_send_decisions())
        except TimeoutError:
            raise TimedOut("The brokers did not answer the acknowledgements in time.") from None

    def commit_async(self) -> None:
        """Sends the acknowledgements that were made, in the background. The callback gets the outcome."""
        self._accept_handed_out()
        task = asyncio.ensure_future(self._send_decisions())
        self._tasks.add(task)
        task.add_done_callback(self._on_committed)

    def _on_committed(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and isinstance(error := task.exception(), Exception):
            self.raise_later(error)

    def _accept_handed_out(self) -> None:
        """Accepts all records that were handed out, with implicit acknowledgement."""
        if self.settings.explicit:
            return
        kept = {(record.topic, record.partition, record.offset) for record in self._waiting}
        for record in self._held.records:
            if (record.topic, record.partition, record.offset) not in kept:
                self._held.accept(record)

    def set_acknowledgement_callback(self, callback: OnAcknowledged | None) -> None:
        """Called with the partition, the offsets and the error, or None, of every answer to acknowledgements."""
        self._on_acknowledged = callback

    def _acknowledged(self, partition: TopicPartition, offsets: list[int], error: KafkaError | None) -> None:
        if self._on_acknowledged is not None:
            try:
                self._on_acknowledged(partition, offsets, error)
            except Exception as failure:  # noqa: BLE001 (the next poll raises it)
                self.raise_later(failure)

    def raise_later(self, error: Exception) -> None:
        """Makes the present or the next poll raise an error, such as that of a callback."""
        self._error = self._error or error

    # Close.

    async def close(self, *, timeout_ms: int = CLOSE_TIMEOUT_MS) -> None:
        """Sends the acknowledgements that were made, releases all other records, and leaves the group."""
        if self._closed:
            return
        self._closed = True
        try:
            await self._leave(timeout_ms)
        finally:
            self._deserializing.close()
            await self._figures.close()
            if self._owned:
                await self._cluster.close()

    async def _leave(self, timeout_ms: int = CLOSE_TIMEOUT_MS) -> None:
        membership, self._membership = self._membership, None
        self._waiting.clear()
        end = self._cluster.deadline(timeout_ms)
        pending = {*self._tasks} if self._reading is None else {*self._tasks, self._reading[1]}
        try:
            if pending:
                _, late = await asyncio.wait(pending, timeout=timeout_ms / 1000)
                for task in late:
                    task.cancel()
            self._fetcher.add(self._held.take())
            await self._fetcher.close(max(int((end - asyncio.get_running_loop().time()) * 1000), 0))
        finally:
            self._undelivered.clear()
            self._reading = self._renewing = None
            self._held = HeldRecords()
            self._fetcher = self._renewed_fetcher()
            self._assigned = []
            if membership is not None:
                await membership.leave()

    def _renewed_fetcher(self) -> ShareFetcher:
        fetcher = ShareFetcher(self._cluster, self.settings, self._held.drop, self._acknowledged)
        fetcher.measures = self.measures
        fetcher.lock_timeout_ms = self._fetcher.lock_timeout_ms
        return fetcher

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def _on_rebalance(self, _revoked: list[TopicPartition], assigned: list[TopicPartition]) -> None:
        self.measures.rebalances += 1
        self._assigned = assigned


def _read(config: Mapping[str, Any]) -> tuple[ClientSettings, ShareSettings]:
    # Imported with the first dictionary: settings in types need no reader.
    from ottla.client.config.share import read_share

    return read_share(config)
