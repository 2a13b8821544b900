"""The store of left and outer joins of streams: records that have no partner yet."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any, NamedTuple

from ottla.streams.serdes import Serde
from ottla.streams.state.mapped import MappedStore

__all__ = ["OuterJoinStore", "Unjoined"]

_HEAD = struct.Struct(">qb")
_INT = struct.Struct(">i")
# A list of values of different sizes, in the format of Kafka's ListSerializer.
_VARIABLE_SIZE = b"\x01"


class Unjoined(NamedTuple):
    timestamp: int
    is_left: bool
    key: Any
    value: Any


def _encode_list(values: list[bytes]) -> bytes:
    parts = [_VARIABLE_SIZE, _INT.pack(len(values))]
    for value in values:
        parts += [_INT.pack(len(value)), value]
    return b"".join(parts)


def _decode_list(data: bytes) -> list[bytes]:
    (count,) = _INT.unpack_from(data, 1)
    values, place = [], 5
    for _ in range(count):
        (length,) = _INT.unpack_from(data, place)
        values.append(data[place + 4 : place + 4 + length])
        place += 4 + length
    return values


class OuterJoinStore(MappedStore):
    """Lists of values by time, side and key, in that order. `extra` of the specification: the serdes of both sides."""

    _pack = staticmethod(_encode_list)
    _unpack = staticmethod(_decode_list)

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        left, right = self.specification.extra
        self._serdes: tuple[Serde, Serde] = (left or self._value_serde, right or self._value_serde)

    def add(self, timestamp: int, is_left: bool, key: Any, value: Any) -> None:
        place = self._place(timestamp, is_left, key)
        content = self._serdes[0 if is_left else 1].serialize(self._topic, value)
        values = [*(self._map.get(place) or []), bytes((is_left,)) + content]
        self._map.put(place, values)
        self._log(place, _encode_list(values))

    def remove(self, timestamp: int, is_left: bool, key: Any, *, blindly: bool = False) -> None:
        """Removes all values of a place. Without `blindly`, the removal is logged only if there are values."""
        place = self._place(timestamp, is_left, key)
        if self._map.delete(place) is not None or blindly:
            self._log(place, None)

    def all(self) -> Iterator[Unjoined]:
        """Decodes each row when it is reached: a caller that looks for closed windows reads the first rows only."""
        for place, values in self._map.range():
            timestamp, is_left = _HEAD.unpack(place[:9])
            key = self._decode_key(place[9:])
            for content in values:
                serde = self._serdes[0 if is_left else 1]
                yield Unjoined(timestamp, bool(is_left), key, serde.deserialize(self._topic, content[1:]))

    def restore(self, key: bytes, value: bytes | None, timestamp: int) -> None:  # noqa: ARG002
        if value is None:
            self._map.delete(key)
        else:
            self._map.put(key, _decode_list(value))

    def _place(self, timestamp: int, is_left: bool, key: Any) -> bytes:
        return _HEAD.pack(timestamp, is_left) + self._encode_key(key)
