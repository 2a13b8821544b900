"""One record: what it is, and how it is written inside a batch of magic 2.

    length varint | attributes 1 | timestamp delta varlong | offset delta varint
    | key length varint, key | value length varint, value | header count varint, headers

A length of -1 is a null. Attributes are unused. The functions here are free functions over plain arguments, because
whoever opens records at all opens many of them.
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
    "record_content",
    "scan_records",
]

Buffer = bytes | bytearray | memoryview

OFFSET_UNASSIGNED = -1

_NULL = varint_bytes(-1)

RECORD_SIZE_MIN = 7
"""Seven one-byte fields: a batch cannot claim more records than its bytes divided by this."""


class Record:
    """A record with its absolute offset and timestamp. An unassigned offset is numbered by whoever builds the batch."""

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
    """Where a record lies in a batch's payload, for work that copies records without opening them."""

    start: int
    end: int
    timestamp_delta: int
    offset_delta: int
    rest: int
    """Where the bytes after the timestamp delta begin; they do not change when the base timestamp does."""
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
    """Writes one record at the end of a batch's payload."""
    append_contents(
        target,
        [record_content(key, value, headers)],
        first_offset_delta=offset_delta,
        timestamp_delta=timestamp_delta,
    )


def record_content(key: Buffer | None, value: Buffer | None, headers: Sequence[tuple[str, bytes | None]] = ()) -> bytes:
    """What of a record does not depend on its place in a batch: key, value and headers."""
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


def append_contents(
    target: bytearray, contents: Sequence[bytes], *, first_offset_delta: int, timestamp_delta: int
) -> None:
    """Writes records of one timestamp, given by their contents, one after another at the end of a batch's payload."""
    attributes_and_time = b"\0" + varint_bytes(timestamp_delta)
    size = len(attributes_and_time)
    varint = varint_bytes
    pieces: list[bytes] = []
    for offset_delta, content in enumerate(contents, first_offset_delta):
        offset = varint(offset_delta)
        pieces += (varint(size + len(offset) + len(content)), attributes_and_time, offset, content)
    target += b"".join(pieces)


def decode_records(payload: Buffer, count: int, *, base_offset: int, base_timestamp: int) -> list[Record]:
    """All records of an uncompressed payload. They hold bytes of their own, so the payload may be reused."""
    # One copy of the whole payload makes every slice below a `bytes` of its own at the price of one operation.
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


def scan_records(payload: Buffer, count: int) -> Iterator[RecordSpan]:
    """Walks the records of an uncompressed payload, checking every length; exactly `count` must fill it."""
    size = len(payload)
    if count < 0 or count * RECORD_SIZE_MIN > size:
        raise CorruptRecords(f"A batch claims {count} records in {size} bytes")
    try:
        yield from _scan(payload, size, count)
    except IndexError:
        raise CorruptRecords("The bytes end inside a record") from None


def _scan(payload: Buffer, size: int, count: int) -> Iterator[RecordSpan]:
    # Most numbers are one byte long: they are read in place, since a call for each would be most of the work.
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
            raise CorruptRecords(f"A record claims {length} bytes where {size - position} are left")
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
            raise CorruptRecords(f"A key claims {key_length} bytes in a record of {length}")
        byte = payload[position]
        if byte < 0x80:
            value_length, position = (byte >> 1) ^ -(byte & 1), position + 1
        else:
            value_length, position = read_varint(payload, position)
        if value_length > 0:
            position += value_length
        if value_length < -1 or position >= end:
            raise CorruptRecords(f"A value claims {value_length} bytes in a record of {length}")
        position = position + 1 if payload[position] == 0 else _skip_headers(payload, position, end)
        if position != end:
            raise CorruptRecords(f"A record claims {length} bytes, but its fields end {end - position} before that")
        yield new(RecordSpan, (start, end, timestamp_delta, offset_delta, rest, key_start, key_length, value_length))
    if position != size:
        raise CorruptRecords(f"{size - position} bytes follow the last of the {count} records a batch claims")


def _skip_headers(payload: Buffer, position: int, end: int) -> int:
    header_count, position = read_varint(payload, position)
    if header_count < 0 or header_count * 2 > end - position:
        raise CorruptRecords(f"A record claims {header_count} headers in {end - position} bytes")
    for _ in range(header_count):
        name_length, position = read_varint(payload, position)
        position += name_length
        if name_length < 0 or position >= end:
            raise CorruptRecords(f"A header's name claims {name_length} bytes")
        value_length, position = read_varint(payload, position)
        if value_length > 0:
            position += value_length
        if value_length < -1 or position > end:
            raise CorruptRecords(f"A header's value claims {value_length} bytes")
    return position


def _read_headers(payload: bytes, position: int) -> list[tuple[str, bytes | None]]:
    # The lengths were checked when the record was scanned. Malformed UTF-8 is replaced, as Java clients do.
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
