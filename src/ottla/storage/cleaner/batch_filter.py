"""Compaction of one batch.

A batch keeps its base offset and its last offset delta, whatever is removed from it, so that offsets and sequence
numbers stay the same. A batch without records is removed, unless its header is still needed: it is the last batch of a
producer (and determines its next sequence number), or the last batch of the cleaned part (so that the log has no gap
at its end). Then the header stays as an empty batch.

A tombstone (a key without value) stays for `delete.retention.ms` after the first compaction that saw it, so that a slow
reader of the whole log sees the deletion. The batch contains the time of its removal (KIP-534): a bit of the
attributes says that the base timestamp is that time, and the timestamps of the records are relative to it.

Encoded records are copied as they are. Only a new base timestamp requires new timestamp deltas.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ottla.records.build import assemble_batch, build_batch
from ottla.records.compression import Codec
from ottla.records.control import ControlType, read_control_type
from ottla.records.header import (
    CODEC_MASK,
    DELETE_HORIZON_BIT,
    NO_TIMESTAMP,
    BatchHeader,
    read_header,
)
from ottla.records.inspection import record_spans
from ottla.records.iterate import Batch, iterate_records, open_payload
from ottla.records.record import Record, scan_records
from ottla.records.varint import append_varint
from ottla.storage.cleaner.offset_map import OffsetMap
from ottla.storage.cleaner.transactions import CleanedTransactions

if TYPE_CHECKING:
    from ottla.storage.cleaner.plan import LastRecord

__all__ = ["BatchFilter", "FilterCounts", "Span", "spans_of"]

Span = tuple[int, int, int, int, int, int, int, int]
"""The numbers of a `RecordSpan`: start, end, timestamp delta, offset delta, rest, key start, key and value length."""

KeptRecords = tuple[int, int, int, int, bytes]
"""How many records stay, how many had no key, how many tombstones stay, their largest timestamp delta, their bytes."""

DECOMPRESSED_BYTES_MAX = 256 * 1024 * 1024
"""The largest decompressed size of a batch. A larger batch makes its partition uncleanable."""


@dataclass(slots=True)
class FilterCounts:
    """The counts of a cleaning, for its log line and metrics."""

    records_read: int = 0
    records_kept: int = 0
    bytes_read: int = 0
    bytes_kept: int = 0
    keyless_records: int = 0


class BatchFilter:
    """Filters the batches of one cleaning, in log order."""

    __slots__ = (
        "_delete_retention_ms",
        "_last_records",
        "_map",
        "_now_ms",
        "_transactions",
        "_upper_bound_offset",
        "counts",
    )

    def __init__(
        self,
        offset_map: OffsetMap,
        transactions: CleanedTransactions,
        *,
        now_ms: int,
        delete_retention_ms: int,
        last_records: Mapping[int, LastRecord],
        upper_bound_offset: int,
    ) -> None:
        self._map = offset_map
        self._transactions = transactions
        self._now_ms = now_ms
        self._delete_retention_ms = delete_retention_ms
        self._last_records = last_records
        self._upper_bound_offset = upper_bound_offset
        self.counts = FilterCounts()

    def filter(self, batch: Batch) -> bytes | bytearray | memoryview | None:
        """The bytes that replace this batch: itself, a smaller batch, an empty batch, or None."""
        header = batch.header
        self.counts.bytes_read += header.size
        kept = self._filter_old(batch) if header.magic < 2 else self._filter_batch(batch)
        if kept is not None:
            self.counts.bytes_kept += len(kept)
        return kept

    def _filter_batch(self, batch: Batch) -> bytes | bytearray | memoryview | None:
        header = batch.header
        horizon_ms = header.delete_horizon_ms
        if header.is_control:
            is_discarded = self._transactions.on_marker(header, read_batch_control_type(batch))
            # A marker that is no longer needed gets a delete horizon, and stays until then.
            wants_horizon = is_discarded
            is_discarded = is_discarded and horizon_ms is not None and horizon_ms <= self._now_ms
        else:
            is_discarded = self._transactions.on_batch(header)
            wants_horizon = False
        if is_discarded:
            self.counts.records_read += header.record_count
            return self._empty_if_needed(header)
        payload = open_payload(batch.view, header, limit=DECOMPRESSED_BYTES_MAX)
        if not header.is_control:
            return self._filter_data(batch, payload)
        spans = spans_of(payload, header.record_count)
        self.counts.records_read += len(spans)
        self.counts.records_kept += len(spans)
        if not spans:
            return self._empty_if_needed(header)
        if wants_horizon and horizon_ms is None:
            return _with_horizon(payload, len(spans), header, self._now_ms + self._delete_retention_ms)
        return batch.view

    def _filter_data(self, batch: Batch, payload: memoryview) -> bytes | bytearray | memoryview | None:
        header = batch.header
        horizon_ms = header.delete_horizon_ms
        keeps_tombstones = horizon_ms is None or self._now_ms < horizon_ms
        latest_offset = self._map.latest_offset
        selection = self._map.keep_records(
            payload, header.record_count, header.base_offset, latest_offset, keeps_tombstones
        ) or self._keep_unusual(payload, header, keeps_tombstones)
        kept, keyless, tombstones, largest_delta, records = selection
        self.counts.records_read += header.record_count
        self.counts.records_kept += kept
        self.counts.keyless_records += keyless
        if not kept:
            return self._empty_if_needed(header)
        is_whole = kept == header.record_count
        if tombstones and horizon_ms is None:
            new_horizon_ms = self._now_ms + self._delete_retention_ms
            return _with_horizon(payload if is_whole else memoryview(records), kept, header, new_horizon_ms)
        if is_whole:
            return batch.view
        return _rebuild(records, kept, header, largest_delta=largest_delta)

    def _keep_unusual(self, payload: memoryview, header: BatchHeader, keeps_tombstones: bool) -> KeptRecords:
        """Like `keep_records`. Raises CorruptRecords with a description of the damage."""
        kept: list[Span] = []
        keyless = 0
        for span in spans_of(payload, header.record_count):
            _, _, _, offset_delta, _, key_start, key_length, value_length = span
            offset = header.base_offset + offset_delta
            if offset > self._map.latest_offset:
                kept.append(span)
            elif key_length < 0:
                keyless += 1
            elif value_length >= 0 or keeps_tombstones:
                key = bytes(payload[key_start : key_start + key_length])
                if offset >= self._map.newest(key):
                    kept.append(span)
        tombstones = sum(span[7] < 0 for span in kept)
        records = b"".join(bytes(payload[start:end]) for start, end, *_ in kept)
        return len(kept), keyless, tombstones, max((span[2] for span in kept), default=0), records

    def _empty_if_needed(self, header: BatchHeader) -> bytearray | None:
        if header.next_offset == self._upper_bound_offset or self._is_last_of_producer(header):
            return _empty(header)
        return None

    def _is_last_of_producer(self, header: BatchHeader) -> bool:
        if not header.has_producer_id:
            return False
        last = self._last_records.get(header.producer_id)
        if last is None:
            return False
        if last.last_data_offset >= 0:
            return header.last_offset == last.last_data_offset
        return header.is_control and header.producer_epoch == last.producer_epoch

    def _filter_old(self, batch: Batch) -> bytes | bytearray | memoryview | None:
        """Messages of magic 0 and 1 are written as magic 2, which can contain a delete horizon."""
        records = list(iterate_records(batch, limit=DECOMPRESSED_BYTES_MAX))
        self.counts.records_read += len(records)
        kept = [record for record in records if self._keeps_old(record)]
        self.counts.records_kept += len(kept)
        if not kept:
            return None
        rebuilt = build_batch(kept, base_offset=kept[0].offset, codec=Codec(batch.header.attributes & CODEC_MASK))
        if all(record.value is not None for record in kept):
            return rebuilt
        view = memoryview(rebuilt)
        header = read_header(view)
        payload = open_payload(view, header, limit=DECOMPRESSED_BYTES_MAX)
        return _with_horizon(payload, header.record_count, header, self._now_ms + self._delete_retention_ms)

    def _keeps_old(self, record: Record) -> bool:
        if record.offset > self._map.latest_offset:
            return True
        if record.key is None:
            self.counts.keyless_records += 1
            return False
        return record.offset >= self._map.newest(bytes(record.key))


def read_batch_control_type(batch: Batch) -> ControlType | None:
    """The type of a control batch's first record; None for an empty batch."""
    if batch.header.record_count == 0:
        return None
    payload = open_payload(batch.view, batch.header, limit=DECOMPRESSED_BYTES_MAX)
    span = next(scan_records(payload, batch.header.record_count))
    return read_control_type(payload[span.key_start : span.key_start + max(0, span.key_length)])


