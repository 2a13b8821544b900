"""`ParallelConsumer`: many records at once, the records of a key in order, and commits only up to what is done.

    async with Consumer({..., "enable.auto.commit": False}) as consumer:
        parallel = ParallelConsumer(consumer, handle, workers=32)
        await parallel.subscribe("orders")
        await parallel.run()

Records wait in lanes: one for each key, or for each partition. A worker takes the first record of a lane, and the lane
has its next turn when the record is done. The committed offset of a partition is that of its first record that is not
done, so a restart repeats records but never skips one. Polling goes on while workers are busy; partitions are paused
while too many records wait. Records of a revoked partition are finished first, and what is done is committed.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Hashable, Mapping
from enum import Enum

from ottla.client.consumer import ConsumedRecord, Consumer
from ottla.client.errors import ClientError
from ottla.model.errors import ErrorCode, KafkaError
from ottla.model.ids import TopicPartition

__all__ = ["NO_MEMBER", "Handler", "Order", "ParallelConsumer", "Progress"]

Handler = Callable[[ConsumedRecord], Awaitable[object]]
"""Processes a record. An exception ends the run; the record is not committed."""

POLL_MS = 100
# The coordinator has removed the member, or is about to assign its partitions again.
NO_MEMBER = {
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.ILLEGAL_GENERATION,
    ErrorCode.REBALANCE_IN_PROGRESS,
    ErrorCode.STALE_MEMBER_EPOCH,
    ErrorCode.FENCED_MEMBER_EPOCH,
}


class Order(Enum):
    """Which records are processed one after the other."""

    # Those of a key in a partition; records without a key have no order.
    KEY = "key"
    PARTITION = "partition"
    NONE = "none"


class Progress:
    """The unfinished records of one partition, and the offset up to which all records are done."""

    def __init__(self) -> None:
        # In the order of the offsets.
        self._pending: dict[int, None] = {}
        self._next = -1

    def add(self, offset: int) -> None:
        self._pending[offset] = None
        self._next = offset + 1

    def finish(self, offset: int) -> None:
        self._pending.pop(offset, None)

    @property
    def is_idle(self) -> bool:
        return not self._pending

    @property
    def committable(self) -> int:
        """The offset of the first record that is not done; -1 if there was none yet."""
        return next(iter(self._pending), self._next)


class ParallelConsumer:
    """Runs until `stop`, or until a record fails."""

    def __init__(
        self,
        consumer: Consumer,
        handle: Handler,
        *,
        workers: int = 16,
        order: Order = Order.KEY,
        pending_max: int = 1_000,
        commit_interval_ms: int = 1_000,
        revoke_timeout_ms: int = 10_000,
    ) -> None:
        if consumer.settings.auto_commit:
            raise ClientError("A parallel consumer commits what is done: set enable.auto.commit to false.")
        self._consumer = consumer
        self._handle = handle
        self._workers = workers
        self._order = order
        self._pending_max = pending_max
        self._commit_interval = commit_interval_ms / 1000
        self._revoke_timeout = revoke_timeout_ms / 1000
        self._progress: dict[TopicPartition, Progress] = {}
        self._committed: dict[TopicPartition, int] = {}
        self._lanes: dict[Hashable, deque[tuple[ConsumedRecord, Progress]]] = {}
        self._ready: asyncio.Queue[Hashable] = asyncio.Queue()
        self._pending = 0
        self._changed = asyncio.Event()
        self._stopped = False
        # False while no worker could finish a record.
        self._works = False
        self._failure: BaseException | None = None

    async def subscribe(self, *topics: str) -> None:
        """Subscribes the consumer, with the listener that finishes the records of revoked partitions."""
        await self._consumer.subscribe(topics, on_revoked=self._on_revoked, on_lost=self._on_lost)

    def stop(self) -> None:
        """`run` finishes the records that wait, commits, and returns."""
        self._stopped = True

    async def run(self) -> None:
        """Processes records. Raises the exception of the first record that fails, after a commit of what is done."""
        loop = asyncio.get_running_loop()
        tasks = [asyncio.ensure_future(self._work()) for _ in range(self._workers)]
        commit_at = loop.time() + self._commit_interval
        self._works = True
        try:
            while not self._stopped and self._failure is None:
                self._throttle()
                for record in await self._consumer.poll(POLL_MS):
                    self._take(record)
                if loop.time() >= commit_at:
                    commit_at = loop.time() + self._commit_interval
                    await self._commit()
            while self._pending and self._failure is None:
                await self._wait()
        finally:
            self._works = False
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await self._commit()
        if self._failure is not None:
            raise self._failure

    # Records.

    def _take(self, record: ConsumedRecord) -> None:
        partition = TopicPartition(record.topic, record.partition)
        progress = self._progress.setdefault(partition, Progress())
        progress.add(record.offset)
        self._pending += 1
        lane = self._lane(partition, record)
        waiting = self._lanes.get(lane)
        if waiting is None:
            self._lanes[lane] = deque([(record, progress)])
            self._ready.put_nowait(lane)
        else:
            waiting.append((record, progress))

    def _lane(self, partition: TopicPartition, record: ConsumedRecord) -> Hashable:
        if self._order is Order.PARTITION:
            return partition
        if self._order is Order.KEY and record.key is not None:
            return partition, _hashable(record.key)
        return partition, record.offset

    async def _work(self) -> None:
        while True:
            lane = await self._ready.get()
            waiting = self._lanes[lane]
            record, progress = waiting[0]
            try:
                # A partition that was given up meanwhile has no progress any more, or a new one.
                if self._progress.get(TopicPartition(record.topic, record.partition)) is progress:
                    await self._handle(record)
            except asyncio.CancelledError:
                raise
            except BaseException as error:  # noqa: BLE001 (`run` raises it)
                self._failure = self._failure or error
                self._changed.set()
                return
            progress.finish(record.offset)
            self._pending -= 1
            waiting.popleft()
            if waiting:
                self._ready.put_nowait(lane)
            else:
                del self._lanes[lane]
            self._changed.set()

    def _throttle(self) -> None:
        """Pauses fetching while too many records wait; polls go on, so the member stays in its group."""
        assigned, paused = self._consumer.assignment, self._consumer.paused
        if self._pending >= self._pending_max:
            self._consumer.pause(*assigned)
        elif paused and self._pending <= self._pending_max // 2:
            self._consumer.resume(*paused)

    async def _wait(self) -> None:
        self._changed.clear()
        await self._changed.wait()

    # Commits and rebalances.

    async def _commit(self) -> None:
        offsets = {
            partition: progress.committable
            for partition, progress in self._progress.items()
            if progress.committable > self._committed.get(partition, -1)
        }
        if not offsets:
            return
        try:
            await self._consumer.commit(offsets)
        except KafkaError as error:
            if error.code not in NO_MEMBER:
                raise
            # The next poll joins again; what is not committed is repeated.
        else:
            self._committed |= offsets

    async def _on_revoked(self, partitions: list[TopicPartition]) -> None:
        try:
            async with asyncio.timeout(self._revoke_timeout):
                while (
                    self._works
                    and self._failure is None
                    and not all(
                        self._progress[partition].is_idle for partition in partitions if partition in self._progress
                    )
                ):
                    await self._wait()
        except TimeoutError:
            # The next owner repeats the records that are not done.
            pass
        await self._commit()
        self._forget(partitions)

    async def _on_lost(self, partitions: list[TopicPartition]) -> None:
        self._forget(partitions)

    def _forget(self, partitions: list[TopicPartition]) -> None:
        """Records that wait are dropped when their turn comes: their partition has no progress."""
        for partition in partitions:
            self._progress.pop(partition, None)
            self._committed.pop(partition, None)


def _hashable(key: object) -> Hashable:
    """A key that a deserializer has made, such as a dictionary, as a value with the same equality."""
    if isinstance(key, Mapping):
        return frozenset((_hashable(name), _hashable(value)) for name, value in key.items())
    if isinstance(key, list | tuple):
        return tuple(map(_hashable, key))
    if isinstance(key, set | frozenset):
        return frozenset(map(_hashable, key))
    # Other objects without a hash are told apart by their text.
    return key if isinstance(key, Hashable) else repr(key)
