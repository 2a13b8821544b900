"""Splits a batch that a broker refused as too large (KIP-126).

A topic may accept smaller batches than the producer makes. The parts have the records, sequence numbers and age of the
batch, so that their leader continues where it stopped.
"""

from __future__ import annotations

import asyncio

from ottla.client.producer.batch import ProducerBatch, looked_at
from ottla.client.producer.sequences import SEQUENCE_WRAP
from ottla.model.errors import ErrorCode, KafkaError
from ottla.records.header import HEADER_SIZE
from ottla.records.record import decode_records

__all__ = ["may_split", "proves_unwritten", "split_batch", "too_large"]

# The leader gives these answers before it writes.
_UNWRITTEN = {
    ErrorCode.INVALID_PRODUCER_EPOCH,
    ErrorCode.LEADER_NOT_AVAILABLE,
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
    ErrorCode.UNKNOWN_TOPIC_ID,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
}


def proves_unwritten(error: Exception) -> bool:
    """False if a batch with this error may be in the log."""
    return isinstance(error, KafkaError) and error.code in _UNWRITTEN


def may_split(batch: ProducerBatch) -> bool:
    """True if a batch that is too large may be split.

    An earlier attempt may be in the log, if its answer was lost and the topic accepts less since then. The leader would
    not recognise the parts as duplicates. The caller of an encoded batch expects one batch, with consecutive offsets.
    """
    return batch.count > 1 and not batch.is_encoded and not batch.may_be_written


def too_large(batch: ProducerBatch) -> KafkaError:
    """The error of a batch that cannot be split."""
    records = "a record" if batch.count == 1 else f"a batch of {batch.count} records"
    return KafkaError(
        ErrorCode.MESSAGE_TOO_LARGE,
        f"{batch.partition}: {records} with {batch.size} bytes before compression is larger than max.message.bytes of "
        "the topic.",
    )


def split_batch(batch: ProducerBatch) -> tuple[ProducerBatch, ProducerBatch]:
    """Two batches with the records of a batch, each with about half of its bytes. Deliveries follow their records."""
    records = decode_records(
        memoryview(batch.payload)[HEADER_SIZE:], batch.count, base_offset=0, base_timestamp=batch.base_timestamp
    )
    first, second = _part(batch, 0), _part(batch, 1)
    half = batch.size // 2
    for place, record in enumerate(records):
        is_last = place == batch.count - 1
        into = first if not place or (first.size < half and not is_last and not second.count) else second
        into.append(record.key, record.value, record.headers, record.timestamp)  # type: ignore[arg-type]
    first.buffered = min(first.size, batch.buffered)
    second.buffered = batch.buffered - first.buffered
    for index, timestamp, callback in batch.callbacks:
        if index < first.count:
            first.callbacks.append((index, timestamp, callback))
        else:
            second.callbacks.append((index - first.count, timestamp, callback))
    if batch.producer_id >= 0:
        for part in (first, second):
            part.producer_id, part.epoch = batch.producer
        first.base_sequence = batch.base_sequence
        second.base_sequence = (batch.base_sequence + first.count) % SEQUENCE_WRAP
    batch.parts = first, second
    batch.callbacks = []
    # Deliveries keep the batch, but need only its parts.
    batch.payload = bytearray()
    return first, second


def _part(batch: ProducerBatch, number: int) -> ProducerBatch:
    done: asyncio.Future[tuple[int, int]] = batch.done.get_loop().create_future()
    done.add_done_callback(looked_at)
    part = ProducerBatch(
        batch.partition, limit=batch.limit, codec=batch.codec, level=batch.level, created=batch.created, done=done
    )
    part.order = (*batch.order, number)
    part.attempts, part.last_error = batch.attempts, batch.last_error
    return part