def spans_of(payload: bytes | memoryview, count: int) -> Sequence[Span]:
    """The positions of the records of a payload. Raises CorruptRecords with a description of the damage."""
    spans = record_spans(payload, count)
    return list(scan_records(payload, count)) if spans is None else spans


def _with_horizon(payload: memoryview, count: int, header: BatchHeader, horizon_ms: int) -> bytearray:
    """The batch with a delete horizon. The timestamps of its records are relative to the horizon."""
    base_timestamp = header.base_timestamp
    records = bytearray()
    largest_delta = 0
    for place, (_, end, timestamp_delta, _, rest, *_) in enumerate(spans_of(payload, count)):
        largest_delta = max(largest_delta, timestamp_delta) if place else timestamp_delta
        body = bytearray(1)
        append_varint(body, base_timestamp + timestamp_delta - horizon_ms)
        body += payload[rest:end]
        append_varint(records, len(body))
        records += body
    return _rebuild(records, count, header, largest_delta=largest_delta, horizon_ms=horizon_ms)


def _rebuild(
    records: bytes | bytearray, count: int, header: BatchHeader, *, largest_delta: int, horizon_ms: int | None = None
) -> bytearray:
    base_timestamp = header.base_timestamp
    return assemble_batch(
        records,
        base_offset=header.base_offset,
        last_offset_delta=header.last_offset_delta,
        record_count=count,
        attributes=header.attributes if horizon_ms is None else header.attributes | DELETE_HORIZON_BIT,
        base_timestamp=base_timestamp if horizon_ms is None else horizon_ms,
        max_timestamp=header.max_timestamp if header.uses_append_time else base_timestamp + largest_delta,
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        base_sequence=header.base_sequence,
        leader_epoch=header.leader_epoch,
    )


def _empty(header: BatchHeader) -> bytearray:
    """An empty batch with the same offsets, producer and largest timestamp, without codec and delete horizon."""
    return assemble_batch(
        b"",
        base_offset=header.base_offset,
        last_offset_delta=header.last_offset_delta,
        record_count=0,
        attributes=header.attributes & ~CODEC_MASK & ~DELETE_HORIZON_BIT,
        base_timestamp=NO_TIMESTAMP,
        max_timestamp=header.max_timestamp,
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        base_sequence=header.base_sequence,
        leader_epoch=header.leader_epoch,
    )
