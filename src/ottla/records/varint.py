"""Variable-length integers of the record format: zigzag, seven bits to a byte, least significant first."""

from __future__ import annotations

from ottla.records.errors import CorruptRecords

__all__ = ["append_varint", "read_varint", "varint_bytes", "varint_size"]

Buffer = bytes | bytearray | memoryview

VARINT_BYTES_MAX = 5
VARLONG_BYTES_MAX = 10


def append_varint(target: bytearray, value: int) -> None:
    """Appends a varint or varlong; both have the same encoding."""
    zigzag = value << 1 if value >= 0 else (~value << 1) | 1
    while zigzag > 0x7F:
        target.append((zigzag & 0x7F) | 0x80)
        zigzag >>= 7
    target.append(zigzag)


def varint_bytes(value: int) -> bytes:
    """Encodes a varint or varlong. The encodings of small numbers, by far the most frequent, are precomputed."""
    if 0 <= value < _SMALL_END:
        return _SMALL[value]
    if 0 <= value < _TWO_BYTES_END:
        return bytes(((value << 1 & 0x7F) | 0x80, value >> 6))
    return _encoded(value)


def read_varint(buffer: Buffer, position: int, *, bytes_max: int = VARINT_BYTES_MAX) -> tuple[int, int]:
    """Returns the value and the position after it. Raises CorruptRecords at the end of the bytes or of `bytes_max`."""
    try:
        byte = buffer[position]
        position += 1
        if byte < 0x80:
            return (byte >> 1) ^ -(byte & 1), position
        value = byte & 0x7F
        shift = 7
        while True:
            byte = buffer[position]
            position += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return (value >> 1) ^ -(value & 1), position
            shift += 7
            if shift >= 7 * bytes_max:
                raise CorruptRecords(f"A variable-length number has more than {bytes_max} bytes")
    except IndexError:
        raise CorruptRecords("The bytes end inside a variable-length number") from None


def varint_size(value: int) -> int:
    """The number of bytes that `append_varint` appends."""
    zigzag = value << 1 if value >= 0 else (~value << 1) | 1
    return 1 if zigzag == 0 else (zigzag.bit_length() + 6) // 7


def _encoded(value: int) -> bytes:
    target = bytearray()
    append_varint(target, value)
    return bytes(target)


_SMALL_END = 256
_SMALL = [_encoded(value) for value in range(_SMALL_END)]
_TWO_BYTES_END = 1 << 13
