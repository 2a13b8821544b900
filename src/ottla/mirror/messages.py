"""The records of MirrorMaker 2's internal topics: heartbeats, checkpoints and offset syncs.

The records are byte for byte those of Kafka's classes, so that Kafka's clients (RemoteClusterUtils) and Ottla read each
other's records.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from ottla.model.ids import TopicPartition

__all__ = ["Checkpoint", "Heartbeat", "MalformedMessage", "OffsetSync"]

_VERSION = 0
_SHORT = struct.Struct(">h")
_INT = struct.Struct(">i")
_LONG = struct.Struct(">q")
_TWO_LONGS = struct.Struct(">qq")


class MalformedMessage(ValueError):
    """The bytes are not a record of this kind."""


class _Reader:
    def __init__(self, content: bytes) -> None:
        self._content = content
        self._position = 0

    def number(self, kind: struct.Struct) -> int:
        try:
            (value,) = kind.unpack_from(self._content, self._position)
        except struct.error:
            raise MalformedMessage("The record ends too early.") from None
        self._position += kind.size
        return int(value)

    def text(self) -> str:
        length = self.number(_SHORT)
        end = self._position + length
        if length < 0 or end > len(self._content):
            raise MalformedMessage("The record ends within a text.")
        text = self._content[self._position : end]
        self._position = end
        try:
            return text.decode()
        except UnicodeDecodeError:
            raise MalformedMessage("A text of the record is not UTF-8.") from None

    def version(self) -> None:
        version = self.number(_SHORT)
        if version != _VERSION:
            raise MalformedMessage(f"The record has the unknown version {version}.")


def _text(value: str) -> bytes:
    content = value.encode()
    return _SHORT.pack(len(content)) + content


class Heartbeat(NamedTuple):
    """Written every second, as a proof that the flow between two clusters works."""

    source: str
    target: str
    timestamp_ms: int

    def key(self) -> bytes:
        return _text(self.source) + _text(self.target)

    def value(self) -> bytes:
        return _SHORT.pack(_VERSION) + _LONG.pack(self.timestamp_ms)

    @classmethod
    def decode(cls, key: bytes, value: bytes) -> Heartbeat:
        names, content = _Reader(key), _Reader(value)
        content.version()
        return cls(names.text(), names.text(), content.number(_LONG))


class Checkpoint(NamedTuple):
    """A committed offset of a group, and its translation; `partition` has the name of the topic at the target."""

    group_id: str
    partition: TopicPartition
    source_offset: int
    target_offset: int
    metadata: str

    def key(self) -> bytes:
        return _text(self.group_id) + _text(self.partition.topic) + _INT.pack(self.partition.partition)

    def value(self) -> bytes:
        offsets = _TWO_LONGS.pack(self.source_offset, self.target_offset)
        return _SHORT.pack(_VERSION) + offsets + _text(self.metadata)

    @classmethod
    def decode(cls, key: bytes, value: bytes) -> Checkpoint:
        names, content = _Reader(key), _Reader(value)
        content.version()
        group_id, topic, number = names.text(), names.text(), names.number(_INT)
        source, target = content.number(_LONG), content.number(_LONG)
        return cls(group_id, TopicPartition(topic, number), source, target, content.text())


class OffsetSync(NamedTuple):
    """The offsets of a record on both sides; `partition` has the name of the topic at the source."""

    partition: TopicPartition
    source_offset: int
    target_offset: int

    def key(self) -> bytes:
        return _text(self.partition.topic) + _INT.pack(self.partition.partition)

    def value(self) -> bytes:
        return _TWO_LONGS.pack(self.source_offset, self.target_offset)

    @classmethod
    def decode(cls, key: bytes, value: bytes) -> OffsetSync:
        names, content = _Reader(key), _Reader(value)
        partition = TopicPartition(names.text(), names.number(_INT))
        return cls(partition, content.number(_LONG), content.number(_LONG))
