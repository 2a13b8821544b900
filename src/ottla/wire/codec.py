"""Encodes and decodes messages.

An encoder and a decoder are compiled for each class and version on first use (`compile_decoder`, `compile_encoder`)
and cached. Decoded strings are `str`. Decoded bytes and records are slices of the given buffer: a slice keeps the whole
buffer alive, and a write to the buffer changes the slice.
"""

from __future__ import annotations

from typing import TypeVar, cast

from ottla.model.ports import FileRegion
from ottla.wire.compile_decoder import Decoder, compile_decoder
from ottla.wire.compile_encoder import Encoder, compile_encoder
from ottla.wire.message import Message, Part
from ottla.wire.primitives import LongMessage, MalformedMessage
from ottla.wire.schema import UnsupportedVersion

__all__ = [
    "Decoder",
    "Encoder",
    "LongMessage",
    "MalformedMessage",
    "Part",
    "UnsupportedVersion",
    "decode",
    "decoder",
    "encode",
    "encode_parts",
    "encoder",
]

M = TypeVar("M", bound=Message)

_decoders: dict[tuple[type[Message], int], Decoder] = {}
_encoders: dict[tuple[type[Message], int], Encoder] = {}


def decode(cls: type[M], buffer: memoryview, version: int, position: int = 0) -> tuple[M, int]:
    """Decodes the message at `position`; returns it and the position after it.

    Raises MalformedMessage; and LongMessage, a kind of it, for a request that has to be decoded in slices.
    """
    function = _decoders.get((cls, version)) or decoder(cls, version)
    return cast("tuple[M, int]", function(buffer, position))


def encode(message: Message, version: int) -> bytes:
    """Encodes the message into one bytes object; the content of records fields is copied."""
    parts = encode_parts(message, version)
    if len(parts) == 1 and isinstance(parts[0], bytes):
        return parts[0]
    return b"".join([part.read() if isinstance(part, FileRegion) else part for part in parts])


def encode_parts(message: Message, version: int) -> list[Part]:
    """Encodes the message into parts to be sent in order; the content of records fields is passed through uncopied."""
    cls = type(message)
    function = _encoders.get((cls, version)) or encoder(cls, version)
    pieces: list[bytes] = []
    parts: list[Part] = []
    function(message, pieces, parts)
    parts.append(b"".join(pieces))
    return parts


def decoder(cls: type[Message], version: int) -> Decoder:
    """The compiled function `(buffer, position=0) -> (message, end_position)`."""
    function = _decoders.get((cls, version))
    if function is None:
        function = _decoders[cls, version] = compile_decoder(cls, version)
    return function


def encoder(cls: type[Message], version: int) -> Encoder:
    """The compiled function `(message, pieces, parts) -> None`; see `compile_encoder`."""
    function = _encoders.get((cls, version))
    if function is None:
        function = _encoders[cls, version] = compile_encoder(cls, version)
    return function
