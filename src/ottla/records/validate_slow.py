"""The slow path of `ottla.records.validate`: batches that are decoded, converted, restamped or rejected.

The order of the checks is Apache Kafka's, because the response reports the first error: rules of the Produce version,
base offset, size, checksum, offsets and count, control records, sequence, and finally each record.
"""

from __future__ import annotations

from collections.abc import Generator
from itertools import islice
from typing import NamedTuple, TypeVar

from ottla.model.errors import ErrorCode, KafkaError
from ottla.records.build import assemble_batch, build_batch, set_checksum
from ottla.records.compression import Codec, decompressed_size_bound
from ottla.records.errors import CorruptRecords, InvalidRecords, RecordError
from ottla.records.header import (
    ATTRIBUTES_POSITION,
    CODEC_MASK,
    HEADER_SIZE,
    LEGACY_OVERHEAD,
    LENGTH_OVERHEAD,
    MAGIC,
    MAGIC_POSITION,
    MAX_TIMESTAMP_POSITION,
    NO_TIMESTAMP,
    TIMESTAMP_TYPE_BIT,
    BatchHeader,
    read_header,
)
from ottla.records.inspection import COMPILED, inspect_records
from ottla.records.iterate import Batch, iterate_batches, open_payload, verify_checksum
from ottla.records.legacy import TooManyMessages, iterate_messages
from ottla.records.record import RECORD_SIZE_MIN, Record, scan_records
from ottla.records.schema_tags import SchemaTags, collect_tags
from ottla.records.validate import (
    PRODUCE_VERSION_ZSTD,
    RECORDS_PER_BYTE_MAX,
    AppendOrigin,
    ProduceSettings,
    ValidatedRecords,
)
from ottla.records.varint import append_varint, read_varint

__all__ = ["STEP_RECORDS", "DecodingWork", "Steps", "decoding_work", "validate_in_steps", "validate_slowly"]

T = TypeVar("T")

PRODUCE_VERSION_MAGIC_2 = 3
"""From this Produce version on, exactly one batch of magic 2 is allowed for each partition (KIP-98)."""

RECORD_ERRORS_MAX = 10_000
"""The largest number of records that a response names as invalid; the whole batch is rejected in any case."""

STEP_RECORDS = 10_000
# The same for records that are inspected in C, which is much faster.
STEP_INSPECTED = 100_000 if COMPILED else STEP_RECORDS
"""The records between two steps of `validate_in_steps`: about 10 ms."""

LEGACY_MESSAGES_MAX = 1_000_000
"""The largest number of messages of magic 0 and 1 in a wrapper, because the conversion makes an object of each."""

# A generator that returns the result; each `next` is one step.
Steps = Generator[None, None, T]


class DecodingWork(NamedTuple):
    """Upper bounds of the work that the validation of a batch takes besides its header and checksum."""

    records: int
    decompressed_bytes: int
    compressed_bytes: int
    """The bytes that have to be compressed with another codec."""


_NO_WORK = DecodingWork(0, 0, 0)


