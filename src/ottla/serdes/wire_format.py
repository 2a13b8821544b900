"""The schema id of a record: a prefix of the value, or a header.

The prefix is a zero byte and the id of the schema. The header `__key_schema_id` or `__value_schema_id` has a byte 1 and
the GUID, or the same bytes as the prefix. Protobuf adds the path of the message within its file.
"""

from __future__ import annotations

import struct
import uuid
from collections.abc import Sequence
from dataclasses import dataclass

from ottla.serdes.protocol import Header

__all__ = ["SchemaTag", "header_name", "packed_indexes", "read_tag", "tagged_header", "tagged_value"]

_ID_MAGIC, _GUID_MAGIC = 0, 1
_ID = struct.Struct(">bI")
_INDEXES_MAX = 1_000


@dataclass(frozen=True, slots=True)
class SchemaTag:
    """The id or the GUID of a schema, and for Protobuf the path of the message."""

    id: int | None = None
    guid: str | None = None
    indexes: tuple[int, ...] = ()


def header_name(*, is_key: bool) -> str:
    return "__key_schema_id" if is_key else "__value_schema_id"


def tagged_value(schema_id: int, payload: bytes, indexes: Sequence[int] | None = None) -> bytes:
    """The prefix and the payload; `indexes` are for Protobuf alone."""
    path = b"" if indexes is None else packed_indexes(indexes)
    return _ID.pack(_ID_MAGIC, schema_id) + path + payload


def tagged_header(guid: str, indexes: Sequence[int] | None = None) -> bytes:
    path = b"" if indexes is None else packed_indexes(indexes)
    return bytes([_GUID_MAGIC]) + uuid.UUID(guid).bytes + path


def read_tag(
    data: memoryview, headers: Sequence[Header] | None, *, is_key: bool, has_indexes: bool
) -> tuple[SchemaTag, memoryview]:
    """The schema of a record and its payload. Raises ValueError with the reason."""
    name = header_name(is_key=is_key)
    for header, value in headers or ():
        if header == name and value:
            tag, _ = _tag(memoryview(value), has_indexes)
            return tag, data
    return _tag(data, has_indexes)


def packed_indexes(indexes: Sequence[int]) -> bytes:
    """The number of indexes and the indexes; the usual path, the first message of the file, is one zero byte."""
    if list(indexes) == [0]:
        return b"\0"
    return b"".join(_varint(number) for number in (len(indexes), *indexes))


def _tag(data: memoryview, has_indexes: bool) -> tuple[SchemaTag, memoryview]:
    if len(data) >= _ID.size and data[0] == _ID_MAGIC:
        schema_id, position, guid = _ID.unpack_from(data)[1], _ID.size, None
    elif len(data) >= 17 and data[0] == _GUID_MAGIC:
        schema_id, position, guid = None, 17, str(uuid.UUID(bytes=bytes(data[1:17])))
    else:
        raise ValueError("it has no schema id: it does not begin with a zero byte and four bytes of an id")
    indexes: tuple[int, ...] = ()
    if has_indexes:
        indexes, position = _read_indexes(data, position)
    return SchemaTag(schema_id, guid, indexes), data[position:]


def _read_indexes(data: memoryview, position: int) -> tuple[tuple[int, ...], int]:
    count, position = _read_varint(data, position)
    if count == 0:
        return (0,), position
    if not 0 < count <= _INDEXES_MAX:
        raise ValueError(f"the path of its message has {count} steps")
    indexes = []
    for _ in range(count):
        number, position = _read_varint(data, position)
        indexes.append(number)
    return tuple(indexes), position


def _varint(number: int) -> bytes:
    value = number << 1 if number >= 0 else ((-number) << 1) - 1
    parts = bytearray()
    while value > 0x7F:
        parts.append(value & 0x7F | 0x80)
        value >>= 7
    parts.append(value)
    return bytes(parts)


def _read_varint(data: memoryview, position: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 35, 7):
        if position >= len(data):
            break
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), position
    raise ValueError("the path of its message is cut off")
