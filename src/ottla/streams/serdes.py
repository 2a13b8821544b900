"""Serdes: how keys and values become bytes, and back, with the bytes of Kafka's own serializers."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from typing import Any, Protocol

from ottla.streams.errors import StreamsError
from ottla.streams.record import Change, Window, Windowed

__all__ = [
    "ChangeSerde",
    "FunctionSerde",
    "PairSerde",
    "Serde",
    "Serdes",
    "SessionWindowedSerde",
    "TimeWindowedSerde",
    "resolve",
]


class Serde(Protocol):
    """Turns one type of value into bytes and back. None stays None; implementations never see it."""

    def serialize(self, topic: str, value: Any) -> bytes: ...

    def deserialize(self, topic: str, data: bytes) -> Any: ...


class FunctionSerde:
    """A serde of two functions that do not depend on the topic."""

    def __init__(
        self,
        name: str,
        encode: Callable[[Any], bytes],
        decode: Callable[[bytes], Any],
        *,
        is_standard: bool = False,
    ) -> None:
        self.name = name
        self.is_standard = is_standard
        self._encode = encode
        self._decode = decode

    def serialize(self, topic: str, value: Any) -> bytes:
        try:
            return self._encode(value)
        except (TypeError, ValueError, AttributeError, struct.error) as error:
            raise StreamsError(
                f"The {self.name} serde cannot write {value!r} ({type(value).__name__}) to {topic}: {error}. "
                "Set a serde that fits, for instance with Produced.with_(...) or Materialized.with_(...)."
            ) from error

    def deserialize(self, topic: str, data: bytes) -> Any:
        try:
            return self._decode(data)
        except (TypeError, ValueError, struct.error) as error:
            raise StreamsError(
                f"The {self.name} serde cannot read {data[:60]!r} from {topic}: {error}. "
                "Set a serde that fits with Consumed.with_(...)."
            ) from error

    def __reduce__(self) -> tuple[Any, ...]:
        """Workers of an application get serdes in a pickle, which cannot hold the functions of `struct`."""
        if self.is_standard:
            return _standard, (self.name,)
        return FunctionSerde, (self.name, self._encode, self._decode)

    def __repr__(self) -> str:
        return f"Serdes.{self.name}()"


def _standard(name: str) -> Serde:
    serde: Serde = getattr(Serdes, name)()
    return serde


_LONG = struct.Struct(">q")
_INTEGER = struct.Struct(">i")
_SHORT = struct.Struct(">h")
_DOUBLE = struct.Struct(">d")
_FLOAT = struct.Struct(">f")


def _bytes(value: Any) -> bytes:
    if not isinstance(value, bytes | bytearray | memoryview):
        raise TypeError("it is not bytes")
    return bytes(value)


def _boolean(data: bytes) -> bool:
    if data not in (b"\x00", b"\x01"):
        raise ValueError("it is neither 0 nor 1")
    return data == b"\x01"


def _numbers(layout: struct.Struct) -> tuple[Callable[[Any], bytes], Callable[[bytes], Any]]:
    return layout.pack, lambda data: layout.unpack(data)[0]


class Serdes:
    """Serdes of common types; `bytes_` is the default of every application."""

    @staticmethod
    def bytes_() -> Serde:
        return FunctionSerde("bytes_", _bytes, bytes, is_standard=True)

    @staticmethod
    def string() -> Serde:
        return FunctionSerde("string", str.encode, bytes.decode, is_standard=True)

    @staticmethod
    def short() -> Serde:
        return FunctionSerde("short", *_numbers(_SHORT), is_standard=True)

    @staticmethod
    def integer() -> Serde:
        return FunctionSerde("integer", *_numbers(_INTEGER), is_standard=True)

    @staticmethod
    def long() -> Serde:
        return FunctionSerde("long", *_numbers(_LONG), is_standard=True)

    @staticmethod
    def float_() -> Serde:
        return FunctionSerde("float_", *_numbers(_FLOAT), is_standard=True)

    @staticmethod
    def double() -> Serde:
        return FunctionSerde("double", *_numbers(_DOUBLE), is_standard=True)

    @staticmethod
    def boolean() -> Serde:
        return FunctionSerde("boolean", lambda value: b"\x01" if value else b"\x00", _boolean, is_standard=True)

    @staticmethod
    def json() -> Serde:
        """Any value of JSON, as compact UTF-8 text."""
        return FunctionSerde(
            "json",
            lambda value: json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode(),
            json.loads,
            is_standard=True,
        )

    @staticmethod
    def of(pair: Any) -> Serde:
        """A serde of `ottla.serdes`, for instance of a schema registry; options also take the pair itself."""
        return PairSerde(pair)


class PairSerde:
    """A serializer and a deserializer of `ottla.serdes` as a serde."""

    def __init__(self, pair: Any) -> None:
        self._serialize = pair.serializer.serialize
        self._deserialize = pair.deserializer.deserialize

    def serialize(self, topic: str, value: Any) -> bytes:
        data: bytes = self._serialize(topic, value)
        return data

    def deserialize(self, topic: str, data: bytes) -> Any:
        return self._deserialize(topic, data)


def resolve(serde: Serde | None, default: Serde, *, key_serde: Serde, value_serde: Serde) -> Serde:
    """The serde, or the default if it is None. A wrapper without an inner serde gets that of the application."""
    if serde is None:
        return default
    if hasattr(serde, "serializer"):
        return PairSerde(serde)
    fill = getattr(serde, "with_defaults", None)
    return serde if fill is None else fill(key_serde, value_serde)


class TimeWindowedSerde:
    """Windowed keys of time windows: the key, then the start of the window. The size gives the end."""

    def __init__(self, inner: Serde | None, size_ms: int) -> None:
        self.inner: Any = inner
        self.size_ms = size_ms

    def with_defaults(self, key_serde: Serde, value_serde: Serde) -> Serde:  # noqa: ARG002
        return TimeWindowedSerde(self.inner or key_serde, self.size_ms)

    def serialize(self, topic: str, value: Windowed) -> bytes:
        key: bytes = self.inner.serialize(topic, value.key)
        return key + _LONG.pack(value.window.start)

    def deserialize(self, topic: str, data: bytes) -> Windowed:
        (start,) = _LONG.unpack(data[-8:])
        return Windowed(self.inner.deserialize(topic, data[:-8]), Window(start, start + self.size_ms))


class SessionWindowedSerde:
    """Windowed keys of sessions: the key, then the end and the start of the session."""

    def __init__(self, inner: Serde | None) -> None:
        self.inner: Any = inner

    def with_defaults(self, key_serde: Serde, value_serde: Serde) -> Serde:  # noqa: ARG002
        return SessionWindowedSerde(self.inner or key_serde)

    def serialize(self, topic: str, value: Windowed) -> bytes:
        key: bytes = self.inner.serialize(topic, value.key)
        return key + _LONG.pack(value.window.end) + _LONG.pack(value.window.start)

    def deserialize(self, topic: str, data: bytes) -> Windowed:
        (end,), (start,) = _LONG.unpack(data[-16:-8]), _LONG.unpack(data[-8:])
        return Windowed(self.inner.deserialize(topic, data[:-16]), Window(start, end))


class ChangeSerde:
    """Changes of table rows in repartition topics: a flag at the end marks which values are present (KIP-904)."""

    _OLD, _NEW, _BOTH = 0, 1, 2

    def __init__(self, inner: Serde | None) -> None:
        self.inner: Any = inner

    def with_defaults(self, key_serde: Serde, value_serde: Serde) -> Serde:  # noqa: ARG002
        return ChangeSerde(self.inner or value_serde)

    def serialize(self, topic: str, value: Change) -> bytes:
        new: bytes | None = None if value.new is None else self.inner.serialize(topic, value.new)
        old: bytes | None = None if value.old is None else self.inner.serialize(topic, value.old)
        if new is not None and old is not None:
            return _varint(len(new)) + new + old + bytes((self._BOTH,))
        if new is not None:
            return new + bytes((self._NEW,))
        assert old is not None
        return old + bytes((self._OLD,))

    def deserialize(self, topic: str, data: bytes) -> Change:
        flag, body = data[-1], data[:-1]
        if flag == self._NEW:
            return Change(self.inner.deserialize(topic, body), None)
        if flag == self._OLD:
            return Change(None, self.inner.deserialize(topic, body))
        length, start = _read_varint(body)
        new = self.inner.deserialize(topic, body[start : start + length])
        return Change(new, self.inner.deserialize(topic, body[start + length :]))


def _varint(value: int) -> bytes:
    value = value << 1
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def _read_varint(data: bytes) -> tuple[int, int]:
    value = shift = index = 0
    while True:
        byte = data[index]
        value |= (byte & 0x7F) << shift
        index += 1
        if byte < 0x80:
            return value >> 1, index
        shift += 7
