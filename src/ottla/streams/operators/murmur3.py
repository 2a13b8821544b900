"""MurmurHash3, the 128-bit variant for x64, with the seed of Kafka Streams."""

from __future__ import annotations

import struct

__all__ = ["hash_128"]

_MASK = (1 << 64) - 1
_SEED = 104729
_C1 = 0x87C37B91114253D5
_C2 = 0x4CF5AD432745937F


def hash_128(data: bytes) -> bytes:
    """16 bytes: both halves in big-endian order, as Kafka Streams writes them into topics."""
    h1 = h2 = _SEED
    whole = len(data) & ~15
    for k1, k2 in struct.iter_unpack("<QQ", data[:whole]):
        h1 ^= _mix(k1, _C1, 31, _C2)
        h1 = (_rotate(h1, 27) + h2) * 5 + 0x52DCE729 & _MASK
        h2 ^= _mix(k2, _C2, 33, _C1)
        h2 = (_rotate(h2, 31) + h1) * 5 + 0x38495AB5 & _MASK
    tail = data[whole:]
    if len(tail) > 8:
        h2 ^= _mix(int.from_bytes(tail[8:], "little"), _C2, 33, _C1)
    if tail:
        h1 ^= _mix(int.from_bytes(tail[:8], "little"), _C1, 31, _C2)
    h1 ^= len(data)
    h2 ^= len(data)
    h1 = h1 + h2 & _MASK
    h2 = h2 + h1 & _MASK
    h1, h2 = _finish(h1), _finish(h2)
    h1 = h1 + h2 & _MASK
    h2 = h2 + h1 & _MASK
    return struct.pack(">QQ", h1, h2)


def _rotate(value: int, bits: int) -> int:
    return (value << bits | value >> (64 - bits)) & _MASK


def _mix(value: int, first: int, bits: int, second: int) -> int:
    return _rotate(value * first & _MASK, bits) * second & _MASK


def _finish(value: int) -> int:
    value ^= value >> 33
    value = value * 0xFF51AFD7ED558CCD & _MASK
    value ^= value >> 33
    value = value * 0xC4CEB9FE1A85EC53 & _MASK
    return value ^ value >> 33
