"""`inspect_records` in Python: the same results as `_native.c`."""

from __future__ import annotations

from ottla.records.errors import CorruptRecords
from ottla.records.varint import VARLONG_BYTES_MAX, read_varint

__all__ = ["inspect_records", "record_spans"]

Buffer = bytes | bytearray | memoryview

_INT_MAX = 2**31 - 1
# Seven fields of one byte.
_RECORD_SIZE_MIN = 7


def inspect_records(
    payload: Buffer, position: int, index: int, limit: int, keys_required: bool, /
) -> tuple[int, int, int, int, bool] | None:
    """Looks at up to `limit` records from a position on, where the record with this index begins.

    Returns the position after them, the number of records looked at, the smallest and the largest timestamp delta, and
    whether the offset deltas count on from the index. None if a record is damaged, has no key though one is required,
    or is unusual in another way.
    """
    size = len(payload)
    smallest, largest = 2**63 - 1, -(2**63)
    is_consecutive = True
    count = 0
    try:
        while count < limit and position < size:
            position, timestamp_delta, offset_delta = _record(payload, position, size, keys_required)
            smallest, largest = min(smallest, timestamp_delta), max(largest, timestamp_delta)
            is_consecutive = is_consecutive and offset_delta == index + count
            count += 1
    except (CorruptRecords, IndexError, _Unusual):
        return None
    return position, count, smallest, largest, is_consecutive


def record_spans(payload: Buffer, count: int, /) -> list[tuple[int, int, int, int, int, int, int, int]] | None:
    """The numbers of `RecordSpan` for every record of a whole payload; None if a record is damaged or unusual."""
    size = len(payload)
    if count < 0 or count > size // _RECORD_SIZE_MIN:
        return None
    spans: list[tuple[int, int, int, int, int, int, int, int]] = []
    position = 0
    try:
        for _ in range(count):
            start = position
            position, timestamp_delta, offset_delta = _record(payload, start, size, False)
            _, after_length = _length(payload, start)
            _, rest = read_varint(payload, after_length + 1, bytes_max=VARLONG_BYTES_MAX)
            _, key = _length(payload, rest)
            key_length, key = _length(payload, key)
            value_length, _ = _length(payload, key + max(key_length, 0))
            spans.append((start, position, timestamp_delta, offset_delta, rest, key, key_length, value_length))
    except (CorruptRecords, IndexError, _Unusual):
        return None
    return spans if position == size else None


class _Unusual(Exception):
    """The caller has to decode the records."""


def _record(payload: Buffer, position: int, size: int, keys_required: bool) -> tuple[int, int, int]:
    length, position = _length(payload, position)
    end = position + length
    if length < 0 or end > size:
        raise _Unusual
    timestamp_delta, position = read_varint(payload, position + 1, bytes_max=VARLONG_BYTES_MAX)
    if not -(2**63) <= timestamp_delta < 2**63:
        raise _Unusual
    offset_delta, position = _length(payload, position)
    key_length, position = _length(payload, position)
    if key_length < (0 if keys_required else -1):
        raise _Unusual
    position += max(key_length, 0)
    if position >= end:
        raise _Unusual
    value_length, position = _length(payload, position)
    if value_length < -1:
        raise _Unusual
    position += max(value_length, 0)
    if position >= end:
        raise _Unusual
    header_count, position = _length(payload, position)
    if header_count < 0 or header_count > end - position:
        raise _Unusual
    for _ in range(header_count):
        name_length, position = _length(payload, position)
        position += name_length
        if name_length < 0 or position >= end:
            raise _Unusual
        value_length, position = _length(payload, position)
        if value_length < -1:
            raise _Unusual
        position += max(value_length, 0)
        if position > end:
            raise _Unusual
    if position != end:
        raise _Unusual
    return position, timestamp_delta, offset_delta


def _length(payload: Buffer, position: int) -> tuple[int, int]:
    value, position = read_varint(payload, position)
    # Five bytes can hold a little more than an int of the format.
    if not -_INT_MAX - 1 <= value <= _INT_MAX:
        raise _Unusual
    return value, position
