"""Prepares batches for the target. Most batches are copied unchanged: records stay encoded and compressed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import NamedTuple

from ottla.client.consumer.decode import ConsumedBatch, ConsumedRecord
from ottla.client.fast import append_record
from ottla.client.producer.batch import EncodedRecords
from ottla.mirror.copying.provenance import way_of, with_way
from ottla.records.build import assemble_batch, set_checksum
from ottla.records.compression import Codec, compress
from ottla.records.header import (
    DELETE_HORIZON_BIT,
    HEADER_SIZE,
    MAGIC,
    NO_TIMESTAMP,
    PRODUCER_POSITION,
    TIMESTAMP_TYPE_BIT,
    BatchHeader,
    read_header,
)
from ottla.records.iterate import DECOMPRESSED_BYTES_MAX
from ottla.records.legacy import convert_to_batch

__all__ = ["CopiedRecords", "empty_batch", "mirrored_batch", "modern_batch", "records_to_copy"]

MIRRORED_PRODUCER_BIT = 1 << 61
"""Set in the producer ids of an exact copy. So they differ from those that the target gives to its own producers."""

_EMPTY_OFFSETS_MAX = 0x7FFFFFFF
# The base timestamps of batches with these bits are not those of their first records.
_UNUSUAL = TIMESTAMP_TYPE_BIT | DELETE_HORIZON_BIT


class CopiedRecords(NamedTuple):
    """Records for the target, and the ranges of source offsets that they come from, in order."""

    records: EncodedRecords
    ranges: list[tuple[int, int]]
    """(first offset at the source, number of records)."""


def records_to_copy(
    batches: Sequence[ConsumedBatch], *, from_offset: int, cut_cycle: tuple[str, str] | None
) -> CopiedRecords | None:
    """The records of neighbouring batches of one codec, from an offset on; None if there are none.

    `cut_cycle` is (source, target): records that were at the target are left out, and the other records get a header.
    """
    batch = batches[0]
    header = batch.header
    if (
        len(batches) == 1
        and header.magic == MAGIC
        and cut_cycle is None
        and header.base_offset >= from_offset
        and header.record_count == header.last_offset_delta + 1
        and not header.attributes & _UNUSUAL
    ):
        payload = bytes(batch.view[HEADER_SIZE : header.size])
        records = EncodedRecords(
            payload, header.record_count, header.base_timestamp, header.max_timestamp, header.codec
        )
        return CopiedRecords(records, [(header.base_offset, header.record_count)])
    codec = header.codec if header.magic == MAGIC else Codec.NONE
    kept: Iterable[ConsumedRecord] = chain.from_iterable(
        consumed.records(from_offset=from_offset) for consumed in batches
    )
    if cut_cycle is not None:
        source, target = cut_cycle
        kept = [with_way(record, source) for record in kept if target not in way_of(record)]
    return _encode(list(kept), codec)


def _encode(records: list[ConsumedRecord], codec: Codec) -> CopiedRecords | None:
    if not records:
        return None
    payload = bytearray()
    base_timestamp = records[0].timestamp
    max_timestamp = max(record.timestamp for record in records)
    ranges: list[tuple[int, int]] = []
    for index, record in enumerate(records):
        append_record(payload, record.timestamp - base_timestamp, index, record.key, record.value, record.headers)
        if ranges and ranges[-1][0] + ranges[-1][1] == record.offset:
            ranges[-1] = (ranges[-1][0], ranges[-1][1] + 1)
        else:
            ranges.append((record.offset, 1))
    content = bytes(payload if codec is Codec.NONE else compress(codec, payload, None))
    return CopiedRecords(EncodedRecords(content, len(records), base_timestamp, max_timestamp, codec), ranges)


def modern_batch(batch: ConsumedBatch) -> tuple[BatchHeader, memoryview]:
    """The batch with its offsets, converted to the current format if it is older (before Apache Kafka 0.11)."""
    if batch.header.magic == MAGIC:
        return batch.header, batch.view
    converted = memoryview(convert_to_batch(batch.view, limit=DECOMPRESSED_BYTES_MAX))
    return read_header(converted, 0), converted


def mirrored_batch(view: memoryview, header: BatchHeader) -> bytearray:
    """The batch for an exact copy: unchanged except for the producer id and the checksum."""
    batch = bytearray(view)
    if header.producer_id >= 0 and not header.producer_id & MIRRORED_PRODUCER_BIT:
        producer_id = header.producer_id | MIRRORED_PRODUCER_BIT
        batch[PRODUCER_POSITION : PRODUCER_POSITION + 8] = producer_id.to_bytes(8, "big")
        set_checksum(memoryview(batch))
    return batch


def empty_batch(first_offset: int, next_offset: int) -> bytearray:
    """A batch without records, in the place of offsets that the source no longer has.

    Offsets within a batch are numbers of 31 bits: a larger gap takes several batches.
    """
    batches = bytearray()
    while first_offset < next_offset:
        count = min(next_offset - first_offset, _EMPTY_OFFSETS_MAX)
        batches += assemble_batch(
            b"",
            base_offset=first_offset,
            last_offset_delta=count - 1,
            record_count=0,
            attributes=0,
            base_timestamp=NO_TIMESTAMP,
            max_timestamp=NO_TIMESTAMP,
        )
        first_offset += count
    return batches
