"""Decodes record batches to records, at the lowest cost in Python.

One copy makes the whole payload `bytes`, so that every key and value is a single slice. Varints of one byte, and of two
bytes where they are common, are decoded inline; longer ones by `read_varint`. Records are not validated beyond the end
of the payload, because the checksum of the batch was verified.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from ottla.model.ids import TopicPartition
from ottla.records.errors import CorruptRecords
from ottla.records.header import BatchHeader
from ottla.records.iterate import DECOMPRESSED_BYTES_MAX, Batch, iterate_records, open_payload
from ottla.records.varint import VARLONG_BYTES_MAX, read_varint

__all__ = ["ConsumedBatch", "ConsumedRecord", "decode_batch"]

CREATE_TIME = 0
APPEND_TIME = 1


class ConsumedRecord(NamedTuple):
    topic: str
    partition: int
    offset: int
    timestamp: int
    # 0: create time, of the producer. 1: log append time, of the broker.
    timestamp_type: int
    # Bytes or None, or what a deserializer makes of them.
    key: Any
    value: Any
    headers: Sequence[tuple[str, bytes | None]]
    leader_epoch: int


class ConsumedBatch(NamedTuple):
    """A whole batch as it came from the broker; `view` is a slice of the response."""

    partition: TopicPartition
    header: BatchHeader
    view: memoryview

    def records(self, *, from_offset: int = -1) -> list[ConsumedRecord]:
        return decode_batch(self.partition, self.header, self.view, from_offset=from_offset)


def decode_batch(
    partition: TopicPartition, header: BatchHeader, view: memoryview, *, from_offset: int = -1
) -> list[ConsumedRecord]:
    """The records of a batch of any format, from an offset on."""
    if header.magic < 2:
        return _decode_legacy(partition, header, view, from_offset)
    try:
        found = _decode(partition, header, bytes(open_payload(view, header, limit=DECOMPRESSED_BYTES_MAX)))
    except IndexError:
        raise CorruptRecords(
            f"{partition}: the bytes of the batch at offset {header.base_offset} end too early"
        ) from None
    if from_offset > header.base_offset:
        return [record for record in found if record.offset >= from_offset]
    return found


def _decode(one: TopicPartition, header: BatchHeader, data: bytes) -> list[ConsumedRecord]:
    topic, partition = one
    new = tuple.__new__
    base_offset, base_timestamp, epoch = header.base_offset, header.base_timestamp, header.leader_epoch
    append_time = header.max_timestamp if header.uses_append_time else None
    kind = CREATE_TIME if append_time is None else APPEND_TIME
    found: list[ConsumedRecord] = []
    add = found.append
    no_headers: Sequence[tuple[str, bytes | None]] = ()
    position = 0
    for _ in range(header.record_count):
        # The length of the record is skipped: its fields determine it.
        while data[position] & 0x80:
            position += 1
        position += 2
        byte = data[position]
        if byte < 0x80:
            timestamp, position = base_timestamp + ((byte >> 1) ^ -(byte & 1)), position + 1
        else:
            timestamp, position = read_varint(data, position, bytes_max=VARLONG_BYTES_MAX)
            timestamp += base_timestamp
        byte = data[position]
        if byte < 0x80:
            offset, position = base_offset + (byte >> 1), position + 1
        elif (second := data[position + 1]) < 0x80:
            offset, position = base_offset + ((byte & 0x7F | second << 7) >> 1), position + 2
        else:
            offset, position = read_varint(data, position)
            offset += base_offset
        byte = data[position]
        if byte == 1:
            key = None
            position += 1
        else:
            if byte < 0x80:
                length, position = byte >> 1, position + 1
            else:
                length, position = read_varint(data, position)
            key = data[position : position + length]
            position += length
        byte = data[position]
        if byte == 1:
            value = None
            position += 1
        else:
            if byte < 0x80:
                length, position = byte >> 1, position + 1
            elif (second := data[position + 1]) < 0x80:
                length, position = (byte & 0x7F | second << 7) >> 1, position + 2
            else:
                length, position = read_varint(data, position)
            value = data[position : position + length]
            position += length
        headers, position = (no_headers, position + 1) if data[position] == 0 else _headers(data, position)
        time = timestamp if append_time is None else append_time
        add(new(ConsumedRecord, (topic, partition, offset, time, kind, key, value, headers, epoch)))
    return found


def _headers(data: bytes, position: int) -> tuple[list[tuple[str, bytes | None]], int]:
    count, position = read_varint(data, position)
    headers: list[tuple[str, bytes | None]] = []
    for _ in range(count):
        length, position = read_varint(data, position)
        name = data[position : position + length].decode("utf-8", "replace")
        position += length
        length, position = read_varint(data, position)
        if length < 0:
            headers.append((name, None))
        else:
            headers.append((name, data[position : position + length]))
            position += length
    return headers, position


def _decode_legacy(
    partition: TopicPartition, header: BatchHeader, view: memoryview, from_offset: int
) -> list[ConsumedRecord]:
    kind = APPEND_TIME if header.uses_append_time else CREATE_TIME
    return [
        ConsumedRecord(
            partition.topic,
            partition.partition,
            record.offset,
            record.timestamp,
            kind,
            None if record.key is None else bytes(record.key),
            None if record.value is None else bytes(record.value),
            (),
            -1,
        )
        for record in iterate_records(Batch(header, 0, view))
        if record.offset >= from_offset
    ]
