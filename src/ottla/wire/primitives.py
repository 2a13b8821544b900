"""Functions that compiled codecs call: variable-length integers, lengths, arrays of numbers, tagged fields.

A compiled decoder reads the first byte of a variable-length integer itself, because most have only one byte, and calls
this module for the rest. A reading function takes the buffer and a position and returns the value and the position
after it. A read beyond the end raises IndexError or `struct.error`, which the compiled code converts into
`MalformedMessage`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from struct import Struct
from typing import Any

__all__ = [
    "ARRAY_LENGTH_MAX",
    "ONE_BYTE",
    "TAGGED_FIELDS_MAX",
    "LongMessage",
    "MalformedMessage",
    "array_packer",
    "array_unpacker",
    "read_string_length",
    "read_tag",
    "read_tag_count",
    "read_unsigned_varint",
    "rest_of_unsigned_varint",
    "skip_tags",
    "string_length_bytes",
    "unsigned_varint_bytes",
]

# The limits of Apache Kafka since 4.4.
ARRAY_LENGTH_MAX = 1_000_000
TAGGED_FIELDS_MAX = 10_000

# Older versions have a 16-bit string length; compact lengths keep its limit (KIP-482).
STRING_LENGTH_MAX = 32767

# All one-byte variable-length integers, by value.
ONE_BYTE = tuple(bytes((value,)) for value in range(128))


class MalformedMessage(Exception):
    """The bytes are not a valid encoding of the expected message. The sender's connection is closed."""


class LongMessage(MalformedMessage):
    """The message has more elements than may be decoded in one turn of the loop: see `slicing.decode_in_slices`."""


def rest_of_unsigned_varint(buffer: memoryview, position: int, first: int) -> tuple[int, int]:
    """Reads the rest of an integer whose first byte is greater than 127; `position` is after that byte."""
    byte = buffer[position]
    value = (first & 0x7F) | (byte & 0x7F) << 7
    if byte < 128:
        return value, position + 1
    shift = 14
    while shift <= 28:
        position += 1
        byte = buffer[position]
        value |= (byte & 0x7F) << shift
        if byte < 128:
            break
        shift += 7
    # The protocol's lengths are signed 32-bit numbers, so the highest bit is never set.
    if byte >= 128 or value > 0x7FFFFFFF:
        raise MalformedMessage("a variable-length integer has more than 31 bits")
    return value, position + 1


def read_unsigned_varint(buffer: memoryview, position: int) -> tuple[int, int]:
    first = buffer[position]
    if first < 128:
        return first, position + 1
    return rest_of_unsigned_varint(buffer, position + 1, first)


def read_string_length(buffer: memoryview, position: int, first: int) -> tuple[int, int]:
    """Like `rest_of_unsigned_varint`, for the length plus one of a compact string; checks the string limit."""
    value, position = rest_of_unsigned_varint(buffer, position, first)
    if value > STRING_LENGTH_MAX + 1:
        raise MalformedMessage(f"a string of {value - 1} bytes exceeds the limit of {STRING_LENGTH_MAX}")
    return value, position


def unsigned_varint_bytes(value: int) -> bytes:
    if value < 128:
        return ONE_BYTE[value]
    if value < 1 << 14:
        return bytes((value & 0x7F | 0x80, value >> 7))
    encoded = bytearray()
    while value > 127:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def string_length_bytes(length_plus_one: int) -> bytes:
    if length_plus_one > STRING_LENGTH_MAX + 1:
        raise ValueError(f"a string of {length_plus_one - 1} bytes exceeds the protocol's limit of {STRING_LENGTH_MAX}")
    return unsigned_varint_bytes(length_plus_one)


def read_tag(buffer: memoryview, position: int, end: int) -> tuple[int, int, int]:
    """Reads the tag and size of a tagged field; returns the tag and the start and end positions of the value."""
    tag, position = read_unsigned_varint(buffer, position)
    size, position = read_unsigned_varint(buffer, position)
    if size > end - position:
        raise MalformedMessage(f"tagged field {tag} claims {size} bytes, but {end - position} are left")
    return tag, position, position + size


def read_tag_count(buffer: memoryview, position: int, first: int, end: int) -> tuple[int, int]:
    """Like `rest_of_unsigned_varint`, for the number of tagged fields; checks that they can be there."""
    count, position = rest_of_unsigned_varint(buffer, position, first)
    # A tagged field has at least two bytes: tag and size.
    if count > TAGGED_FIELDS_MAX or 2 * count > end - position:
        raise MalformedMessage(f"{count} tagged fields exceed the limit of {TAGGED_FIELDS_MAX} or the remaining bytes")
    return count, position


def skip_tags(buffer: memoryview, position: int, first: int, end: int) -> int:
    """Skips a section of unknown tagged fields; `first` is the first byte of their count."""
    count = first
    if first > 127:
        count, position = read_tag_count(buffer, position, first, end)
    for _ in range(count):
        _, _, position = read_tag(buffer, position, end)
    return position


SHORT_ARRAY_MAX = 8


def array_unpacker(code: str) -> Callable[[memoryview, int, int], list[Any]]:
    """A function that reads `count` numbers of one struct code. Its caller has checked that the buffer holds them."""
    short = [Struct(f">{count}{code}").unpack_from for count in range(SHORT_ARRAY_MAX + 1)]

    def unpack_array(buffer: memoryview, position: int, count: int) -> list[Any]:
        if count <= SHORT_ARRAY_MAX:
            return list(short[count](buffer, position))
        return list(Struct(f">{count}{code}").unpack_from(buffer, position))

    return unpack_array


def array_packer(code: str) -> Callable[[Sequence[Any]], bytes]:
    short = [Struct(f">{count}{code}").pack for count in range(SHORT_ARRAY_MAX + 1)]

    def pack_array(values: Sequence[Any]) -> bytes:
        count = len(values)
        if count <= SHORT_ARRAY_MAX:
            return short[count](*values)
        return Struct(f">{count}{code}").pack(*values)

    return pack_array
