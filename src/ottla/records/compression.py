"""The four codecs of record batches, in the framings that Java and all other clients use.

gzip and zstd are standard streams. snappy is written in the framing of the xerial library (a 16-byte header, then
blocks with 4-byte lengths); input without this header is read as one raw snappy block, which some clients send. lz4 is
the LZ4 frame format with independent blocks, because Java's decoder does not support linked blocks.

A few kilobytes can decompress to gigabytes, so every decompression has a `limit`. The output size is not known
beforehand, but the block lengths in the frame give an upper bound cheaply (at most 128 KiB for a zstd block, at most
the size in the frame header for an lz4 block). The output buffer has the size of this bound or of the limit, whichever
is smaller; decompression fails when the buffer is full.
"""

from __future__ import annotations

import sys
import zlib
from collections.abc import Callable
from enum import IntEnum
from mmap import mmap
from types import ModuleType

__all__ = ["Codec", "DecompressionFailed", "compress", "decompress", "decompressed_size_bound"]

Buffer = bytes | bytearray | memoryview


class Codec(IntEnum):
    """The codec number in the low three bits of a batch's attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


class DecompressionFailed(ValueError):
    """The compressed bytes are damaged, or their decompressed size exceeds the limit."""


LZ4_LEVEL_DEFAULT = 9
"""Kafka's default of `compression.lz4.level`; it selects the fast compressor, every other level the slow one."""

# Codecs work without the interpreter's lock, but filling or copying a buffer holds it, 100 ms and more for 128 MiB. So
# buffers beyond this size are mapped, which fills them when they are written to, and are written to in portions.
_PORTION_BYTES = 1024 * 1024

# zlib copies the input after the end of a member, so a member gets little of it at a time.
_GZIP_INPUT_BYTES = 16 * 1024

_XERIAL_MAGIC = b"\x82SNAPPY\x00"
_XERIAL_HEADER = _XERIAL_MAGIC + b"\x00\x00\x00\x01\x00\x00\x00\x01"
_XERIAL_BLOCK_SIZE = 32 * 1024
_LZ4_MAGIC = b"\x04\x22\x4d\x18"
_ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
_ZSTD_BLOCK_SIZE_MAX = 128 * 1024
# The largest compression ratios that the stream formats allow.
_GZIP_RATIO_MAX = 1032
_SNAPPY_RATIO_MAX = 64
_LZ4_RATIO_MAX = 255
# The blocks and frames of a stream that are read for a bound of its size: 6 MiB of lz4, 12 MiB of zstd. The bound is
# computed on the loop's thread, and a stream of 1 MiB can have a hundred thousand frames.
_BOUND_STEPS_MAX = 100
_ANY_SIZE = sys.maxsize
_LZ4_BLOCK_SIZES = {4: 64 * 1024, 5: 256 * 1024, 6: 1024 * 1024, 7: 4 * 1024 * 1024}


def compress(codec: Codec, data: Buffer, level: int | None = None) -> bytes:
    """Compresses `data` into one stream; `level` is on Kafka's scale for the codec."""
    if codec == Codec.NONE:
        return bytes(data)
    if codec == Codec.GZIP:
        # Kafka's -1 is zlib's -1: the default level.
        compressor = zlib.compressobj(-1 if level is None else level, wbits=31)
        return compressor.compress(data) + compressor.flush()
    if codec == Codec.SNAPPY:
        return _compress_snappy(data)
    cramjam = _cramjam()
    if codec == Codec.LZ4:
        frame = cramjam.lz4.Compressor(level=_lz4_level(level), content_checksum=False, block_linked=False)
        view = memoryview(data)
        for start in range(0, len(view), _PORTION_BYTES):
            frame.compress(bytes(view[start : start + _PORTION_BYTES]))
        return bytes(frame.finish())
    return bytes(cramjam.zstd.compress(data, level=3 if level is None else level))


def decompress(codec: Codec, data: Buffer, *, limit: int, lz4_header_checksum_broken: bool = False) -> memoryview:
    """Decompresses up to `limit` bytes. Raises DecompressionFailed for damaged input and for more bytes than that.

    `lz4_header_checksum_broken` is for messages of magic 0, whose writers computed the checksum of the frame header
    over the wrong bytes: the checksum is corrected before the frame is decompressed.
    """
    if codec == Codec.NONE:
        if len(data) > limit:
            raise DecompressionFailed(f"{len(data)} bytes exceed the limit of {limit}")
        return memoryview(data)
    if codec == Codec.GZIP:
        return _decompress_gzip(data, limit)
    if codec == Codec.SNAPPY:
        return memoryview(_decompress_snappy(data, limit))
    if codec == Codec.LZ4:
        if lz4_header_checksum_broken:
            data = _with_lz4_header_checksum(data)
        return _decompress_frames(_cramjam().lz4, data, _lz4_bound(data), limit)
    return _decompress_frames(_cramjam().zstd, data, _zstd_bound(data), limit)


