"""Records and their encoding in a batch of magic 2.

    length varint | attributes 1 | timestamp delta varlong | offset delta varint
    | key length varint, key | value length varint, value | header count varint, headers

A length of -1 means null. The attributes are unused. The functions take plain arguments instead of objects, because
they run once per record.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ottla.records.errors import CorruptRecords
from ottla.records.varint import VARLONG_BYTES_MAX, read_varint, varint_bytes

__all__ = [
    "OFFSET_UNASSIGNED",
    "RECORD_SIZE_MIN",
    "Record",
    "RecordSpan",
    "append_contents",
    "append_record",
    "decode_records",
    "decode_values",
    "record_content",
    "scan_records",
    "value_content",
]

Buffer = bytes | bytearray | memoryview

OFFSET_UNASSIGNED = -1

_NULL = varint_bytes(-1)

RECORD_SIZE_MIN = 7
"""Seven one-byte fields: a batch has at most as many records as its size divided by this."""


class Record:
    """A record with absolute offset and timestamp. `build_batch` assigns the offset if it is OFFSET_UNASSIGNED."""

    __slots__ = ("headers", "key", "offset", "timestamp", "value")

    def __init__(
        self,
        *,
        key: Buffer | None = None,
        value: Buffer | None = None,
        headers: Sequence[tuple[str, bytes | None]] = (),
        timestamp: int = -1,
        offset: int = OFFSET_UNASSIGNED,
    ) -> None:
        self.offset = offset
        self.timestamp = timestamp
        self.key = key
        self.value = value
        self.headers = headers

    def __repr__(self) -> str:
        return (
            f"Record(offset={self.offset}, timestamp={self.timestamp}, key={self.key!r}, value={self.value!r}, "
            f"headers={list(self.headers)!r})"
        )

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Record):
            return NotImplemented
        return (
            self.offset == other.offset
            and self.timestamp == other.timestamp
            and self.key == other.key
            and self.value == other.value
            and list(self.headers) == list(other.headers)
        )

    __hash__ = None  # type: ignore[assignment]


class RecordSpan(NamedTuple):
    """The position of a record in a batch's payload, for copying records without decoding them."""

    start: int
    end: int
    timestamp_delta: int
    offset_delta: int
    rest: int
    """The position after the timestamp delta; the bytes from there on do not depend on the base timestamp."""
    key_start: int
    key_length: int
    value_length: int


def append_record(
    target: bytearray,
    *,
    offset_delta: int,
    timestamp_delta: int,
    key: Buffer | None,
    value: Buffer | None,
    headers: Sequence[tuple[str, bytes | None]] = (),
) -> None:
    """Appends a record to a batch's payload."""
    append_contents(
        target,
        [record_content(key, value, headers)],
        first_offset_delta=offset_delta,
        timestamp_delta=timestamp_delta,
    )


def record_content(key: Buffer | None, value: Buffer | None, headers: Sequence[tuple[str, bytes | None]] = ()) -> bytes:
    """The encoded key, value and headers of a record, which do not depend on its position in a batch."""
    pieces: list[Buffer] = [
        _NULL if key is None else varint_bytes(len(key)),
        key or b"",
        _NULL if value is None else varint_bytes(len(value)),
        value or b"",
        varint_bytes(len(headers)),
    ]
    for name, content in headers:
        encoded = name.encode()
        pieces += (varint_bytes(len(encoded)), encoded)
        pieces += (_NULL,) if content is None else (varint_bytes(len(content)), content)
    return b"".join(pieces)


def value_content(value: bytes) -> bytes:
    """`record_content` of a record without key and headers."""
    return b"".join((_NULL, varint_bytes(len(value)), value, b"\0"))


def append_contents(
    target: bytearray, contents: Sequence[bytes], *, first_offset_delta: int, timestamp_delta: int
) -> None:
    """Appends records of the same timestamp, given by their encoded contents, to a batch's payload."""
    attributes_and_time = b"\0" + varint_bytes(timestamp_delta)
    size = len(attributes_and_time)
    varint = varint_bytes
    pieces: list[bytes] = []
    for offset_delta, content in enumerate(contents, first_offset_delta):
        offset = varint(offset_delta)
        pieces += (varint(size + len(offset) + len(content)), attributes_and_time, offset, content)
    target += b"".join(pieces)


def decode_records(payload: Buffer, count: int, *, base_offset: int, base_timestamp: int) -> list[Record]:
    """Decodes all records of an uncompressed payload. They do not refer to the payload, which may be reused."""
    # After one copy of the whole payload, every slice below is a `bytes` object.
    data = bytes(payload)
    records = []
    for _, _, timestamp_delta, offset_delta, _, key_start, key_length, value_length in scan_records(data, count):
        position = key_start
        key = None
        if key_length >= 0:
            key = data[position : position + key_length]
            position += key_length
        _, position = read_varint(data, position)
        value = None
        if value_length >= 0:
            value = data[position : position + value_length]
            position += value_length
        records.append(
            Record(
                offset=base_offset + offset_delta,
                timestamp=base_timestamp + timestamp_delta,
                key=key,
                value=value,
                headers=() if data[position] == 0 else _read_headers(data, position),
            )
        )
    return records


