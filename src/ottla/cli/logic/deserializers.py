"""From bytes to text as Kafka's deserializers do it, by the names of their classes or short: long, string, uuid, ..."""

from __future__ import annotations

import base64
import struct
from collections.abc import Callable
from uuid import UUID

__all__ = ["DESERIALIZERS", "Deserializer", "deserializer"]

Deserializer = Callable[[bytes], bytes]


def deserializer(name: str) -> Deserializer | None:
    """None for bytes that are printed unchanged; raises ValueError for an unknown deserializer."""
    short = name.strip().rpartition(".")[2].removesuffix("Deserializer").lower()
    if short not in DESERIALIZERS:
        raise ValueError(
            f"There is no deserializer {name!r}; there are {', '.join(sorted(filter(None, DESERIALIZERS)))}."
        )
    return DESERIALIZERS[short]


def _number(kind: str, layout: str) -> Deserializer:
    packed = struct.Struct(layout)

    def read(content: bytes) -> bytes:
        if len(content) != packed.size:
            raise ValueError(f"{len(content)} bytes are no {kind}, which has {packed.size}")
        (value,) = packed.unpack(content)
        return _java_float(value, packed) if isinstance(value, float) else str(value).encode()

    return read


def _java_float(value: float, packed: struct.Struct) -> bytes:
    """The shortest text that represents this number, with exponents in Java's format."""
    if value != value or value in (float("inf"), float("-inf")):
        text = "NaN" if value != value else "Infinity" if value > 0 else "-Infinity"
        return text.encode()
    digits = next(n for n in range(1, 18) if packed.unpack(packed.pack(float(f"{value:.{n}g}"))) == (value,))
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        text = f"{float(f'{value:.{digits}g}'):f}" if abs(value) >= 1e16 else repr(float(f"{value:.{digits}g}"))
        return text.encode()
    mantissa, _, exponent = f"{value:.{digits - 1}e}".partition("e")
    return f"{mantissa if '.' in mantissa else mantissa + '.0'}E{int(exponent)}".encode()


def _boolean(content: bytes) -> bytes:
    if content not in (b"\x00", b"\x01"):
        raise ValueError("this is no boolean, which is one byte of 0 or 1")
    return b"true" if content == b"\x01" else b"false"


def _uuid(content: bytes) -> bytes:
    return str(UUID(content.decode())).encode()


def _void(content: bytes) -> bytes:
    if content:
        raise ValueError("a void value must be empty")
    return b"null"


DESERIALIZERS: dict[str, Deserializer | None] = {
    "": None,
    "string": None,
    "bytearray": None,
    "bytes": None,
    "bytebuffer": None,
    "short": _number("short", ">h"),
    "integer": _number("integer", ">i"),
    "long": _number("long", ">q"),
    "float": _number("float", ">f"),
    "double": _number("double", ">d"),
    "boolean": _boolean,
    "uuid": _uuid,
    "void": _void,
    "base64": base64.b64encode,
    "hex": lambda content: content.hex().encode(),
}
