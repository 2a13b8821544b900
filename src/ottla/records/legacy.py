"""Messages of magic 0 and 1, the formats before 2017, and their conversion to batches of magic 2.

    offset 8 | size 4 | CRC32 4 | magic 1 | attributes 1 | (magic 1: timestamp 8)
    | key size 4, key | value size 4, value

A compressed message is a wrapper: its value is a compressed message set. In magic 0 the inner messages have absolute
offsets. In magic 1 (KIP-31) their offsets are relative to the first inner message, and the wrapper has the absolute
offset of the last. With LogAppendTime the wrapper's timestamp applies to all inner messages (KIP-32).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from struct import Struct
from typing import NamedTuple
from zlib import crc32

from ottla.records.build import build_batch
from ottla.records.compression import Codec, DecompressionFailed, compress, decompress
from ottla.records.errors import CorruptRecords
from ottla.records.header import (
    BATCH_LENGTH_POSITION,
    CODEC_MASK,
    LEGACY_OVERHEAD,
    LENGTH_OVERHEAD,
    NO_TIMESTAMP,
    TIMESTAMP_TYPE_BIT,
)
from ottla.records.record import Record

__all__ = ["TooManyMessages", "build_message_set", "convert_to_batch", "iterate_messages"]

Buffer = bytes | bytearray | memoryview

_HEAD = Struct(">qiIbb")
_HEAD_SIZE = _HEAD.size
_CRC_END = 16
"""The checksum covers the bytes after it, beginning with the magic byte."""


class TooManyMessages(CorruptRecords):
    """A compressed message contains more messages than its reader accepts."""


class _Message(NamedTuple):
    offset: int
    magic: int
    attributes: int
    timestamp: int
    key: bytes | None
    value: memoryview | None


def iterate_messages(messages: Buffer, *, limit: int, count_max: int | None = None) -> Iterator[Record]:
    """The records of a message set with absolute offsets. Wrappers are decompressed and checksums verified.

    A wrapper may decompress to `limit` bytes and contain `count_max` messages. An incomplete message at the end is
    skipped, as always in this format.
    """
    for message in _read_messages(memoryview(messages)):
        codec_number = message.attributes & CODEC_MASK
        if codec_number == 0:
            yield _as_record(message)
        else:
            yield from _open_wrapper(message, codec_number, limit, count_max)


def build_message_set(
    records: Sequence[Record],
    *,
    magic: int,
    codec: Codec = Codec.NONE,
    append_time_ms: int | None = None,
) -> bytearray:
    """Builds a message set of an old format, for tests and tools; the broker never writes one."""
    assert magic in (0, 1), "message sets have magic 0 or 1"
    assert codec != Codec.ZSTD, "message sets do not support zstd"
    attributes = 0 if append_time_ms is None else TIMESTAMP_TYPE_BIT
    target = bytearray()
    first = records[0].offset if records else 0
    for record in records:
        is_relative = codec != Codec.NONE and magic == 1
        offset = record.offset - first if is_relative else record.offset
        timestamp = record.timestamp if append_time_ms is None else append_time_ms
        key = None if record.key is None else bytes(record.key)
        value = None if record.value is None else bytes(record.value)
        _append_message(
            target, offset=offset, magic=magic, attributes=attributes, timestamp=timestamp, key=key, value=value
        )
    if codec == Codec.NONE:
        return target
    timestamp = max(record.timestamp for record in records) if append_time_ms is None else append_time_ms
    wrapper = bytearray()
    _append_message(
        wrapper,
        offset=records[-1].offset,
        magic=magic,
        attributes=attributes | codec,
        timestamp=timestamp,
        key=None,
        value=compress(codec, target),
    )
    return wrapper


def convert_to_batch(messages: Buffer, *, limit: int, codec: Codec = Codec.NONE, leader_epoch: int = -1) -> bytearray:
    """Converts a message set into one batch of magic 2 whose base offset is the first record's offset."""
    records = list(iterate_messages(messages, limit=limit))
    if not records:
        raise CorruptRecords("A message set has no complete message")
    return build_batch(records, base_offset=records[0].offset, codec=codec, leader_epoch=leader_epoch)


