"""Records become batches here: one open batch for each partition, and a bound on what all of them may hold.

A batch is closed when it is full, or by the sender when it has waited long enough; from then on it is the sender's.
`wake` tells the sender that there is something to do, `room` tells whoever sends that there is room again.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

from ottla.client.metadata import TopicInfo
from ottla.client.producer.batch import Delivery, EncodedRecords, ProducerBatch, looked_at, size_at_most
from ottla.client.producer.partitioner import Partitioner, StickyPartitioner
from ottla.client.producer.queue import PartitionQueue
from ottla.client.producer.settings import ProducerSettings
from ottla.client.producer.transactions import TransactionManager
from ottla.model.errors import ErrorCode, KafkaError
from ottla.model.ids import TopicPartition

__all__ = ["Accumulator"]

_TIMESTAMP_MAX = 0x7FFFFFFFFFFFFFFF


class Accumulator:
    def __init__(self, settings: ProducerSettings, transactions: TransactionManager) -> None:
        self._settings = settings
        self._transactions = transactions
        self._partitioner: Partitioner = settings.partitioner or StickyPartitioner()
        self._buffered = 0
        self.queues: dict[TopicPartition, PartitionQueue] = {}
        # Batches that nobody knows the outcome of yet.
        self.unfinished: set[ProducerBatch] = set()
        self.room = asyncio.Event()
        self.room.set()
        self.wake = asyncio.Event()

    def append(
        self,
        info: TopicInfo,
        value: bytes | None,
        key: bytes | None,
        headers: Sequence[tuple[str, bytes | None]],
        partition: int | None,
        timestamp_ms: int | None,
    ) -> Delivery:
        """Puts a record into the open batch of its partition."""
        size = size_at_most(key, value, headers)
        if size > self._settings.request_bytes_max:
            raise KafkaError(ErrorCode.MESSAGE_TOO_LARGE, f"A record of {size} bytes is larger than a request may be.")
        if timestamp_ms is not None and not -_TIMESTAMP_MAX <= timestamp_ms <= _TIMESTAMP_MAX:
            # It could not be written down when its batch leaves, and would hold up everything behind it.
            raise KafkaError(ErrorCode.INVALID_TIMESTAMP, f"There is no point in time {timestamp_ms}.")
        if partition is None:
            partition = self._partitioner(key, info.partitions)
        elif partition not in info.partitions:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"There is no partition {info.name}-{partition}.")
        one = TopicPartition(info.name, partition)
        self._transactions.check_open()
        queue = self.queues.get(one) or self.queues.setdefault(one, PartitionQueue())
        batch = queue.open
        if batch is None or not batch.has_room(size):
            batch = self._next_batch(one, queue)
        timestamp = int(time.time() * 1000) if timestamp_ms is None else timestamp_ms
        try:
            index = batch.append(key, value, headers, timestamp)
        except Exception:
            if not batch.count:
                # A batch without records would be refused, and would spoil its transaction.
                queue.open = None
                self.forget(batch)
            raise
        self._buffered += size
        batch.buffered += size
        if self._buffered >= self._settings.buffer_bytes:
            self.room.clear()
            self.wake.set()
        if not batch.has_room(1):
            self.close_batch(queue)
        return Delivery(batch, index, timestamp)

    def append_encoded(self, one: TopicPartition, records: EncodedRecords) -> asyncio.Future[tuple[int, int]]:
        """Makes a batch of its own of records that are encoded already."""
        self._transactions.check_open()
        queue = self.queues.setdefault(one, PartitionQueue())
        batch = self._next_batch(one, queue)
        batch.fill(records)
        self._buffered += batch.buffered
        if self._buffered >= self._settings.buffer_bytes:
            self.room.clear()
        self.close_batch(queue)
        return batch.done

    def close_batch(self, queue: PartitionQueue) -> None:
        """Nothing more goes into the open batch."""
        assert queue.open is not None
        queue.closed.append(queue.open)
        queue.open = None
        self.wake.set()
        if isinstance(self._partitioner, StickyPartitioner):
            self._partitioner.next_batch()

    def forget(self, batch: ProducerBatch) -> None:
        """A batch has come to its end, and makes room."""
        self.unfinished.discard(batch)
        self._buffered -= batch.buffered
        if self._buffered < self._settings.buffer_bytes:
            self.room.set()

    def take_all(self) -> list[ProducerBatch]:
        """Everything that has not left; nothing of it is here any more."""
        return [batch for queue in self.queues.values() for batch in queue.take_all()]

    def _next_batch(self, one: TopicPartition, queue: PartitionQueue) -> ProducerBatch:
        if queue.open is not None:
            self.close_batch(queue)
        loop = asyncio.get_running_loop()
        done: asyncio.Future[tuple[int, int]] = loop.create_future()
        # Nobody has to look at a delivery: a failure that is not looked at is not an error of its own.
        done.add_done_callback(looked_at)
        settings = self._settings
        batch = queue.open = ProducerBatch(
            one,
            limit=settings.batch_size,
            codec=settings.compression,
            level=settings.compression_level,
            created=loop.time(),
            done=done,
        )
        self.unfinished.add(batch)
        self.wake.set()
        return batch
