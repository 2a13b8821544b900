"""Keys and values of a state topic as bytes: two bytes of version, then the message.

The version of a key is the type of the record. The version of a value says which fields follow.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from struct import Struct
from struct import error as struct_error

from ottla.coordinator.runtime.state import CoordinatorRecord
from ottla.records.record import record_content
from ottla.wire.codec import MalformedMessage, decode, encoder
from ottla.wire.message import Message

__all__ = ["RecordFormat", "UnknownRecord"]

_VERSION = Struct(">h")


class UnknownRecord(Exception):
    """A record of an unknown type or version, written by newer software."""


class RecordFormat:
    """The record types of one state topic."""

    __slots__ = ("_key_classes", "_value_classes", "_value_version")

    def __init__(
        self,
        key_classes: Mapping[int, type[Message]],
        value_classes: Mapping[int, type[Message]],
        value_version: Callable[[Message], int],
    ) -> None:
        self._key_classes = key_classes
        self._value_classes = value_classes
        # The version that a value is written in: often not the highest, so that older software can read it.
        self._value_version = value_version

    def encode_key(self, key: Message) -> bytes:
        # A key type has exactly one version: compaction would take another version for another key.
        pieces = [_VERSION.pack(key.API_KEY)]
        encoder(type(key), 0)(key, pieces, [])
        return b"".join(pieces)

    def encode_value(self, value: Message) -> bytes:
        version = self._value_version(value)
        pieces = [_VERSION.pack(version)]
        # None of these messages has a records field, so all bytes are in `pieces`.
        encoder(type(value), version)(value, pieces, [])
        return b"".join(pieces)

    def encode_content(self, record: CoordinatorRecord) -> bytes:
        """Key and value as bytes of a record, at any place of a batch."""
        key, value = record
        return record_content(self.encode_key(key), None if value is None else self.encode_value(value))

    def decode(self, key: memoryview, value: memoryview | None) -> tuple[Message, Message | None]:
        """Raises UnknownRecord for records of newer brokers, MalformedMessage for bytes that no broker writes."""
        try:
            (key_type,) = _VERSION.unpack_from(key)
        except struct_error as error:
            raise MalformedMessage(f"a key of {len(key)} bytes") from error
        key_class = self._key_classes.get(key_type)
        if key_class is None:
            raise UnknownRecord(f"record type {key_type}")
        key_message, _ = decode(key_class, key, 0, _VERSION.size)
        if value is None:
            return key_message, None
        try:
            (version,) = _VERSION.unpack_from(value)
        except struct_error as error:
            raise MalformedMessage(f"a value of {len(value)} bytes") from error
        value_class = self._value_classes[key_type]
        first, last = value_class.VERSIONS
        if not first <= version <= last:
            raise UnknownRecord(f"version {version} of {value_class.__name__}")
        value_message, _ = decode(value_class, value, version, _VERSION.size)
        return key_message, value_message
