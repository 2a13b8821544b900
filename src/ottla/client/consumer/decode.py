"""Decodes record batches to records (`ottla.client.fast`). The checksum of a batch was verified before."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from ottla.client.fast import decode_records
from ottla.model.ids import TopicPartition
from ottla.records.errors import CorruptRecords
from ottla.records.header import BatchHeader
from ottla.records.iterate import DECOMPRESSED_BYTES_MAX, Batch, iterate_records, open_payload

__all__ = ["ConsumedBatch", "ConsumedRecord", "OpenedPayload", "decode_batch"]

CREATE_TIME = 0
APPEND_TIME = 1
RECORDS_MAX = 0x7FFFFFFF


class ConsumedRecord(NamedTuple):
    topic: str
    partition: int
    offset: int
    timestamp: int
    # 0: create time, of the producer. 1: log append time, of the broker.
    timestamp_type: int
    # Bytes or None, or the object that a deserializer makes of them.
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


class OpenedPayload:
    """Keeps the payload of the last batch: a large batch is decoded in several polls, and decompressed once."""

    def __init__(self) -> None:
        self._header: BatchHeader | None = None
        self._payload = memoryview(b"")

    def open(self, view: memoryview, header: BatchHeader) -> memoryview:
        if self._header is not header:
            self._payload, self._header = open_payload(view, header, limit=DECOMPRESSED_BYTES_MAX), header
        return self._payload

    def close(self) -> None:
        self._header, self._payload = None, memoryview(b"")


def decode_batch(
    partition: TopicPartition,
    header: BatchHeader,
    view: memoryview,
    *,
    from_offset: int = -1,
    limit: int = RECORDS_MAX,
    opened: OpenedPayload | None = None,
) -> list[ConsumedRecord]:
    """The records of a batch of any format, from an offset on, at most `limit`."""
    if header.magic < 2:
        return _decode_legacy(partition, header, view, from_offset)[:limit]
    payload = (opened or OpenedPayload()).open(view, header)
    append_time = header.max_timestamp if header.uses_append_time else None
    try:
        return decode_records(
            ConsumedRecord,
            payload,
            header.record_count,
            partition.topic,
            partition.partition,
            header.base_offset,
            header.base_timestamp,
            append_time,
            CREATE_TIME if append_time is None else APPEND_TIME,
            header.leader_epoch,
            from_offset,
            limit,
        )
    except ValueError as error:
        raise CorruptRecords(f"{partition}: in the batch at offset {header.base_offset} {error}") from None


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
