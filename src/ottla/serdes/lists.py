"""Lists in the format of Kafka's `ListSerializer`.

The first byte is the encoding of the entries. Entries of a fixed size (0) have no lengths, and a list holds the indexes
of null entries. Other entries (1) have their length before them, and -1 is the length of null.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from ottla.serdes.plain import FixedDeserializer, FixedSerializer
from ottla.serdes.protocol import Deserializer, Header, Serde, Serializer

__all__ = ["ListDeserializer", "ListSerializer", "list_serde"]

T = TypeVar("T")

_CONSTANT_SIZE, _VARIABLE_SIZE = 0, 1
_INT = struct.Struct(">i")
# Kafka stores entries of these types without their lengths.
_WITHOUT_LENGTHS = ("short", "int", "float", "long", "double", "uuid")


class ListSerializer(Serializer[list[T | None]]):
    def __init__(self, inner: Serializer[T]) -> None:
        self._inner = inner
        self._is_fixed = isinstance(inner, FixedSerializer) and inner.name in _WITHOUT_LENGTHS

    def configure(self, config: Mapping[str, Any], *, is_key: bool) -> None:
        super().configure(config, is_key=is_key)
        self._inner.configure(config, is_key=is_key)

    def close(self) -> None:
        self._inner.close()

    def serialize(self, topic: str, value: list[T | None] | None, headers: list[Header] | None = None) -> bytes | None:
        if value is None:
            return None
        entries = [self._inner.serialize(topic, entry, headers) for entry in value]
        if self._is_fixed:
            empty = [index for index, entry in enumerate(entries) if entry is None]
            parts = [bytes([_CONSTANT_SIZE]), struct.pack(f">{len(empty) + 2}i", len(empty), *empty, len(entries))]
            parts += [entry for entry in entries if entry is not None]
            return b"".join(parts)
        parts = [bytes([_VARIABLE_SIZE]), _INT.pack(len(entries))]
        for entry in entries:
            parts += [_INT.pack(-1)] if entry is None else [_INT.pack(len(entry)), entry]
        return b"".join(parts)


class ListDeserializer(Deserializer[list[T | None]]):
    def __init__(self, inner: Deserializer[T]) -> None:
        self._inner = inner

    def configure(self, config: Mapping[str, Any], *, is_key: bool) -> None:
        super().configure(config, is_key=is_key)
        self._inner.configure(config, is_key=is_key)

    def close(self) -> None:
        self._inner.close()

    def deserialize(
        self, topic: str, data: bytes | memoryview | None, headers: Sequence[Header] | None = None
    ) -> list[T | None] | None:
        if data is None:
            return None
        try:
            entries = self._entries(bytes(data))
        except (struct.error, IndexError, ValueError) as error:
            raise self._error(topic, f"the bytes are not a list: {error}.") from error
        return [None if entry is None else self._inner.deserialize(topic, entry, headers) for entry in entries]

    def _entries(self, data: bytes) -> list[bytes | None]:
        strategy, position = data[0], 1
        empty: frozenset[int] = frozenset()
        if strategy == _CONSTANT_SIZE:
            if not isinstance(self._inner, FixedDeserializer):
                raise ValueError("its entries have no lengths, but their type has no fixed size")
            (count,) = _INT.unpack_from(data, position)
            empty = frozenset(struct.unpack_from(f">{count}i", data, position + 4))
            position += 4 + 4 * count
        elif strategy != _VARIABLE_SIZE:
            raise ValueError(f"the first byte is {strategy}")
        (size,) = _INT.unpack_from(data, position)
        position += 4
        # Every entry takes at least a byte, for its content, length or null index, so a larger number is damaged.
        if not 0 <= size <= len(data):
            raise ValueError(f"it says {size} entries in {len(data)} bytes")
        entries: list[bytes | None] = []
        for index in range(size):
            length = self._inner.size if isinstance(self._inner, FixedDeserializer) else 0
            if strategy == _VARIABLE_SIZE:
                (length,) = _INT.unpack_from(data, position)
                position += 4
            if index in empty or length < 0:
                entries.append(None)
                continue
            entries.append(data[position : position + length])
            position += length
        if position != len(data):
            raise ValueError(f"its entries end at byte {position} of {len(data)}")
        return entries


def list_serde(inner: Serde[T]) -> Serde[list[T | None]]:
    return Serde(ListSerializer(inner.serializer), ListDeserializer(inner.deserializer))
