"""The values of the metadata log: frame version, record type, record version, then the record's fields (KIP-631)."""

from __future__ import annotations

from ottla.wire.codec import MalformedMessage, decode, encode
from ottla.wire.message import Message
from ottla.wire.messages.metadata_records import RECORD_CLASSES
from ottla.wire.primitives import read_unsigned_varint, unsigned_varint_bytes

__all__ = ["decode_record", "encode_record"]

FRAME_VERSION = 1


def encode_record(record: Message, version: int | None = None) -> bytes:
    """Encodes a record as the value of a log record, by default in the record's newest version."""
    assert RECORD_CLASSES.get(record.API_KEY) is type(record), "not a record of the metadata log"
    if version is None:
        version = record.VERSIONS[1]
    header = bytes((FRAME_VERSION,)) + unsigned_varint_bytes(record.API_KEY) + unsigned_varint_bytes(version)
    return header + encode(record, version)


def decode_record(value: memoryview) -> Message:
    """Decodes the value of a log record. Raises MalformedMessage unless the value is exactly one metadata record."""
    try:
        frame_version, position = read_unsigned_varint(value, 0)
        kind, position = read_unsigned_varint(value, position)
        version, position = read_unsigned_varint(value, position)
    except IndexError as error:
        raise MalformedMessage("the metadata record ends inside its header") from error
    if frame_version != FRAME_VERSION:
        raise MalformedMessage(f"the metadata record has frame version {frame_version}; only {FRAME_VERSION} is known")
    cls = RECORD_CLASSES.get(kind)
    if cls is None:
        raise MalformedMessage(f"unknown metadata record type {kind}")
    if not cls.VERSIONS[0] <= version <= cls.VERSIONS[1]:
        raise MalformedMessage(f"unknown version {version} of {cls.__name__}")
    record, end = decode(cls, value, version, position)
    if end != len(value):
        raise MalformedMessage(f"{len(value) - end} unexpected bytes after {cls.__name__}")
    return record
