"""The careful half of `ottla.records.validate`: batches that have to be opened, converted, restamped, or refused.

The order of the checks is Apache Kafka's, because with several things wrong at once clients see the first: what the
Produce version allows, base offset, size, checksum, then offsets and count, control, sequence, then each record.
"""

from __future__ import annotations

from ottla.model.errors import ErrorCode, KafkaError
from ottla.records.build import assemble_batch, build_batch, set_checksum
from ottla.records.compression import Codec
from ottla.records.errors import CorruptRecords, InvalidRecords, RecordError
from ottla.records.header import (
    ATTRIBUTES_POSITION,
    CODEC_MASK,
    HEADER_SIZE,
    MAX_TIMESTAMP_POSITION,
    NO_TIMESTAMP,
    TIMESTAMP_TYPE_BIT,
    BatchHeader,
    read_header,
)
from ottla.records.iterate import Batch, iterate_batches, open_payload, verify_checksum
from ottla.records.legacy import iterate_messages
from ottla.records.record import RECORD_SIZE_MIN, Record, scan_records
from ottla.records.validate import (
    PRODUCE_VERSION_ZSTD,
    AppendOrigin,
    ProduceSettings,
    ValidatedRecords,
)
from ottla.records.varint import append_varint, read_varint

__all__ = ["validate_closely"]

PRODUCE_VERSION_MAGIC_2 = 3
"""From this Produce version on, exactly one batch of magic 2 is allowed for each partition (KIP-98)."""

RECORD_ERRORS_MAX = 10_000
"""How many refused records one answer names; the whole batch is refused in any case."""


def validate_closely(
    records: memoryview, *, settings: ProduceSettings, now_ms: int, api_version: int, origin: AppendOrigin
) -> ValidatedRecords:
    """The same contract as `validate_produce`, for everything."""
    batches = list(iterate_batches(records))
    _check_version(batches, api_version)
    for batch in batches:
        _check_bytes(batch, settings, origin)
    first = batches[0].header
    source = first.codec
    if any(batch.header.magic != first.magic for batch in batches):
        raise InvalidRecords("The batches of one partition have different formats")
    if len(batches) > 1 and (first.magic == 2 or any(batch.header.is_compressed for batch in batches)):
        raise InvalidRecords("More than one batch for one partition, where only single old messages may be many")
    for batch in batches:
        _check_header(batch.header, origin)
    target = source if settings.compression is None else settings.compression
    if first.magic < 2:
        converted = _convert(batches, target, settings, now_ms)
    else:
        converted = _accept(batches[0], target, settings, now_ms)
    if len(converted) > settings.max_message_bytes and converted is not batches[0].view:
        raise _too_large(len(converted), settings)
    header = read_header(converted)
    return ValidatedRecords(
        converted,
        [header],
        [0],
        header.max_timestamp,
        header.last_offset_delta,
        header.record_count,
        now_ms if settings.uses_append_time else NO_TIMESTAMP,
    )


def _check_version(batches: list[Batch], api_version: int) -> None:
    if not batches:
        raise InvalidRecords("A produce request needs at least one whole record batch for each partition")
    if api_version < PRODUCE_VERSION_MAGIC_2:
        return
    first = batches[0].header
    if first.magic != 2:
        raise InvalidRecords(f"Produce version {api_version} takes record batches of magic 2 only, not {first.magic}")
    if first.codec == Codec.ZSTD and api_version < PRODUCE_VERSION_ZSTD:
        raise KafkaError(
            ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"Produce version {api_version} does not allow zstd compression"
        )
    if len(batches) > 1:
        raise InvalidRecords(f"Produce version {api_version} takes exactly one record batch for each partition")


def _check_bytes(batch: Batch, settings: ProduceSettings, origin: AppendOrigin) -> None:
    header = batch.header
    if header.magic == 2 and origin == AppendOrigin.CLIENT and header.base_offset != 0:
        raise InvalidRecords(f"The base offset of a batch to append has to be 0, but it is {header.base_offset}")
    if header.size > settings.max_message_bytes:
        raise _too_large(header.size, settings)
    if not verify_checksum(batch.view, header):
        raise CorruptRecords(f"The checksum of the record batch is wrong (it says {header.crc})")


