"""Builds record batches of magic 2."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from struct import Struct

from ottla.records.checksum import crc32c
from ottla.records.compression import Codec, compress
from ottla.records.header import (
    ATTRIBUTES_POSITION,
    CODEC_MASK,
    CONTROL_BIT,
    CRC_POSITION,
    DELETE_HORIZON_BIT,
    HEADER,
    HEADER_SIZE,
    LENGTH_OVERHEAD,
    NO_PARTITION_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    TIMESTAMP_TYPE_BIT,
    TRANSACTIONAL_BIT,
)
from ottla.records.record import OFFSET_UNASSIGNED, Record, append_contents, append_record, value_content

__all__ = ["assemble_batch", "batch_attributes", "build_batch", "build_value_batch", "set_checksum", "write_header"]

_CRC = Struct(">I")


def build_batch(
    records: Iterable[Record],
    *,
    base_offset: int = 0,
    codec: Codec = Codec.NONE,
    level: int | None = None,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
    base_sequence: int = NO_SEQUENCE,
    is_transactional: bool = False,
    is_control: bool = False,
    leader_epoch: int = NO_PARTITION_LEADER_EPOCH,
    append_time_ms: int | None = None,
) -> bytearray:
    """Builds a batch. A record without an offset gets the offset after the preceding record, or the base offset."""
    payload = bytearray()
    count = 0
    next_offset = base_offset
    base_timestamp = max_timestamp = NO_TIMESTAMP
    for record in records:
        if count == 0:
            base_timestamp = record.timestamp
        offset = next_offset if record.offset == OFFSET_UNASSIGNED else record.offset
        assert offset >= next_offset, "offsets in a batch must increase"
        append_record(
            payload,
            offset_delta=offset - base_offset,
            timestamp_delta=record.timestamp - base_timestamp,
            key=record.key,
            value=record.value,
            headers=record.headers,
        )
        max_timestamp = max(max_timestamp, record.timestamp)
        next_offset = offset + 1
        count += 1
    attributes = batch_attributes(
        codec, is_transactional=is_transactional, is_control=is_control, uses_append_time=append_time_ms is not None
    )
    return assemble_batch(
        payload,
        base_offset=base_offset,
        last_offset_delta=max(0, next_offset - 1 - base_offset),
        record_count=count,
        attributes=attributes,
        level=level,
        base_timestamp=base_timestamp,
        max_timestamp=max_timestamp if append_time_ms is None else append_time_ms,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        leader_epoch=leader_epoch,
    )


def build_value_batch(values: Sequence[bytes], *, timestamp_ms: int, base_offset: int, leader_epoch: int) -> bytearray:
    """`build_batch` for records that have only a value and the same timestamp, in half of the time."""
    payload = bytearray()
    append_contents(payload, [value_content(value) for value in values], first_offset_delta=0, timestamp_delta=0)
    return assemble_batch(
        payload,
        base_offset=base_offset,
        last_offset_delta=len(values) - 1,
        record_count=len(values),
        attributes=0,
        base_timestamp=timestamp_ms,
        max_timestamp=timestamp_ms,
        leader_epoch=leader_epoch,
    )


def assemble_batch(
    payload: bytes | bytearray | memoryview,
    *,
    base_offset: int,
    last_offset_delta: int,
    record_count: int,
    attributes: int,
    base_timestamp: int,
    max_timestamp: int,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
    base_sequence: int = NO_SEQUENCE,
    leader_epoch: int = NO_PARTITION_LEADER_EPOCH,
    level: int | None = None,
) -> bytearray:
    """Builds a batch from encoded records, which are compressed with the codec in the attributes."""
    # The payload of an empty batch is never compressed, regardless of the attributes; readers expect this.
    is_compressed = attributes & CODEC_MASK and record_count
    body = compress(Codec(attributes & CODEC_MASK), payload, level) if is_compressed else payload
    batch = bytearray(HEADER_SIZE)
    batch += body
    write_header(
        batch,
        base_offset=base_offset,
        last_offset_delta=last_offset_delta,
        record_count=record_count,
        attributes=attributes,
        base_timestamp=base_timestamp,
        max_timestamp=max_timestamp,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        leader_epoch=leader_epoch,
    )
    return batch


def write_header(
    batch: bytearray,
    *,
    base_offset: int,
    last_offset_delta: int,
    record_count: int,
    attributes: int,
    base_timestamp: int,
    max_timestamp: int,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
    base_sequence: int = NO_SEQUENCE,
    leader_epoch: int = NO_PARTITION_LEADER_EPOCH,
) -> None:
    """Writes the header and the checksum of a batch into the room before its records."""
    HEADER.pack_into(
        batch,
        0,
        base_offset,
        len(batch) - LENGTH_OVERHEAD,
        leader_epoch,
        2,
        0,
        attributes,
        last_offset_delta,
        base_timestamp,
        max_timestamp,
        producer_id,
        producer_epoch,
        base_sequence,
        record_count,
    )
    set_checksum(memoryview(batch))


def batch_attributes(
    codec: Codec,
    *,
    is_transactional: bool = False,
    is_control: bool = False,
    uses_append_time: bool = False,
    has_delete_horizon: bool = False,
) -> int:
    return (
        int(codec)
        | (TIMESTAMP_TYPE_BIT if uses_append_time else 0)
        | (TRANSACTIONAL_BIT if is_transactional else 0)
        | (CONTROL_BIT if is_control else 0)
        | (DELETE_HORIZON_BIT if has_delete_horizon else 0)
    )


def set_checksum(batch: memoryview) -> int:
    """Computes the CRC of a batch of magic 2, writes it into the header and returns it."""
    crc = crc32c(batch[ATTRIBUTES_POSITION:])
    _CRC.pack_into(batch, CRC_POSITION, crc)
    return crc
