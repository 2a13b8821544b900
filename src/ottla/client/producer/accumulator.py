"""Collects records in batches: one open batch for each partition, and a bound on the bytes of all batches.

A batch is closed when it is full, or by the sender after `linger_ms`; from then on the sender owns it. `wake` is set
when a batch is ready for the sender, `room` while the buffer has room for waiting sends.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

from ottla.client.fast import partition_of_key
from ottla.client.metadata import PartitionInfo, TopicInfo
from ottla.client.producer.batch import (
    RECORD_OVERHEAD,
    Delivery,
    EncodedRecords,
    OnDelivery,
    ProducerBatch,
    headers_size,
    looked_at,
)
from ottla.client.producer.partitioner import Partitioner, StickyPartitioner
from ottla.client.producer.queue import PartitionQueue
from ottla.client.producer.settings import ProducerSettings
from ottla.client.producer.splitting import split_batch
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
        # By topic, if the partitioner is sticky.
        self._sticky: dict[str, StickyPartitioner] = {}
        self._is_transactional = settings.transactional_id is not None
        self._record_bytes_max = settings.request_bytes_max
        self._buffer_bytes = settings.buffer_bytes
        self._buffered = 0
        # Batches that were closed since the sender had its last turn.
        self.closed_count = 0
        # True while sends wait for `room`.
        self.is_full = False
        self.queues: dict[TopicPartition, PartitionQueue] = {}
        # The same queues by topic and number.
        self._by_topic: dict[str, dict[int, PartitionQueue]] = {}
        # Batches that are neither acknowledged nor failed.
        self.unfinished: set[ProducerBatch] = set()
        self.room = asyncio.Event()
        self.room.set()
        self.wake = asyncio.Event()
        # Broker -> the time since which it takes no batches.
        self.stalled: dict[int, float] = {}

    @property
    def available_bytes(self) -> int:
        """The room that is left in the buffer."""
        return max(self._buffer_bytes - self._buffered, 0)

    def append(
        self,
        info: TopicInfo,
        value: bytes | None,
        key: bytes | None,
        headers: Sequence[tuple[str, bytes | None]],
        partition: int | None,
        timestamp_ms: int | None,
        on_delivery: OnDelivery | None = None,
    ) -> Delivery:
        """Adds a record to the open batch of its partition."""
        # The hot path of a producer, without any avoidable call.
        size = RECORD_OVERHEAD + (len(key) if key else 0) + (len(value) if value else 0)
        if headers:
            size += headers_size(headers)
        if size > self._record_bytes_max:
            raise KafkaError(ErrorCode.MESSAGE_TOO_LARGE, f"A record of {size} bytes is larger than a request may be.")
        timestamp = int(time.time() * 1000) if timestamp_ms is None else _checked_timestamp(timestamp_ms)
        sticky: StickyPartitioner | None = None
        if partition is None:
            sticky = self._sticky.get(info.name) or self._new_sticky(info.name)
            if sticky is None:
                partition = self._choose(info, key, value)
            elif key is None or sticky.ignores_keys:
                partition = sticky(key, info.partitions)
            else:
                partition = partition_of_key(key, len(info.partitions))
        elif partition not in info.partitions:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"There is no partition {info.name}-{partition}.")
        if self._is_transactional:
            self._transactions.check_open()
        of_topic = self._by_topic.get(info.name)
        queue = of_topic.get(partition) if of_topic is not None else None
        if queue is None:
            queue = self._queue(TopicPartition(info.name, partition))
        batch = queue.open
        if batch is None or (size > batch.room and batch.count):
            moves = batch is not None and sticky is not None and (key is None or sticky.ignores_keys)
            queue, batch = self._batch_with_room(info, queue, partition, size, sticky if moves else None)
        try:
            index = batch.append(key, value, headers, timestamp)
        except Exception:
            if not batch.count:
                # Brokers refuse a batch without records, and its transaction would fail.
                queue.open = None
                self.forget(batch)
            raise
        if on_delivery is not None:
            batch.callbacks.append((index, timestamp, on_delivery))
        batch.buffered += size
        self._buffered += size
        if self._buffered >= self._buffer_bytes:
            self._set_full()
        if batch.room < 1:
            self.close_batch(queue)
        return Delivery(batch, index, timestamp)

    def _batch_with_room(
        self, info: TopicInfo, queue: PartitionQueue, partition: int, size: int, sticky: StickyPartitioner | None
    ) -> tuple[PartitionQueue, ProducerBatch]:
        """A batch for a record for which the open batch has no room; with `sticky`, of the next partition."""
        topic_partition = TopicPartition(info.name, partition)
        if sticky is not None:
            # In the old partition the record would be alone in its batch.
            self.close_batch(queue)
            sticky.next_partition()
            topic_partition = TopicPartition(info.name, sticky(None, info.partitions))
            queue = self._queue(topic_partition)
        batch = queue.open
        if batch is None or not batch.has_room(size):
            batch = self._next_batch(topic_partition, queue)
        return queue, batch

    def _queue(self, partition: TopicPartition) -> PartitionQueue:
        queue = self.queues.get(partition)
        if queue is None:
            queue = self.queues[partition] = PartitionQueue()
            self._by_topic.setdefault(partition.topic, {})[partition.partition] = queue
        return queue

    def forget_topic(self, topic: str) -> None:
        """Removes the empty queues of a topic."""
        for number in self._by_topic.pop(topic, {}):
            del self.queues[TopicPartition(topic, number)]

    def _set_full(self) -> None:
        self.is_full = True
        self.room.clear()
        self.wake.set()

    def _choose(self, info: TopicInfo, key: bytes | None, value: bytes | None) -> int:
        """The choice of a partitioner that is not sticky."""
        own = self._partitioner
        if hasattr(own, "partition"):
            chosen = own.partition(info.name, key, value, info.partitions)
        else:
            assert callable(own)
            chosen = own(key, info.partitions)
        if chosen not in info.partitions:
            raise KafkaError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                f"The partitioner {type(own).__name__} chose partition {chosen!r} of topic {info.name!r}, "
                f"which has {len(info.partitions)}.",
            )
        return int(chosen)

    def append_encoded(self, partition: TopicPartition, records: EncodedRecords) -> asyncio.Future[tuple[int, int]]:
        """Makes a batch from encoded records."""
        self._transactions.check_open()
        queue = self._queue(partition)
        batch = self._next_batch(partition, queue)
        batch.fill(records)
        self._buffered += batch.buffered
        if self._buffered >= self._buffer_bytes:
            self._set_full()
        self.close_batch(queue)
        return batch.done

    def close_batch(self, queue: PartitionQueue) -> None:
        """Closes the open batch."""
        batch = queue.open
        assert batch is not None
        queue.closed.append(batch)
        self.closed_count += 1
        queue.open = None
        self.wake.set()
        topic, partition = batch.partition
        sticky = self._sticky.get(topic)
        if sticky is not None:
            sticky.on_batch_closed(partition, batch.size, batch_size=self._settings.batch_size)

    def forget(self, batch: ProducerBatch) -> None:
        """Removes a batch that was acknowledged or has failed, and frees its room."""
        self.unfinished.discard(batch)
        self._buffered -= batch.buffered
        if self._buffered < self._buffer_bytes and self.is_full:
            self.is_full = False
            self.room.set()

    def split(self, batch: ProducerBatch) -> None:
        """Replaces a batch that the broker refused as too large by two batches, which are sent next."""
        queue = self.queues[batch.partition]
        first, second = split_batch(batch)
        for part in (second, first):
            queue.put_back(part)
            self.unfinished.add(part)
        self.unfinished.discard(batch)
        if not batch.done.done():
            # Deliveries look for their record in the parts.
            batch.done.set_result((-1, -1))
        self.wake.set()

    def take_all(self) -> list[ProducerBatch]:
        """Removes and returns all batches that are not in flight."""
        return [batch for queue in self.queues.values() for batch in queue.take_all()]

    def _new_sticky(self, topic: str) -> StickyPartitioner | None:
        own = self._partitioner
        if not isinstance(own, StickyPartitioner):
            return None

        def load(info: PartitionInfo) -> int | None:
            since = self.stalled.get(info.leader)
            patience = own.availability_timeout_ms / 1000
            if since is not None and patience and asyncio.get_running_loop().time() - since > patience:
                return None
            queue = self.queues.get(TopicPartition(topic, info.partition))
            return 0 if queue is None else len(queue.closed)

        sticky = self._sticky[topic] = own.for_topic(load)
        return sticky

    def close(self) -> None:
        """Closes a partitioner of the application, if it has such a method."""
        close = getattr(self._partitioner, "close", None)
        if callable(close):
            close()

    def _next_batch(self, partition: TopicPartition, queue: PartitionQueue) -> ProducerBatch:
        if queue.open is not None:
            self.close_batch(queue)
        loop = asyncio.get_running_loop()
        done: asyncio.Future[tuple[int, int]] = loop.create_future()
        # Callers may ignore a delivery, so its unretrieved failure must not be logged.
        done.add_done_callback(looked_at)
        settings = self._settings
        queue.filled_at = loop.time()
        batch = queue.open = ProducerBatch(
            partition,
            limit=settings.batch_size,
            codec=settings.compression,
            level=settings.compression_level,
            created=queue.filled_at,
            done=done,
        )
        self.unfinished.add(batch)
        self.wake.set()
        return batch


def _checked_timestamp(timestamp_ms: int) -> int:
    if -_TIMESTAMP_MAX <= timestamp_ms <= _TIMESTAMP_MAX:
        return timestamp_ms
    # Encoding its batch would fail and block all later batches.
    raise KafkaError(ErrorCode.INVALID_TIMESTAMP, f"The timestamp {timestamp_ms} is out of range.")
