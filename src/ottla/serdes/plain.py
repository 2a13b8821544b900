"""Serializers without schemas, byte for byte those of Kafka's clients: numbers are big-endian, text is UTF-8."""

from __future__ import annotations

import json
import struct
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from ottla.serdes.protocol import Deserializer, Header, Serde, Serializer

__all__ = [
    "BOOLEAN",
    "BYTES",
    "DOUBLE",
    "FLOAT",
    "INTEGER",
    "JSON",
    "LONG",
    "SHORT",
    "STRING",
    "UUID",
    "VOID",
    "BytesDeserializer",
    "BytesSerializer",
    "FixedDeserializer",
    "FixedSerializer",
    "JsonDeserializer",
    "JsonSerializer",
    "StringDeserializer",
    "StringSerializer",
    "VoidDeserializer",
    "VoidSerializer",
    "plain_serde",
]

T = TypeVar("T")


class BytesSerializer(Serializer[bytes]):
    def serialize(self, topic: str, value: bytes | None, headers: list[Header] | None = None) -> bytes | None:
        del headers
        if value is None or isinstance(value, bytes):
            return value
        if isinstance(value, bytearray | memoryview):
            return bytes(value)
        raise self._error(topic, f"bytes are needed, but this is {_kind(value)}.")


class BytesDeserializer(Deserializer[bytes]):
    def deserialize(
        self, topic: str, data: bytes | memoryview | None, headers: Sequence[Header] | None = None
    ) -> bytes | None:
        del topic, headers
        return None if data is None else bytes(data)


class StringSerializer(Serializer[str]):
    def __init__(self, encoding: str = "utf-8") -> None:
        self.encoding = encoding

    def configure(self, config: Mapping[str, Any], *, is_key: bool) -> None:
        super().configure(config, is_key=is_key)
        self.encoding = _encoding(config, "serializer.encoding", is_key=is_key, default=self.encoding)

    def serialize(self, topic: str, value: str | None, headers: list[Header] | None = None) -> bytes | None:
        del headers
        if value is None:
            return None
        if not isinstance(value, str):
            raise self._error(topic, f"text is needed, but this is {_kind(value)}.")
        try:
            return value.encode(self.encoding)
        except UnicodeEncodeError as error:
            raise self._error(topic, f"the text cannot be written in {self.encoding}: {error.reason}.") from error


class StringDeserializer(Deserializer[str]):
    def __init__(self, encoding: str = "utf-8") -> None:
        self.encoding = encoding

    def configure(self, config: Mapping[str, Any], *, is_key: bool) -> None:
        super().configure(config, is_key=is_key)
        self.encoding = _encoding(config, "deserializer.encoding", is_key=is_key, default=self.encoding)

    def deserialize(
        self, topic: str, data: bytes | memoryview | None, headers: Sequence[Header] | None = None
    ) -> str | None:
        del headers
        if data is None:
            return None
        try:
            return str(data, self.encoding)
        except UnicodeDecodeError as error:
            raise self._error(
                topic, f"the bytes are not text in {self.encoding}: {error.reason} at byte {error.start}."
            ) from error


class FixedSerializer(Serializer[T]):
    """Values of a fixed number of bytes. `convert` returns the bytes, or raises a built-in error."""

    def __init__(self, name: str, size: int, convert: Callable[[T], bytes]) -> None:
        self.name = name
        self.size = size
        self._convert = convert

    def serialize(self, topic: str, value: T | None, headers: list[Header] | None = None) -> bytes | None:
        del headers
        if value is None:
            return None
        try:
            return self._convert(value)
        except (struct.error, TypeError, ValueError, OverflowError, AttributeError) as error:
            raise self._error(topic, f"{value!r} ({_kind(value)}) is not a {self.name}.") from error


class FixedDeserializer(Deserializer[T]):
    def __init__(self, name: str, size: int, convert: Callable[[bytes], T]) -> None:
        self.name = name
        self.size = size
        self._convert = convert

    def deserialize(
        self, topic: str, data: bytes | memoryview | None, headers: Sequence[Header] | None = None
    ) -> T | None:
        del headers
        if data is None:
            return None
        if len(data) != self.size:
            raise self._error(topic, f"a {self.name} has {self.size} bytes, but there are {len(data)}.")
        try:
            return self._convert(bytes(data))
        except (struct.error, ValueError) as error:
            raise self._error(topic, f"the bytes are not a {self.name}: {error}.") from error


