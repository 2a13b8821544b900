"""An open batch: records are encoded when they are added, so that sending it takes a header and a checksum.

`ottla.client.fast` encodes a record, in C where it was compiled.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Generator, Sequence
from itertools import count
from typing import NamedTuple

from ottla.client.fast import append_record
from ottla.client.producer.interceptors import RecordMetadata
from ottla.model.errors import KafkaError
from ottla.model.ids import TopicPartition
from ottla.records.build import assemble_batch, batch_attributes, write_header
from ottla.records.compression import Codec
from ottla.records.header import HEADER_SIZE

__all__ = [
    "RECORD_OVERHEAD",
    "Delivery",
    "EncodedRecords",
    "OnDelivery",
    "ProducerBatch",
    "RecordMetadata",
    "headers_size",
    "looked_at",
]

logger = logging.getLogger(__name__)

OnDelivery = Callable[[RecordMetadata, Exception | None], object]
"""Gets the position of a record, or its error together with the offset -1."""

# The largest size of a record without key, value and headers.
RECORD_OVERHEAD = 24

_numbers = count()


class EncodedRecords(NamedTuple):
    """The encoded records of one batch."""

    payload: bytes
    record_count: int
    base_timestamp: int
    max_timestamp: int
    # The codec with which the payload is compressed already; None leaves that to the producer.
    codec: Codec | None = None


class Delivery:
    """The future of a record: await it for its `RecordMetadata`, or for its error."""

    __slots__ = ("batch", "index", "timestamp")

    def __init__(self, batch: ProducerBatch, index: int, timestamp: int) -> None:
        self.batch = batch
        self.index = index
        self.timestamp = timestamp

    @property
    def done(self) -> bool:
        self._follow()
        return self.batch.done.done()

    def result(self) -> RecordMetadata:
        """The metadata of a completed delivery. Raises its error."""
        self._follow()
        base_offset, append_time = self.batch.done.result()
        topic, partition = self.batch.partition
        offset = base_offset + self.index if base_offset >= 0 else -1
        return RecordMetadata(topic, partition, offset, append_time if append_time >= 0 else self.timestamp)

    def __await__(self) -> Generator[object, None, RecordMetadata]:
        yield from asyncio.shield(self.batch.done).__await__()
        while self.batch.parts is not None:
            self._follow()
            yield from asyncio.shield(self.batch.done).__await__()
        return self.result()

    def _follow(self) -> None:
        """Finds the record in the parts of a batch that was split."""
        while self.batch.parts is not None:
            first, second = self.batch.parts
            self.batch = first if self.index < first.count else second
            if self.batch is second:
                self.index -= first.count


class ProducerBatch:
    """A batch of records of one partition."""

    __slots__ = (
        "attempts",
        "base_sequence",
        "base_timestamp",
        "buffered",
        "callbacks",
        "codec",
        "count",
        "created",
        "done",
        "epoch",
        "is_compressed",
        "is_encoded",
        "last_error",
        "level",
        "limit",
        "max_timestamp",
        "may_be_written",
        "order",
        "partition",
        "parts",
        "payload",
        "producer_id",
        "retry_at",
        "room",
    )

    def __init__(
        self,
        partition: TopicPartition,
        *,
        limit: int,
        codec: Codec,
        level: int | None,
        created: float,
        done: asyncio.Future[tuple[int, int]],
    ) -> None:
        self.partition = partition
        self.limit = limit
        self.codec = codec
        self.level = level
        self.created = created
        # Orders batches by age; the clock of the loop is too coarse for that. Parts of a split batch have the numbers
        # of the batch, and another number.
        self.order: tuple[int, ...] = (next(_numbers),)
        self.done = done
        # Index, timestamp and callback of records with a callback.
        self.callbacks: list[tuple[int, int, OnDelivery]] = []
        # Room for the header, and the encoded records.
        self.payload = bytearray(HEADER_SIZE)
        # The bytes that may still be added.
        self.room = limit - HEADER_SIZE
        # The bytes of the producer's buffer that the batch uses.
        self.buffered = 0
        self.count = 0
        self.base_timestamp = -1
        self.max_timestamp = -1
        self.attempts = 0
        self.retry_at = 0.0
        # The error of the last attempt.
        self.last_error: Exception | None = None
        # Whether the caller has encoded the records, and compressed them already.
        self.is_encoded = False
        self.is_compressed = False
        # True after an attempt that the leader may have written.
        self.may_be_written = False
        # The batches that have the records since this batch was split.
        self.parts: tuple[ProducerBatch, ProducerBatch] | None = None
        # Set when the batch is sent for the first time, and kept in retries.
        self.producer_id = -1
        self.epoch = -1
        self.base_sequence = -1

    @property
    def complaint(self) -> str:
        """The error message after its delivery time-out."""
        error = self.last_error
        name = f" ({error.code.name})" if isinstance(error, KafkaError) else ""
        last = "" if error is None else f"; the last answer was{name}: {str(error).rstrip('.')}"
        return f"{self.partition}: the record was not delivered in time{last}. Is the cluster healthy?"

    @property
    def size(self) -> int:
        return len(self.payload)

    @property
    def producer(self) -> tuple[int, int]:
        """Producer id and epoch; -1 until the batch is sent for the first time."""
        return self.producer_id, self.epoch

    def has_room(self, size: int) -> bool:
        """True if a record of at most this size fits. The first record always fits."""
        return not self.count or size <= self.room

    def fill(self, records: EncodedRecords) -> None:
        """Sets encoded records as the content of the batch."""
        assert not self.count
        self.payload += records.payload
        self.count, self.base_timestamp, self.max_timestamp, codec = records[1:]
        self.is_encoded = True
        if codec is not None:
            self.codec, self.is_compressed = codec, True
        self.room = 0
        self.buffered = len(records.payload)

    def append(
        self,
        key: bytes | None,
        value: bytes | None,
        headers: Sequence[tuple[str, bytes | None]],
        timestamp: int,
    ) -> int:
        """Adds a record; returns its index in the batch."""
        count = self.count
        if not count:
            self.base_timestamp = self.max_timestamp = timestamp
        size = append_record(self.payload, timestamp - self.base_timestamp, count, key, value, headers)
        if timestamp > self.max_timestamp:
            # After the encoding: a refused record must not leave its timestamp in the header.
            self.max_timestamp = timestamp
        self.room = self.limit - size
        self.count = count + 1
        return count

    def call_back(self, outcome: tuple[int, int] | Exception) -> None:
        """Calls the callbacks in the order of the records. Their exceptions are logged."""
        topic, partition = self.partition
        callbacks, self.callbacks = self.callbacks, []
        for index, timestamp, callback in callbacks:
            if isinstance(outcome, Exception):
                metadata, error = RecordMetadata(topic, partition, -1, timestamp), outcome
            else:
                base, append_time = outcome
                offset = base + index if base >= 0 else -1
                metadata = RecordMetadata(topic, partition, offset, append_time if append_time >= 0 else timestamp)
                error = None
            try:
                callback(metadata, error)
            except Exception:
                logger.exception("The delivery callback of a record of %s failed.", self.partition)

    def encode(self, *, is_transactional: bool) -> bytearray:
        """The whole batch in wire format: in the buffer of the records, unless they have to be compressed."""
        fields = {
            "base_offset": 0,
            "last_offset_delta": self.count - 1,
            "record_count": self.count,
            "attributes": batch_attributes(self.codec, is_transactional=is_transactional),
            "base_timestamp": self.base_timestamp,
            "max_timestamp": self.max_timestamp,
            "producer_id": self.producer_id,
            "producer_epoch": self.epoch,
            "base_sequence": self.base_sequence,
        }
        if self.codec is not Codec.NONE and not self.is_compressed:
            return assemble_batch(memoryview(self.payload)[HEADER_SIZE:], level=self.level, **fields)
        write_header(self.payload, **fields)
        return self.payload


def looked_at(done: asyncio.Future[tuple[int, int]]) -> None:
    """Marks the exception of a future as retrieved, so that it is not logged."""
    if not done.cancelled():
        done.exception()


def headers_size(headers: Sequence[tuple[str, bytes | None]]) -> int:
    """An upper bound of the encoded size of headers."""
    return sum(3 * len(name) + len(content or b"") + 10 for name, content in headers)
