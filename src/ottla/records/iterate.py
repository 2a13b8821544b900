"""Iterates over the record batches in a buffer and over the records in a batch.

The last batch of a buffer may be incomplete, because a fetch is cut off at a byte limit: iteration stops before it.
Bytes that cannot be a batch raise CorruptRecords.
"""

from __future__ import annotations

from collections.abc import Iterator

from ottla.records.checksum import crc32c
from ottla.records.compression import Codec, DecompressionFailed, decompress
from ottla.records.errors import CorruptRecords
from ottla.records.header import (
    ATTRIBUTES_POSITION,
    BATCH_LENGTH_POSITION,
    HEADER_SIZE,
    LEGACY_OVERHEAD,
    LENGTH_OVERHEAD,
    MAGIC,
    MAGIC_POSITION,
    BatchHeader,
    read_header,
)
from ottla.records.record import Record, decode_records, decode_values

__all__ = [
    "DECOMPRESSED_BYTES_MAX",
    "Batch",
    "iterate_batches",
    "iterate_records",
    "open_payload",
    "record_values",
    "verify_checksum",
]

Buffer = bytes | bytearray | memoryview

DECOMPRESSED_BYTES_MAX = 256 * 1024 * 1024
"""The default limit for the decompressed size of a batch, far above the size of any valid batch."""


class Batch:
    """A batch in a buffer: its header, its position and its bytes."""

    __slots__ = ("header", "position", "view")

    def __init__(self, header: BatchHeader, position: int, view: memoryview) -> None:
        self.header = header
        self.position = position
        self.view = view


def iterate_batches(buffer: Buffer, position: int = 0) -> Iterator[Batch]:
    """The complete batches of a buffer, of any magic. Checksums are not verified."""
    view = memoryview(buffer)
    size = len(view)
    while size - position > MAGIC_POSITION:
        length = int.from_bytes(view[position + BATCH_LENGTH_POSITION : position + LENGTH_OVERHEAD], "big", signed=True)
        if length < LEGACY_OVERHEAD:
            raise CorruptRecords(f"A batch has the invalid length {length}")
        end = position + LENGTH_OVERHEAD + length
        if end > size:
            return
        header = read_header(view, position)
        if header.magic == MAGIC and header.size < HEADER_SIZE:
            raise CorruptRecords(f"A batch of magic 2 has the invalid length {length}")
        yield Batch(header, position, view[position:end])
        position = end


def iterate_records(batch: Batch, *, limit: int = DECOMPRESSED_BYTES_MAX) -> Iterator[Record]:
    """The records of a batch with absolute offsets and effective timestamps, including control records."""
    header = batch.header
    if header.magic < 2:
        from ottla.records.legacy import iterate_messages

        return iterate_messages(batch.view, limit=limit)
    payload = open_payload(batch.view, header, limit=limit)
    records = decode_records(
        payload, header.record_count, base_offset=header.base_offset, base_timestamp=header.base_timestamp
    )
    if header.uses_append_time:
        for record in records:
            record.timestamp = header.max_timestamp
    return iter(records)


def record_values(batch: Batch, *, limit: int = DECOMPRESSED_BYTES_MAX) -> list[memoryview]:
    """The values of a batch's records, null as empty: half the time of `iterate_records`."""
    header = batch.header
    if header.magic < MAGIC:
        return [memoryview(record.value or b"") for record in iterate_records(batch, limit=limit)]
    return decode_values(open_payload(batch.view, header, limit=limit), header.record_count)


def open_payload(batch: memoryview, header: BatchHeader, *, limit: int) -> memoryview:
    """The encoded records of a batch of magic 2, decompressed if necessary."""
    payload = batch[HEADER_SIZE : header.size]
    codec = header.codec
    if codec == Codec.NONE or header.record_count == 0:
        return payload
    try:
        return decompress(codec, payload, limit=limit)
    except DecompressionFailed as error:
        raise CorruptRecords(f"The records at offset {header.base_offset} cannot be decompressed: {error}") from error


def verify_checksum(batch: memoryview, header: BatchHeader) -> bool:
    """True if the checksum of a batch is correct, for any magic."""
    if header.magic == MAGIC:
        return header.size >= HEADER_SIZE and crc32c(batch[ATTRIBUTES_POSITION : header.size]) == header.crc
    from zlib import crc32

    return crc32(batch[MAGIC_POSITION : header.size]) == header.crc