def _read_messages(view: memoryview) -> Iterator[_Message]:
    position = 0
    while len(view) - position >= LENGTH_OVERHEAD:
        size = int.from_bytes(view[position + BATCH_LENGTH_POSITION : position + LENGTH_OVERHEAD], "big", signed=True)
        if size < LEGACY_OVERHEAD:
            raise CorruptRecords(f"A message of {size} bytes is shorter than the minimum of {LEGACY_OVERHEAD}")
        end = position + LENGTH_OVERHEAD + size
        if end > len(view):
            return
        yield _read_message(view[position:end])
        position = end


def _read_message(view: memoryview) -> _Message:
    offset, _, crc, magic, attributes = _HEAD.unpack_from(view)
    if crc32(view[_CRC_END:]) != crc:
        raise CorruptRecords(f"The checksum of the message at offset {offset} is wrong")
    if magic not in (0, 1):
        raise CorruptRecords(f"A message set has a message of magic {magic}")
    position = _HEAD_SIZE
    timestamp = NO_TIMESTAMP
    if magic == 1:
        timestamp = int.from_bytes(view[position : position + 8], "big", signed=True)
        position += 8
    key, position = _read_bytes(view, position)
    value, position = _read_bytes(view, position)
    if position != len(view):
        raise CorruptRecords(f"The message at offset {offset} has {len(view) - position} unexpected bytes at its end")
    return _Message(offset, magic, attributes, timestamp, None if key is None else bytes(key), value)


def _read_bytes(view: memoryview, position: int) -> tuple[memoryview | None, int]:
    if len(view) - position < 4:
        raise CorruptRecords("A message ends before its key or value")
    length = int.from_bytes(view[position : position + 4], "big", signed=True)
    position += 4
    if length == -1:
        return None, position
    if length < -1 or length > len(view) - position:
        raise CorruptRecords(f"The length {length} of a key or value is invalid: {len(view) - position} bytes are left")
    return view[position : position + length], position + length


def _open_wrapper(wrapper: _Message, codec_number: int, limit: int, count_max: int | None) -> Iterator[Record]:
    if codec_number > Codec.LZ4:
        raise CorruptRecords(f"Message sets do not support codec {codec_number}")
    if wrapper.value is None:
        raise CorruptRecords("A compressed message has no value")
    try:
        inner_set = decompress(
            Codec(codec_number), wrapper.value, limit=limit, lz4_header_checksum_broken=wrapper.magic == 0
        )
    except DecompressionFailed as error:
        raise CorruptRecords(f"The messages at offset {wrapper.offset} cannot be decompressed: {error}") from error
    inner = list(islice(_read_messages(inner_set), None if count_max is None else count_max + 1))
    if count_max is not None and len(inner) > count_max:
        raise TooManyMessages(f"A compressed message contains more than {count_max} messages")
    if not inner:
        raise CorruptRecords("A compressed message contains no messages")
    # Relative offsets count from the first inner message and the wrapper has the offset of the last one.
    base = wrapper.offset - inner[-1].offset if wrapper.magic == 1 else 0
    for message in inner:
        if message.magic != wrapper.magic:
            raise CorruptRecords("A compressed message contains messages of another magic")
        if message.attributes & CODEC_MASK:
            raise CorruptRecords("A compressed message contains compressed messages")
        record = _as_record(message)
        record.offset += base
        if wrapper.magic == 1 and wrapper.attributes & TIMESTAMP_TYPE_BIT:
            record.timestamp = wrapper.timestamp
        yield record


def _as_record(message: _Message) -> Record:
    value = None if message.value is None else bytes(message.value)
    return Record(key=message.key, value=value, timestamp=message.timestamp, offset=message.offset)


def _append_message(
    target: bytearray,
    *,
    offset: int,
    magic: int,
    attributes: int,
    timestamp: int,
    key: bytes | None,
    value: bytes | None,
) -> None:
    body = bytearray((magic, attributes))
    if magic == 1:
        body += timestamp.to_bytes(8, "big", signed=True)
    for content in (key, value):
        body += (-1 if content is None else len(content)).to_bytes(4, "big", signed=True)
        body += content or b""
    target += _HEAD.pack(offset, len(body) + 4, crc32(body), 0, 0)[:_CRC_END]
    target += body