def decompressed_size_bound(codec: Codec, data: Buffer) -> int:
    """An upper bound of the decompressed size, computed without decompressing; 0 for input that is visibly damaged.

    It takes little time: a stream with very many blocks or frames is not read to its end, and may have any size.
    """
    try:
        if codec == Codec.ZSTD:
            return _zstd_bound(data, steps_max=_BOUND_STEPS_MAX)
        if codec == Codec.LZ4:
            return min(_lz4_bound(data, steps_max=_BOUND_STEPS_MAX), _LZ4_RATIO_MAX * len(data))
    except DecompressionFailed:
        return 0
    ratio = {Codec.NONE: 1, Codec.GZIP: _GZIP_RATIO_MAX, Codec.SNAPPY: _SNAPPY_RATIO_MAX}[codec]
    return ratio * len(data)


def _cramjam() -> ModuleType:
    # Imported on first use: most nodes never decompress a batch.
    import cramjam

    module: ModuleType = cramjam
    return module


def _lz4_level(level: int | None) -> int:
    if level is None or level == LZ4_LEVEL_DEFAULT:
        return 0
    # Kafka's levels go up to 17, as in lz4-java, the library's up to 12. Below 3 the library has its fast compressor.
    return max(3, min(12, level))


def _compress_snappy(data: Buffer) -> bytes:
    compress_raw = _cramjam().snappy.compress_raw
    view = memoryview(data)
    parts = [_XERIAL_HEADER]
    for start in range(0, len(view), _XERIAL_BLOCK_SIZE):
        block = bytes(compress_raw(view[start : start + _XERIAL_BLOCK_SIZE]))
        parts.append(len(block).to_bytes(4, "big"))
        parts.append(block)
    return b"".join(parts)


def _decompress_gzip(data: Buffer, limit: int) -> memoryview:
    """A stream may have several members. zlib can stop at a limit, so the first portion needs no bound."""
    view = memoryview(data)
    output: memoryview | None = None
    first = b""
    size = 0
    position = 0
    while position < len(view):
        member = zlib.decompressobj(wbits=31)
        while not member.eof:
            source: Buffer = member.unconsumed_tail
            if not source:
                source = view[position : position + _GZIP_INPUT_BYTES]
                position += len(source)
            try:
                portion = member.decompress(source, min(limit - size + 1, _PORTION_BYTES))
            except zlib.error as error:
                raise DecompressionFailed(f"Damaged gzip stream: {error}") from None
            if not portion and not source:
                raise DecompressionFailed("A gzip stream is incomplete")
            if size + len(portion) > limit:
                raise DecompressionFailed(f"The decompressed size of a gzip stream exceeds the limit of {limit} bytes")
            if not size:
                first = portion
            elif portion:
                if output is None:
                    output = _output_buffer(min(limit, _GZIP_RATIO_MAX * len(view)))
                    output[:size] = first
                output[size : size + len(portion)] = portion
            size += len(portion)
        position -= len(member.unused_data)
    return memoryview(first) if output is None else output[:size]


def _decompress_snappy(data: Buffer, limit: int) -> bytes:
    view = memoryview(data)
    if view[:8] != _XERIAL_MAGIC:
        return _decompress_snappy_block(view, limit)
    parts = []
    remaining = limit
    position = len(_XERIAL_HEADER)
    while position < len(view):
        if view[position : position + 8] == _XERIAL_MAGIC:
            # Streams may be concatenated, each with its own header.
            position += len(_XERIAL_HEADER)
            continue
        if len(view) - position < 4:
            break
        length = int.from_bytes(view[position : position + 4], "big", signed=True)
        position += 4
        if length < 0 or length > len(view) - position:
            raise DecompressionFailed(
                f"The length {length} of a snappy block is invalid: {len(view) - position} bytes are left"
            )
        block = _decompress_snappy_block(view[position : position + length], remaining)
        remaining -= len(block)
        parts.append(block)
        position += length
    if position != len(view):
        raise DecompressionFailed("A snappy stream ends inside a header or a block's length")
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _decompress_snappy_block(block: memoryview, limit: int) -> bytes:
    snappy = _cramjam().snappy
    try:
        length = snappy.decompress_raw_len(block)
        if length > limit:
            raise DecompressionFailed(f"The decompressed size of a snappy block exceeds the limit of {limit} bytes")
        return bytes(snappy.decompress_raw(block))
    except _cramjam().DecompressionError as error:
        raise DecompressionFailed(f"Damaged snappy block: {error}") from None


def _decompress_frames(module: ModuleType, data: Buffer, bound: int, limit: int) -> memoryview:
    output = _output_buffer(min(bound, limit))
    decompress_into: Callable[[Buffer, memoryview], int] = module.decompress_into
    try:
        length = decompress_into(data, output)
    except _cramjam().DecompressionError as error:
        reason = f"more than {limit} bytes, or damaged" if bound > limit else "damaged"
        raise DecompressionFailed(f"{module.__name__.rpartition('.')[2]} stream is {reason}: {error}") from None
    return output[:length]


