"""Collects records in batches: one open batch for each partition, and a bound on the bytes of all batches.

A batch is closed when it is full, or by the sender after `linger_ms`; from then on the sender owns it. `wake` tells the
sender that a batch is ready, `room` tells waiting sends that the buffer has room again.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

from ottla.client.metadata import PartitionInfo, TopicInfo
from ottla.client.producer.batch import Delivery, EncodedRecords, OnDelivery, ProducerBatch, looked_at, size_at_most
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
        # By topic, if the partitioner is sticky.
        self._sticky: dict[str, StickyPartitioner] = {}
        self._buffered = 0
        self.queues: dict[TopicPartition, PartitionQueue] = {}
        # Batches that are neither acknowledged nor failed.
        self.unfinished: set[ProducerBatch] = set()
        self.room = asyncio.Event()
        self.room.set()
        self.wake = asyncio.Event()
        # Brokers that take no batches at the moment, and since when.
        self.stalled: dict[int, float] = {}

    @property
    def available_bytes(self) -> int:
        """The room that is left in the buffer."""
        return max(self._settings.buffer_bytes - self._buffered, 0)

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
        size = size_at_most(key, value, headers)
        if size > self._settings.request_bytes_max:
            raise KafkaError(ErrorCode.MESSAGE_TOO_LARGE, f"A record of {size} bytes is larger than a request may be.")
        if timestamp_ms is not None and not -_TIMESTAMP_MAX <= timestamp_ms <= _TIMESTAMP_MAX:
            # Encoding its batch would fail and block all later batches.
            raise KafkaError(ErrorCode.INVALID_TIMESTAMP, f"The timestamp {timestamp_ms} is out of range.")
        sticky: StickyPartitioner | None = None
        if partition is None:
            sticky = self._sticky.get(info.name) or self._new_sticky(info.name)
            partition = self._choose(info, key, value) if sticky is None else sticky(key, info.partitions)
        elif partition not in info.partitions:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"There is no partition {info.name}-{partition}.")
        self._transactions.check_open()
        one = TopicPartition(info.name, partition)
        queue = self.queues.get(one) or self.queues.setdefault(one, PartitionQueue())
        batch = queue.open
        if batch is None or not batch.has_room(size):
            if batch is not None and sticky is not None and (key is None or sticky.ignores_keys):
                # The record goes along to the next partition. In a batch of the old one it would stay alone.
                self.close_batch(queue)
                sticky.next_partition()
                one = TopicPartition(info.name, sticky(key, info.partitions))
                queue = self.queues.setdefault(one, PartitionQueue())
                batch = queue.open
            if batch is None or not batch.has_room(size):
                batch = self._next_batch(one, queue)
        timestamp = int(time.time() * 1000) if timestamp_ms is None else timestamp_ms
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
        self._on_appended(queue, batch, size)
        return Delivery(batch, index, timestamp)

    def _on_appended(self, queue: PartitionQueue, batch: ProducerBatch, size: int) -> None:
        self._buffered += size
        batch.buffered += size
        if self._buffered >= self._settings.buffer_bytes:
            self.room.clear()
            self.wake.set()
        if not batch.has_room(1):
            self.close_batch(queue)

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
        queue = self.queues.setdefault(partition, PartitionQueue())
        batch = self._next_batch(partition, queue)
        batch.fill(records)
        self._buffered += batch.buffered
        if self._buffered >= self._settings.buffer_bytes:
            self.room.clear()
        self.close_batch(queue)
        return batch.done

    def close_batch(self, queue: PartitionQueue) -> None:
        """Closes the open batch."""
        batch = queue.open
        assert batch is not None
        queue.closed.append(batch)
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
        if self._buffered < self._settings.buffer_bytes:
            self.room.set()

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
