"""The same as `_native.c` in Python, for machines without a compiler, and the reference for it.

A record costs one `join` over pieces when it is encoded. Most pieces are looked up: varints below a few thousand are in
a table. When it is decoded, every key and value is a single slice; varints of one byte are decoded inline.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ottla.records.errors import CorruptRecords
from ottla.records.varint import VARLONG_BYTES_MAX, append_varint, read_varint

__all__ = ["append_record", "decode_records", "murmur2", "partition_of_key"]

Buffer = bytes | bytearray | memoryview

_SEED = 0x9747B28C
_MULTIPLIER = 0x5BD1E995
_MASK = 0xFFFFFFFF
_INT64 = 1 << 64
_TABLE_SIZE = 8192


def _encoded(value: int) -> bytes:
    target = bytearray()
    append_varint(target, value)
    return bytes(target)


_VARINTS = tuple(_encoded(value) for value in range(_TABLE_SIZE))
_NULL = b"\x01"
_NO_HEADERS = b"\0"


def murmur2(data: bytes) -> int:
    """The 32-bit hash of Java clients, as an unsigned number."""
    length = len(data)
    value = _SEED ^ length
    whole = length & ~3
    for position in range(0, whole, 4):
        word = int.from_bytes(data[position : position + 4], "little") * _MULTIPLIER & _MASK
        word = (word ^ word >> 24) * _MULTIPLIER & _MASK
        value = value * _MULTIPLIER & _MASK ^ word
    rest = data[whole:]
    if rest:
        value = (value ^ int.from_bytes(rest, "little")) * _MULTIPLIER & _MASK
    value = (value ^ value >> 13) * _MULTIPLIER & _MASK
    return value ^ value >> 15


def partition_of_key(key: bytes, partitions: int) -> int:
    return (murmur2(key) & 0x7FFFFFFF) % partitions


def append_record(
    payload: bytearray,
    timestamp_delta: int,
    offset_delta: int,
    key: Buffer | None,
    value: Buffer | None,
    headers: Sequence[tuple[str, bytes | None]],
) -> int:
    """Encodes a record at the end of a payload; returns the payload's new size."""
    body = b"".join(
        (
            b"\0",
            _varint(timestamp_delta),
            _varint(offset_delta),
            _NULL if key is None else _varint(len(key)) + key,
            _NULL if value is None else _varint(len(value)) + value,
            _headers(headers) if headers else _NO_HEADERS,
        )
    )
    payload += _varint(len(body))
    payload += body
    return len(payload)


def decode_records(
    record_type: type[Any],
    payload: Buffer,
    count: int,
    topic: str,
    partition: int,
    base_offset: int,
    base_timestamp: int,
    append_time: int | None,
    kind: int,
    epoch: int,
    from_offset: int,
    limit: int,
) -> list[Any]:
    """At most `limit` records of a payload, from an offset on. Raises ValueError if they are damaged."""
    data = bytes(payload)
    records: list[Any] = []
    position = 0
    for index in range(count):
        if len(records) >= limit:
            break
        try:
            length, position = read_varint(data, position)
            end = position + length
            if length < 1 or end > len(data):
                raise IndexError
            timestamp, position = read_varint(data, position + 1, bytes_max=VARLONG_BYTES_MAX)
            offset, position = read_varint(data, position)
            if position > end or timestamp != _wrapped(timestamp):
                raise IndexError
            if _wrapped(base_offset + offset) < from_offset:
                position = end
                continue
            key, position = _take(data, position, end)
            value, position = _take(data, position, end)
            headers, position = _take_headers(data, position, end)
            if position > end:
                raise IndexError
        except (IndexError, CorruptRecords):
            raise ValueError(f"record {index} of {count} is damaged") from None
        position = end
        time = _wrapped(base_timestamp + timestamp) if append_time is None else append_time
        fields = (topic, partition, _wrapped(base_offset + offset), time, kind, key, value, headers, epoch)
        records.append(tuple.__new__(record_type, fields))
    return records


def _varint(value: int) -> bytes:
    return _VARINTS[value] if 0 <= value < _TABLE_SIZE else _encoded(value)


def _headers(headers: Sequence[tuple[str, bytes | None]]) -> bytes:
    pieces = [_varint(len(headers))]
    for name, content in headers:
        encoded = name.encode()
        pieces += (_varint(len(encoded)), encoded)
        pieces.append(_NULL if content is None else _varint(len(content)) + content)
    return b"".join(pieces)


def _take(data: bytes, position: int, end: int) -> tuple[bytes | None, int]:
    """Bytes with their length before them, or None."""
    byte = data[position]
    if byte < 0x80:
        length, position = (byte >> 1) ^ -(byte & 1), position + 1
    else:
        length, position = read_varint(data, position)
    if length == -1:
        return None, position
    if length < 0 or position + length > end:
        raise IndexError
    return data[position : position + length], position + length


def _take_headers(data: bytes, position: int, end: int) -> tuple[Sequence[tuple[str, bytes | None]], int]:
    count, position = read_varint(data, position)
    if count == 0:
        return (), position
    if count < 0 or count > end - position:
        raise IndexError
    headers: list[tuple[str, bytes | None]] = []
    for _ in range(count):
        name, position = _take(data, position, end)
        if name is None:
            raise IndexError
        content, position = _take(data, position, end)
        headers.append((name.decode("utf-8", "replace"), content))
    return headers, position


def _wrapped(value: int) -> int:
    """Deltas of broken writers may overflow; they wrap around, as in Java."""
    return (value + (1 << 63)) % _INT64 - (1 << 63)