def decode_values(payload: Buffer, count: int) -> list[memoryview]:
    """The values of all records of an uncompressed payload, null as empty. They share one copy of the payload."""
    data = bytes(payload)
    view = memoryview(data)
    values = []
    for _, _, _, _, _, start, key_length, value_length in scan_records(data, count):
        if key_length > 0:
            start += key_length
        start = start + 1 if data[start] < 0x80 else read_varint(data, start)[1]
        values.append(view[start : start + value_length] if value_length > 0 else view[:0])
    return values


def scan_records(payload: Buffer, count: int) -> Iterator[RecordSpan]:
    """Iterates over an uncompressed payload and checks every length. Exactly `count` records must fill the payload."""
    size = len(payload)
    if count < 0 or count * RECORD_SIZE_MIN > size:
        raise CorruptRecords(f"A batch cannot have {count} records in {size} bytes")
    try:
        yield from _scan(payload, size, count)
    except IndexError:
        raise CorruptRecords("The bytes end inside a record") from None


def _scan(payload: Buffer, size: int, count: int) -> Iterator[RecordSpan]:
    # Most numbers have one byte and are decoded inline: a call for each of them would take most of the time.
    new = tuple.__new__
    position = 0
    for _ in range(count):
        start = position
        byte = payload[position]
        if byte < 0x80:
            length, position = (byte >> 1) ^ -(byte & 1), position + 1
        else:
            length, position = read_varint(payload, position)
        end = position + length
        if length < RECORD_SIZE_MIN - 1 or end > size:
            raise CorruptRecords(f"The length {length} of a record is invalid: {size - position} bytes are left")
        byte = payload[position + 1]
        if byte < 0x80:
            timestamp_delta, rest = (byte >> 1) ^ -(byte & 1), position + 2
        else:
            timestamp_delta, rest = read_varint(payload, position + 1, bytes_max=VARLONG_BYTES_MAX)
        byte = payload[rest]
        if byte < 0x80:
            offset_delta, position = (byte >> 1) ^ -(byte & 1), rest + 1
        else:
            offset_delta, position = read_varint(payload, rest)
        byte = payload[position]
        if byte < 0x80:
            key_length, position = (byte >> 1) ^ -(byte & 1), position + 1
        else:
            key_length, position = read_varint(payload, position)
        key_start = position
        if key_length > 0:
            position += key_length
        if key_length < -1 or position >= end:
            raise CorruptRecords(f"The key length {key_length} is invalid in a record of {length} bytes")
        byte = payload[position]
        if byte < 0x80:
            value_length, position = (byte >> 1) ^ -(byte & 1), position + 1
        else:
            value_length, position = read_varint(payload, position)
        if value_length > 0:
            position += value_length
        if value_length < -1 or position >= end:
            raise CorruptRecords(f"The value length {value_length} is invalid in a record of {length} bytes")
        position = position + 1 if payload[position] == 0 else _skip_headers(payload, position, end)
        if position != end:
            raise CorruptRecords(
                f"A record has {length} bytes, but its fields end {end - position} bytes before its end"
            )
        yield new(RecordSpan, (start, end, timestamp_delta, offset_delta, rest, key_start, key_length, value_length))
    if position != size:
        raise CorruptRecords(f"{size - position} bytes follow the last of the batch's {count} records")


def _skip_headers(payload: Buffer, position: int, end: int) -> int:
    header_count, position = read_varint(payload, position)
    if header_count < 0 or header_count * 2 > end - position:
        raise CorruptRecords(f"A record cannot have {header_count} headers in {end - position} bytes")
    for _ in range(header_count):
        name_length, position = read_varint(payload, position)
        position += name_length
        if name_length < 0 or position >= end:
            raise CorruptRecords(f"The length {name_length} of a header's name is invalid")
        value_length, position = read_varint(payload, position)
        if value_length > 0:
            position += value_length
        if value_length < -1 or position > end:
            raise CorruptRecords(f"The length {value_length} of a header's value is invalid")
    return position


def _read_headers(payload: bytes, position: int) -> list[tuple[str, bytes | None]]:
    # `scan_records` has checked the lengths. Invalid UTF-8 is replaced, as in Java clients.
    header_count, position = read_varint(payload, position)
    headers: list[tuple[str, bytes | None]] = []
    for _ in range(header_count):
        name_length, position = read_varint(payload, position)
        name = payload[position : position + name_length].decode("utf-8", "replace")
        position += name_length
        value_length, position = read_varint(payload, position)
        if value_length < 0:
            headers.append((name, None))
        else:
            headers.append((name, payload[position : position + value_length]))
            position += value_length
    return headers
