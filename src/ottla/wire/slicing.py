"""Decodes and encodes very long messages in slices.

Decoding a request with a hundred thousand partitions takes a quarter of a second, during which the event loop would
serve no other connection. The functions that `compile_decoder` and `compile_encoder` generate therefore also exist as
generators, with the same code except for a pause after `ELEMENTS_PER_SLICE` array elements. The caller decides what
runs between slices. The result is that of the plain function.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any

from ottla.wire.message import Message, Part
from ottla.wire.source import Source

__all__ = ["ELEMENTS_PER_SLICE", "decode_in_slices", "encode_in_slices", "write_end_of_element"]

# An element takes one or two microseconds.
ELEMENTS_PER_SLICE = 4_000

_decoders: dict[tuple[type[Message], int], Callable[..., Generator[None, None, tuple[Any, int]]]] = {}
_encoders: dict[tuple[type[Message], int], Callable[..., Generator[None, None, None]]] = {}


def decode_in_slices(
    cls: type[Message], buffer: memoryview, version: int, position: int = 0
) -> Generator[None, None, tuple[Any, int]]:
    """`codec.decode` in slices; also raises MalformedMessage."""
    return (yield from _decoder(cls, version)(buffer, position))


def encode_in_slices(message: Message, version: int) -> Generator[None, None, list[Part]]:
    """`codec.encode_parts` in slices. Small parts are joined, so there are few more parts than slices."""
    pieces: list[bytes] = []
    parts: list[Part] = []
    joined: list[Part] = []
    for _ in _encoder(type(message), version)(message, pieces, parts):
        _join(pieces, parts, joined)
        yield
    _join(pieces, parts, joined)
    return joined


def write_end_of_element(source: Source) -> None:
    """Writes the lines that follow an array element: count it, and pause at the end of a slice."""
    source.line("left -= 1")
    source.line("if not left:")
    source.line(f"    left = {ELEMENTS_PER_SLICE}")
    source.line("    yield")


def _decoder(cls: type[Message], version: int) -> Callable[..., Generator[None, None, tuple[Any, int]]]:
    function = _decoders.get((cls, version))
    if function is None:
        from ottla.wire.compile_decoder import compile_decoder

        function = _decoders[cls, version] = compile_decoder(cls, version, in_slices=True)
    return function


def _encoder(cls: type[Message], version: int) -> Callable[..., Generator[None, None, None]]:
    function = _encoders.get((cls, version))
    if function is None:
        from ottla.wire.compile_encoder import compile_encoder

        function = _encoders[cls, version] = compile_encoder(cls, version, in_slices=True)
    return function


def _join(pieces: list[bytes], parts: list[Part], joined: list[Part]) -> None:
    """Moves parts and pieces to `joined`: encoded bytes are joined, content of records fields is moved unchanged."""
    run: list[bytes] = []
    for part in parts:
        if type(part) is bytes:
            run.append(part)
        else:
            joined.append(b"".join(run))
            joined.append(part)
            run = []
    run += pieces
    joined.append(b"".join(run))
    parts.clear()
    pieces.clear()