def decoding_work(records: memoryview, *, settings: ProduceSettings, now_ms: int) -> DecodingWork:
    """The work of `validate_slowly`, computed from the header. It is 0 for a batch that is refused unopened."""
    size = len(records)
    if size <= HEADER_SIZE or records[MAGIC_POSITION] != MAGIC:
        return _legacy_work(records, settings)
    header = read_header(records)
    codec = header.attributes & CODEC_MASK
    if codec > Codec.ZSTD or header.size > size or size > settings.max_message_bytes:
        return _NO_WORK
    is_recompressed = settings.compression is not None and settings.compression != codec
    opens_records = settings.is_compacted or settings.schemas is not None
    if not opens_records and not is_recompressed and _is_plausible(header, settings, now_ms):
        return _NO_WORK
    if codec == Codec.NONE:
        count = min(max(0, header.record_count), size // RECORD_SIZE_MIN)
        return DecodingWork(count, 0, size if is_recompressed else 0)
    try:
        _check_count(records, header, settings)
    except InvalidRecords:
        return _NO_WORK
    bound = min(decompressed_size_bound(Codec(codec), records[HEADER_SIZE:]), settings.decompressed_bytes_max)
    is_recompressed = is_recompressed and settings.compression != Codec.NONE
    return DecodingWork(max(0, header.record_count), bound, bound if is_recompressed else 0)


def _legacy_work(records: memoryview, settings: ProduceSettings) -> DecodingWork:
    size = len(records)
    if size <= LENGTH_OVERHEAD + LEGACY_OVERHEAD:
        return _NO_WORK
    # A compressed message is the only one of its partition. Its attributes follow the magic byte.
    if not records[MAGIC_POSITION + 1] & CODEC_MASK:
        return DecodingWork(size // (LENGTH_OVERHEAD + LEGACY_OVERHEAD), 0, size if settings.compression else 0)
    bound = min(decompressed_size_bound(Codec.GZIP, records), settings.decompressed_bytes_max)
    return DecodingWork(min(size * RECORDS_PER_BYTE_MAX, LEGACY_MESSAGES_MAX), bound, bound)


def validate_slowly(
    records: memoryview,
    *,
    settings: ProduceSettings,
    now_ms: int,
    api_version: int,
    origin: AppendOrigin = AppendOrigin.CLIENT,
) -> ValidatedRecords:
    """Has the contract of `validate_produce` and accepts every kind of input."""
    steps = validate_in_steps(records, settings=settings, now_ms=now_ms, api_version=api_version, origin=origin)
    while True:
        try:
            next(steps)
        except StopIteration as done:
            validated: ValidatedRecords = done.value
            return validated


def validate_in_steps(
    records: memoryview,
    *,
    settings: ProduceSettings,
    now_ms: int,
    api_version: int,
    origin: AppendOrigin = AppendOrigin.CLIENT,
) -> Steps[ValidatedRecords]:
    """`validate_slowly` in steps of at most STEP_RECORDS records. The generator may be resumed on another thread."""
    batches = list(iterate_batches(records))
    _check_version(batches, api_version)
    for batch in batches:
        _check_bytes(batch, settings, origin)
    first = batches[0].header
    source = first.codec
    if any(batch.header.magic != first.magic for batch in batches):
        raise InvalidRecords("The batches of a partition have different magics")
    if len(batches) > 1 and (first.magic == 2 or any(batch.header.is_compressed for batch in batches)):
        raise InvalidRecords(
            "A partition has more than one batch; only uncompressed messages of magic 0 or 1 may be several"
        )
    for batch in batches:
        _check_header(batch.header, origin)
    target = source if settings.compression is None else settings.compression
    tags: SchemaTags | None = None
    if settings.schemas is not None and origin == AppendOrigin.CLIENT:
        tags = {}
    if first.magic < 2:
        converted = yield from _convert(batches, target, settings, now_ms, tags)
    else:
        converted = yield from _accept(batches[0], target, settings, now_ms, tags)
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
        tags,
    )


def _check_version(batches: list[Batch], api_version: int) -> None:
    if not batches:
        raise InvalidRecords("A Produce request needs at least one complete record batch for each partition")
    if api_version < PRODUCE_VERSION_MAGIC_2:
        return
    first = batches[0].header
    if first.magic != 2:
        raise InvalidRecords(
            f"Produce version {api_version} accepts only record batches of magic 2, not of magic {first.magic}"
        )
    if first.codec == Codec.ZSTD and api_version < PRODUCE_VERSION_ZSTD:
        raise KafkaError(
            ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"Produce version {api_version} does not allow zstd compression"
        )
    if len(batches) > 1:
        raise InvalidRecords(f"Produce version {api_version} accepts exactly one record batch for each partition")


def _check_bytes(batch: Batch, settings: ProduceSettings, origin: AppendOrigin) -> None:
    header = batch.header
    if header.magic == 2 and origin == AppendOrigin.CLIENT and header.base_offset != 0:
        raise InvalidRecords(f"The base offset of a produced batch must be 0, but it is {header.base_offset}")
    if header.size > settings.max_message_bytes:
        raise _too_large(header.size, settings)
    if not verify_checksum(batch.view, header):
        raise CorruptRecords(f"The record batch does not match its checksum {header.crc}")


def _check_header(header: BatchHeader, origin: AppendOrigin) -> None:
    if origin != AppendOrigin.CLIENT:
        return
    if header.magic == 2:
        if header.record_count <= 0:
            raise InvalidRecords(f"The record count {header.record_count} of a batch is invalid")
        if header.last_offset_delta + 1 != header.record_count:
            raise InvalidRecords(
                f"The record count {header.record_count} of a batch does not match its last offset delta "
                f"{header.last_offset_delta}"
            )
    if header.is_control:
        raise InvalidRecords("Clients must not write control records")
    if header.has_producer_id and header.base_sequence < 0:
        raise InvalidRecords(
            f"A batch of producer {header.producer_id} has the invalid sequence number {header.base_sequence}"
        )
    if header.is_transactional and not header.has_producer_id:
        raise InvalidRecords("A transactional batch has no producer id")


def _too_large(size: int, settings: ProduceSettings) -> KafkaError:
    return KafkaError(
        ErrorCode.MESSAGE_TOO_LARGE,
        f"The record batch has {size} bytes, more than max.message.bytes ({settings.max_message_bytes})",
    )


def _accept(
    batch: Batch, target: Codec, settings: ProduceSettings, now_ms: int, tags: SchemaTags | None
) -> Steps[memoryview]:
    """Accepts a batch of magic 2: unchanged, with a new timestamp in place, or recompressed. Fills `tags`."""
    header = batch.header
    if header.is_control:
        # Control batches, which the broker writes itself, are not recompressed.
        target = header.codec
    view = batch.view
    if view.readonly:
        view = memoryview(bytearray(view))
    max_timestamp = header.max_timestamp
    if settings.uses_append_time and header.uses_append_time:
        raise InvalidRecords(
            "Producers must not set the timestamp type LogAppendTime", code=ErrorCode.INVALID_TIMESTAMP
        )
    checks_records = settings.is_compacted or tags is not None or not _is_plausible(header, settings, now_ms)
    if checks_records or target != header.codec:
        _check_count(view, header, settings)
        payload = _decompressed(view, header, settings)
        is_consecutive = True
        if checks_records:
            max_timestamp, is_consecutive = yield from _check_records(payload, header, settings, now_ms, tags)
        elif header.record_count * RECORD_SIZE_MIN > len(payload):
            raise InvalidRecords(f"A record batch cannot have {header.record_count} records in {len(payload)} bytes")
        if target != header.codec or not is_consecutive:
            return (yield from _recompressed(payload, header, target, max_timestamp, settings, now_ms, is_consecutive))
    _stamp(view, header, now_ms if settings.uses_append_time else max_timestamp, settings)
    return view


def _is_plausible(header: BatchHeader, settings: ProduceSettings, now_ms: int) -> bool:
    """True if the header is plausible without decoding the records, by the rules of the fast path."""
    if header.codec == Codec.NONE:
        is_count_plausible = header.record_count * RECORD_SIZE_MIN <= header.size - HEADER_SIZE
    else:
        is_count_plausible = header.record_count <= header.size
    if not is_count_plausible:
        return False
    if settings.uses_append_time:
        return True
    return (
        not header.uses_append_time
        and header.max_timestamp >= header.base_timestamp
        and header.max_timestamp - now_ms <= settings.timestamp_after_max_ms
        and now_ms - header.base_timestamp <= settings.timestamp_before_max_ms
    )


def _check_count(view: memoryview, header: BatchHeader, settings: ProduceSettings) -> None:
    """Refuses a claimed record count that the decompressed bytes cannot hold, before they are decompressed."""
    count = header.record_count
    if not header.is_compressed:
        # `scan_records` refuses the count.
        return
    if count > header.size * RECORDS_PER_BYTE_MAX:
        raise InvalidRecords(
            f"A record batch cannot have {count} records in {header.size} bytes; "
            f"at most {RECORDS_PER_BYTE_MAX} records for each byte are accepted"
        )
    bound = min(decompressed_size_bound(header.codec, view[HEADER_SIZE:]), settings.decompressed_bytes_max)
    if count * RECORD_SIZE_MIN > bound:
        raise InvalidRecords(f"A record batch cannot have {count} records in at most {bound} decompressed bytes")


def _decompressed(view: memoryview, header: BatchHeader, settings: ProduceSettings) -> memoryview:
    # The checksum is correct, so sending the same bytes again would fail again: the error must not be retriable.
    try:
        return open_payload(view, header, limit=settings.decompressed_bytes_max)
    except CorruptRecords as error:
        raise InvalidRecords(error.message) from error


def _check_records(
    payload: memoryview, header: BatchHeader, settings: ProduceSettings, now_ms: int, tags: SchemaTags | None
) -> Steps[tuple[int, bool]]:
    """Checks every record; returns the largest timestamp and whether the offset deltas are 0, 1, 2, ..."""
    if tags is None:
        inspected = yield from _inspected(payload, header, settings, now_ms)
        if inspected is not None:
            return inspected
    keys_required = settings.is_compacted and not header.is_control
    checks_timestamps = not settings.uses_append_time
    rules = settings.schemas
    timestamp_min = now_ms - settings.timestamp_before_max_ms
    timestamp_max = now_ms + settings.timestamp_after_max_ms
    largest = NO_TIMESTAMP
    is_consecutive = True
    without_key: list[int] = []
    with_invalid_timestamp: list[tuple[int, int]] = []
    index = 0
    spans = scan_records(payload, header.record_count)
    try:
        while True:
            step_end = index + STEP_RECORDS
            for _, end, timestamp_delta, offset_delta, _, key_start, key_length, _ in islice(spans, STEP_RECORDS):
                timestamp = header.max_timestamp if header.uses_append_time else header.base_timestamp + timestamp_delta
                if timestamp > largest:
                    largest = timestamp
                if keys_required and key_length < 0:
                    without_key.append(index)
                elif (
                    checks_timestamps and timestamp != NO_TIMESTAMP and not timestamp_min <= timestamp <= timestamp_max
                ):
                    with_invalid_timestamp.append((index, timestamp))
                if offset_delta != index:
                    is_consecutive = False
                if tags is not None and rules is not None:
                    collect_tags(tags, rules, payload, index, key_start, key_length, end)
                index += 1
            if index < step_end:
                break
            # The response names no more records, and the lists must not grow with the batch.
            del without_key[RECORD_ERRORS_MAX:], with_invalid_timestamp[RECORD_ERRORS_MAX:]
            yield
    except CorruptRecords as error:
        raise InvalidRecords(error.message) from None
    if without_key or with_invalid_timestamp:
        raise _refused_records(without_key, with_invalid_timestamp, timestamp_min, timestamp_max)
    return largest, is_consecutive


def _inspected(
    payload: memoryview, header: BatchHeader, settings: ProduceSettings, now_ms: int
) -> Steps[tuple[int, bool] | None]:
    """The result of `_check_records` if all records are in order, without decoding them; None if one has to be."""
    keys_required = settings.is_compacted and not header.is_control
    position = index = 0
    smallest_delta, largest_delta = 0, 0
    is_consecutive = True
    while index < header.record_count:
        limit = min(STEP_INSPECTED, header.record_count - index)
        inspected = inspect_records(payload, position, index, limit, keys_required)
        if inspected is None or not inspected[1]:
            return None
        position, count, smallest, largest, counts_on = inspected
        smallest_delta = min(smallest_delta, smallest) if index else smallest
        largest_delta = max(largest_delta, largest) if index else largest
        is_consecutive = is_consecutive and counts_on
        index += count
        if index < header.record_count:
            yield
    if not index or position != len(payload):
        return None
    if header.uses_append_time:
        first = last = header.max_timestamp
    else:
        first, last = header.base_timestamp + smallest_delta, header.base_timestamp + largest_delta
    is_in_time = now_ms - settings.timestamp_before_max_ms <= first and last <= now_ms + settings.timestamp_after_max_ms
    return (max(last, NO_TIMESTAMP), is_consecutive) if settings.uses_append_time or is_in_time else None


def _refused_records(
    without_key: list[int], with_invalid_timestamp: list[tuple[int, int]], timestamp_min: int, timestamp_max: int
) -> InvalidRecords:
    errors = [RecordError(index, "Records of a compacted topic must have a key.") for index in without_key]
    errors += [
        RecordError(index, f"Timestamp {timestamp} is not within [{timestamp_min}, {timestamp_max}].")
        for index, timestamp in with_invalid_timestamp
    ]
    errors.sort()
    del errors[RECORD_ERRORS_MAX:]
    if with_invalid_timestamp:
        return InvalidRecords(
            # Kafka's test expects these words; see docs/decisions/0005-sentences-on-the-wire.md.
            "One or more records have been rejected due to invalid timestamp",
            code=ErrorCode.INVALID_TIMESTAMP,
            record_errors=errors,
        )
    return InvalidRecords("One or more records of a compacted topic have no key", record_errors=errors)


def _recompressed(
    payload: memoryview,
    header: BatchHeader,
    target: Codec,
    max_timestamp: int,
    settings: ProduceSettings,
    now_ms: int,
    is_consecutive: bool,
) -> Steps[memoryview]:
    if target == Codec.NONE and len(payload) > settings.max_message_bytes:
        # The payload is not copied, because the batch is refused in any case.
        raise _too_large(HEADER_SIZE + len(payload), settings)
    records = payload if is_consecutive else (yield from _renumbered(payload, header.record_count))
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


def _renumbered(payload: memoryview, count: int) -> Steps[bytearray]:
    """The records with offset deltas 0, 1, 2, ...; some clients write wrong deltas, which Kafka corrects as well."""
    target = bytearray()
    for index, span in enumerate(scan_records(payload, count)):
        body = bytearray(1)
        append_varint(body, span.timestamp_delta)
        append_varint(body, index)
        _, after_offset = read_varint(payload, span.rest)
        body += payload[after_offset : span.end]
        append_varint(target, len(body))
        target += body
        if index % STEP_RECORDS == 0:
            yield
    return target


def _stamp(view: memoryview, header: BatchHeader, max_timestamp: int, settings: ProduceSettings) -> None:
    """Sets timestamp type and largest timestamp, and updates the checksum if one of them has changed."""
    attributes = header.attributes & ~TIMESTAMP_TYPE_BIT
    if settings.uses_append_time:
        attributes |= TIMESTAMP_TYPE_BIT
    if attributes == header.attributes and max_timestamp == header.max_timestamp:
        return
    view[ATTRIBUTES_POSITION : ATTRIBUTES_POSITION + 2] = (attributes & 0xFFFF).to_bytes(2, "big")
    view[MAX_TIMESTAMP_POSITION : MAX_TIMESTAMP_POSITION + 8] = max_timestamp.to_bytes(8, "big", signed=True)
    set_checksum(view)


def _convert(
    batches: list[Batch], target: Codec, settings: ProduceSettings, now_ms: int, tags: SchemaTags | None
) -> Steps[memoryview]:
    """Converts messages of magic 0 or 1 into one batch of magic 2."""
    records: list[Record] = []
    for batch in batches:
        count_max = min(batch.header.size * RECORDS_PER_BYTE_MAX, LEGACY_MESSAGES_MAX)
        try:
            for record in iterate_messages(batch.view, limit=settings.decompressed_bytes_max, count_max=count_max):
                record.offset = len(records)
                records.append(record)
        except TooManyMessages as error:
            # Sending the same bytes again would fail again: the error must not be retriable.
            raise InvalidRecords(error.message) from None
        yield
    if not records:
        raise InvalidRecords("A compressed message contains no messages")
    converted = memoryview(
        build_batch(
            records,
            codec=target,
            level=settings.compression_level,
            append_time_ms=now_ms if settings.uses_append_time else None,
        )
    )
    header = read_header(converted)
    # The checks are the same as for a batch of magic 2.
    payload = _decompressed(converted, header, settings)
    yield from _check_records(payload, header, settings, now_ms, tags)
    return converted