def _check_header(header: BatchHeader, origin: AppendOrigin) -> None:
    if origin != AppendOrigin.CLIENT:
        return
    if header.magic == 2:
        if header.record_count <= 0:
            raise InvalidRecords(f"A record batch claims {header.record_count} records")
        if header.last_offset_delta + 1 != header.record_count:
            raise InvalidRecords(
                f"A record batch claims {header.record_count} records, but its last offset delta is "
                f"{header.last_offset_delta}"
            )
    if header.is_control:
        raise InvalidRecords("Clients may not write control records")
    if header.has_producer_id and header.base_sequence < 0:
        raise InvalidRecords(f"Sequence number {header.base_sequence} in a batch of producer {header.producer_id}")
    if header.is_transactional and not header.has_producer_id:
        raise InvalidRecords("A transactional batch has no producer id")


def _too_large(size: int, settings: ProduceSettings) -> KafkaError:
    return KafkaError(
        ErrorCode.MESSAGE_TOO_LARGE,
        f"The record batch has {size} bytes, more than the {settings.max_message_bytes} of max.message.bytes",
    )


def _accept(batch: Batch, target: Codec, settings: ProduceSettings, now_ms: int) -> memoryview:
    """A batch of magic 2: left as it is, restamped in place, or packed anew."""
    header = batch.header
    if header.is_control:
        # The broker's own markers stay as they were written, whatever the topic's codec is.
        target = header.codec
    view = batch.view
    if view.readonly:
        view = memoryview(bytearray(view))
    max_timestamp = header.max_timestamp
    if settings.uses_append_time and header.uses_append_time:
        raise InvalidRecords(
            "Producers may not set the timestamp type LogAppendTime themselves", code=ErrorCode.INVALID_TIMESTAMP
        )
    walks_records = settings.is_compacted or not _is_believed(header, settings, now_ms)
    if walks_records or target != header.codec:
        payload = _opened(view, header, settings)
        is_consecutive = True
        if walks_records:
            max_timestamp, is_consecutive = _check_records(payload, header, settings, now_ms)
        elif header.record_count * RECORD_SIZE_MIN > len(payload):
            raise InvalidRecords(f"A record batch claims {header.record_count} records in {len(payload)} bytes")
        if target != header.codec or not is_consecutive:
            return _pack_anew(payload, header, target, max_timestamp, settings, now_ms, is_consecutive)
    _stamp(view, header, now_ms if settings.uses_append_time else max_timestamp, settings)
    return view


def _is_believed(header: BatchHeader, settings: ProduceSettings, now_ms: int) -> bool:
    """Whether the header can be taken at its word about its records, as on the fast path."""
    if header.codec == Codec.NONE:
        is_count_likely = header.record_count * RECORD_SIZE_MIN <= header.size - HEADER_SIZE
    else:
        is_count_likely = header.record_count <= header.size
    if not is_count_likely:
        return False
    if settings.uses_append_time:
        return True
    return (
        not header.uses_append_time
        and header.max_timestamp >= header.base_timestamp
        and header.max_timestamp - now_ms <= settings.timestamp_after_max_ms
        and now_ms - header.base_timestamp <= settings.timestamp_before_max_ms
    )


def _opened(view: memoryview, header: BatchHeader, settings: ProduceSettings) -> memoryview:
    # The checksum was right, so sending the same bytes again would not help: the error must not be a retriable one.
    try:
        return open_payload(view, header, limit=settings.decompressed_bytes_max)
    except CorruptRecords as error:
        raise InvalidRecords(error.message) from error


def _check_records(
    payload: memoryview, header: BatchHeader, settings: ProduceSettings, now_ms: int
) -> tuple[int, bool]:
    """(largest timestamp, whether offsets are 0, 1, 2, ...); raises when records may not be accepted."""
    keys_required = settings.is_compacted and not header.is_control
    checks_timestamps = not settings.uses_append_time
    timestamp_min = now_ms - settings.timestamp_before_max_ms
    timestamp_max = now_ms + settings.timestamp_after_max_ms
    largest = NO_TIMESTAMP
    is_consecutive = True
    keyless: list[int] = []
    mistimed: list[tuple[int, int]] = []
    index = 0
    try:
        for _, _, timestamp_delta, offset_delta, _, _, key_length, _ in scan_records(payload, header.record_count):
            timestamp = header.max_timestamp if header.uses_append_time else header.base_timestamp + timestamp_delta
            if timestamp > largest:
                largest = timestamp
            if keys_required and key_length < 0:
                keyless.append(index)
            elif checks_timestamps and timestamp != NO_TIMESTAMP and not timestamp_min <= timestamp <= timestamp_max:
                mistimed.append((index, timestamp))
            if offset_delta != index:
                is_consecutive = False
            index += 1
    except CorruptRecords as error:
        raise InvalidRecords(error.message) from None
    if keyless or mistimed:
        raise _refused_records(keyless, mistimed, timestamp_min, timestamp_max)
    return largest, is_consecutive


