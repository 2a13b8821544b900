"""Values of the metadata log: a frame version, the record's type and its version, then its fields (KIP-631)."""

from __future__ import annotations

from ottla.wire.codec import MalformedMessage, decode, encode
from ottla.wire.message import Message
from ottla.wire.messages.metadata_records import RECORD_CLASSES
from ottla.wire.primitives import read_unsigned_varint, unsigned_varint_bytes

__all__ = ["decode_record", "encode_record"]

FRAME_VERSION = 1


def encode_record(record: Message, version: int | None = None) -> bytes:
    """A record as the value of a log record, in its newest version unless told otherwise."""
    assert RECORD_CLASSES.get(record.API_KEY) is type(record), "not a record of the metadata log"
    if version is None:
        version = record.VERSIONS[1]
    header = bytes((FRAME_VERSION,)) + unsigned_varint_bytes(record.API_KEY) + unsigned_varint_bytes(version)
    return header + encode(record, version)


def decode_record(value: memoryview) -> Message:
    """The record in a log record's value; raises MalformedMessage for anything that is not exactly one."""
    try:
        frame_version, position = read_unsigned_varint(value, 0)
        kind, position = read_unsigned_varint(value, position)
        version, position = read_unsigned_varint(value, position)
    except IndexError as error:
        raise MalformedMessage("a metadata record ends within its header") from error
    if frame_version != FRAME_VERSION:
        raise MalformedMessage(f"a metadata record has frame version {frame_version} instead of {FRAME_VERSION}")
    cls = RECORD_CLASSES.get(kind)
    if cls is None:
        raise MalformedMessage(f"there is no metadata record of type {kind}")
    if not cls.VERSIONS[0] <= version <= cls.VERSIONS[1]:
        raise MalformedMessage(f"{cls.__name__} has no version {version}")
    record, end = decode(cls, value, version, position)
    if end != len(value):
        raise MalformedMessage(f"{cls.__name__} is followed by {len(value) - end} bytes that do not belong to it")
    return record