def _output_buffer(size: int) -> memoryview:
    return memoryview(mmap(-1, size) if size > _PORTION_BYTES else bytearray(size))


def _zstd_bound(data: Buffer, *, steps_max: int = sys.maxsize) -> int:
    """An upper bound of a zstd stream's decompressed size: 128 KiB per block. Damage is left to the codec."""
    view = memoryview(data)
    bound = 0
    position = 0
    steps = 0
    while position + 5 <= len(view):
        steps += 1
        if steps > steps_max:
            return _ANY_SIZE
        magic = bytes(view[position : position + 4])
        if magic != _ZSTD_MAGIC:
            # A skippable frame has no data: a magic of 0x184D2A50..5F and a length.
            if magic[0] & 0xF0 != 0x50 or magic[1:] != b"\x2a\x4d\x18":
                raise DecompressionFailed("Not a zstd frame")
            position += 8 + int.from_bytes(view[position + 4 : position + 8], "little")
            continue
        descriptor = view[position + 4]
        single_segment = descriptor & 0x20
        content_size_length = (1 if single_segment else 0, 2, 4, 8)[descriptor >> 6]
        position += 5 + (0 if single_segment else 1) + (0, 1, 2, 4)[descriptor & 3] + content_size_length
        last = False
        while not last and position + 3 <= len(view):
            steps += 1
            if steps > steps_max:
                return _ANY_SIZE
            block = int.from_bytes(view[position : position + 3], "little")
            last = bool(block & 1)
            # A run-length block has one byte, regardless of its size field.
            position += 3 + (1 if (block >> 1) & 3 == 1 else block >> 3)
            bound += _ZSTD_BLOCK_SIZE_MAX
        if descriptor & 0x04:
            position += 4
    return bound


def _lz4_bound(data: Buffer, *, steps_max: int = sys.maxsize) -> int:
    """An upper bound of an lz4 stream's decompressed size: the maximum block size per block."""
    view = memoryview(data)
    bound = 0
    position = 0
    steps = 0
    while position + 7 <= len(view):
        steps += 1
        if steps > steps_max:
            return _ANY_SIZE
        magic = bytes(view[position : position + 4])
        if magic != _LZ4_MAGIC:
            if magic[0] & 0xF0 != 0x50 or magic[1:] != b"\x2a\x4d\x18":
                raise DecompressionFailed("Not an lz4 frame")
            position += 8 + int.from_bytes(view[position + 4 : position + 8], "little")
            continue
        flags = view[position + 4]
        block_size = _LZ4_BLOCK_SIZES.get((view[position + 5] >> 4) & 7)
        if block_size is None:
            raise DecompressionFailed("Unknown block size in an lz4 frame")
        position += _lz4_header_length(flags)
        while position + 4 <= len(view):
            steps += 1
            if steps > steps_max:
                return _ANY_SIZE
            length = int.from_bytes(view[position : position + 4], "little") & 0x7FFFFFFF
            position += 4
            if length == 0:
                break
            position += length + (4 if flags & 0x10 else 0)
            bound += block_size
        if flags & 0x04:
            position += 4
    return bound


def _lz4_header_length(flags: int) -> int:
    """The size of magic, flags, block descriptor, optional content size and dictionary id, and header checksum."""
    return 7 + (8 if flags & 0x08 else 0) + (4 if flags & 0x01 else 0)


def _with_lz4_header_checksum(data: Buffer) -> Buffer:
    """The frame with the correct header checksum, which covers the descriptor without the magic bytes."""
    if len(data) < 7 or bytes(data[:4]) != _LZ4_MAGIC:
        return data
    end = _lz4_header_length(data[4]) - 1
    if len(data) <= end:
        return data
    fixed = bytearray(data)
    fixed[end] = (_xxhash32(bytes(data[4:end])) >> 8) & 0xFF
    return fixed


def _xxhash32(data: bytes) -> int:
    """xxHash32 with seed 0 of fewer than 16 bytes; a frame header has no more."""
    assert len(data) < 16, "only frame headers are hashed here"
    mask = 0xFFFFFFFF
    value = (0x165667B1 + len(data)) & mask
    position = 0
    while position + 4 <= len(data):
        value = (value + int.from_bytes(data[position : position + 4], "little") * 0xC2B2AE3D) & mask
        value = (((value << 17) | (value >> 15)) & mask) * 0x27D4EB2F & mask
        position += 4
    while position < len(data):
        value = (value + data[position] * 0x165667B1) & mask
        value = (((value << 11) | (value >> 21)) & mask) * 0x9E3779B1 & mask
        position += 1
    value ^= value >> 15
    value = value * 0x85EBCA77 & mask
    value ^= value >> 13
    value = value * 0xC2B2AE3D & mask
    return value ^ (value >> 16)