def _refused_records(
    keyless: list[int], mistimed: list[tuple[int, int]], timestamp_min: int, timestamp_max: int
) -> InvalidRecords:
    errors = [RecordError(index, "A compacted topic takes no record without a key.") for index in keyless]
    errors += [
        RecordError(index, f"Timestamp {timestamp} is not within [{timestamp_min}, {timestamp_max}].")
        for index, timestamp in mistimed
    ]
    errors.sort()
    del errors[RECORD_ERRORS_MAX:]
    if mistimed:
        return InvalidRecords(
            "One or more records have a timestamp that the topic does not allow",
            code=ErrorCode.INVALID_TIMESTAMP,
            record_errors=errors,
        )
    return InvalidRecords("One or more records of a compacted topic have no key", record_errors=errors)


def _pack_anew(
    payload: memoryview,
    header: BatchHeader,
    target: Codec,
    max_timestamp: int,
    settings: ProduceSettings,
    now_ms: int,
    is_consecutive: bool,
) -> memoryview:
    records = payload if is_consecutive else _renumbered(payload, header.record_count)
    attributes = (header.attributes & ~CODEC_MASK & ~TIMESTAMP_TYPE_BIT) | target
    if settings.uses_append_time:
        attributes |= TIMESTAMP_TYPE_BIT
        max_timestamp = now_ms
    return memoryview(
        assemble_batch(
            records,
            base_offset=header.base_offset,
            last_offset_delta=header.record_count - 1,
            record_count=header.record_count,
            attributes=attributes,
            base_timestamp=header.base_timestamp,
            max_timestamp=max_timestamp,
            producer_id=header.producer_id,
            producer_epoch=header.producer_epoch,
            base_sequence=header.base_sequence,
            leader_epoch=header.leader_epoch,
            level=settings.compression_level,
        )
    )


def _renumbered(payload: memoryview, count: int) -> bytearray:
    """The same records with offset deltas 0, 1, 2, ... - some clients number them wrongly, and Kafka forgives it."""
    target = bytearray()
    for index, span in enumerate(scan_records(payload, count)):
        body = bytearray(1)
        append_varint(body, span.timestamp_delta)
        append_varint(body, index)
        _, after_offset = read_varint(payload, span.rest)
        body += payload[after_offset : span.end]
        append_varint(target, len(body))
        target += body
    return target


def _stamp(view: memoryview, header: BatchHeader, max_timestamp: int, settings: ProduceSettings) -> None:
    """Sets timestamp type and largest timestamp where they differ, and then the checksum over them."""
    attributes = header.attributes & ~TIMESTAMP_TYPE_BIT
    if settings.uses_append_time:
        attributes |= TIMESTAMP_TYPE_BIT
    if attributes == header.attributes and max_timestamp == header.max_timestamp:
        return
    view[ATTRIBUTES_POSITION : ATTRIBUTES_POSITION + 2] = (attributes & 0xFFFF).to_bytes(2, "big")
    view[MAX_TIMESTAMP_POSITION : MAX_TIMESTAMP_POSITION + 8] = max_timestamp.to_bytes(8, "big", signed=True)
    set_checksum(view)


def _convert(batches: list[Batch], target: Codec, settings: ProduceSettings, now_ms: int) -> memoryview:
    """Messages of magic 0 or 1 as one batch of magic 2."""
    records: list[Record] = []
    for batch in batches:
        for record in iterate_messages(batch.view, limit=settings.decompressed_bytes_max):
            record.offset = len(records)
            records.append(record)
    if not records:
        raise InvalidRecords("A compressed message holds no messages")
    converted = memoryview(
        build_batch(
            records,
            codec=target,
            level=settings.compression_level,
            append_time_ms=now_ms if settings.uses_append_time else None,
        )
    )
    header = read_header(converted)
    # The checks are the same as for a batch that came as magic 2.
    payload = _opened(converted, header, settings)
    _check_records(payload, header, settings, now_ms)
    return converted