class VoidSerializer(Serializer[None]):
    """Accepts `None` alone."""

    def serialize(self, topic: str, value: None, headers: list[Header] | None = None) -> None:
        del headers
        if value is not None:
            raise self._error(topic, f"it must be None, but this is {_kind(value)}.")


class VoidDeserializer(Deserializer[None]):
    def deserialize(self, topic: str, data: bytes | memoryview | None, headers: Sequence[Header] | None = None) -> None:
        del headers
        if data is not None:
            raise self._error(topic, f"it must be null, but it has {len(data)} bytes.")


class JsonSerializer(Serializer[Any]):
    """JSON without spaces, in UTF-8, without a schema."""

    def serialize(self, topic: str, value: Any, headers: list[Header] | None = None) -> bytes | None:
        del headers
        if value is None:
            return None
        try:
            return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()
        except (TypeError, ValueError, RecursionError) as error:
            raise self._error(topic, f"it cannot be written as JSON: {error}.") from error


class JsonDeserializer(Deserializer[Any]):
    def deserialize(self, topic: str, data: bytes | memoryview | None, headers: Sequence[Header] | None = None) -> Any:
        del headers
        if data is None:
            return None
        try:
            return json.loads(bytes(data))
        except (ValueError, RecursionError) as error:
            raise self._error(topic, f"the bytes are not JSON: {error}.") from error


def _encoding(config: Mapping[str, Any], name: str, *, is_key: bool, default: str) -> str:
    """Kafka's names: `key.serializer.encoding` or `value.serializer.encoding`, then `serializer.encoding`."""
    side = "key" if is_key else "value"
    return str(config.get(f"{side}.{name}") or config.get(name) or default)


def _kind(value: object) -> str:
    return type(value).__name__


def _integer(code: str) -> Callable[[int], bytes]:
    packer = struct.Struct(code)

    def pack(value: int) -> bytes:
        if isinstance(value, bool):
            raise TypeError("a truth value is not a number")
        return packer.pack(value)

    return pack


def _numbers(name: str, code: str, *, is_integer: bool) -> Serde[Any]:
    packer = struct.Struct(code)
    pack: Callable[[Any], bytes] = _integer(code) if is_integer else packer.pack
    return Serde(
        FixedSerializer(name, packer.size, pack),
        FixedDeserializer(name, packer.size, lambda data: packer.unpack(data)[0]),
    )


def _boolean(data: bytes) -> bool:
    if data not in (b"\0", b"\1"):
        raise ValueError(f"byte {data[0]}")
    return data == b"\1"


def _boolean_bytes(value: bool) -> bytes:
    if not isinstance(value, bool):
        raise TypeError("not a truth value")
    return b"\1" if value else b"\0"


def _uuid_bytes(value: uuid.UUID) -> bytes:
    if not isinstance(value, uuid.UUID):
        raise TypeError("not a UUID")
    return str(value).encode()


# Names of the table, as users write them in a configuration or on the command line.
BYTES, STRING, INTEGER, LONG, SHORT, FLOAT = "bytes", "string", "int", "long", "short", "float"
DOUBLE, BOOLEAN, UUID, VOID, JSON = "double", "boolean", "uuid", "void", "json"

_MAKERS: dict[str, Callable[[], Serde[Any]]] = {
    BYTES: lambda: Serde(BytesSerializer(), BytesDeserializer()),
    STRING: lambda: Serde(StringSerializer(), StringDeserializer()),
    INTEGER: lambda: _numbers("int", ">i", is_integer=True),
    LONG: lambda: _numbers("long", ">q", is_integer=True),
    SHORT: lambda: _numbers("short", ">h", is_integer=True),
    FLOAT: lambda: _numbers("float", ">f", is_integer=False),
    DOUBLE: lambda: _numbers("double", ">d", is_integer=False),
    BOOLEAN: lambda: Serde(FixedSerializer("boolean", 1, _boolean_bytes), FixedDeserializer("boolean", 1, _boolean)),
    UUID: lambda: Serde(
        FixedSerializer("uuid", 36, _uuid_bytes), FixedDeserializer("uuid", 36, lambda data: uuid.UUID(data.decode()))
    ),
    VOID: lambda: Serde(VoidSerializer(), VoidDeserializer()),
    JSON: lambda: Serde(JsonSerializer(), JsonDeserializer()),
}


def plain_serde(name: str) -> Serde[Any]:
    """A new serde by its name. Raises ValueError with the list of names."""
    try:
        return _MAKERS[name]()
    except KeyError:
        raise ValueError(f"{name!r} is not one of {', '.join(sorted(_MAKERS))}.") from None
