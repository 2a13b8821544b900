"""Reading and writing very long messages in slices.

A request may name a hundred thousand partitions, which takes a quarter of a second to read, and nobody else is served
meanwhile. So the functions that `compile_decoder` and `compile_encoder` write exist in a second form, as generators:
word for word the same, but that they pause after so many elements of arrays. Whoever runs one decides what happens in
between; what it returns in the end is what the plain function would have returned.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any

from ottla.wire.message import Message, Part
from ottla.wire.source import Source

__all__ = ["ELEMENTS_PER_SLICE", "decode_in_slices", "encode_in_slices", "write_end_of_element"]

# One or two microseconds each.
ELEMENTS_PER_SLICE = 4_000

_decoders: dict[tuple[type[Message], int], Callable[..., Generator[None, None, tuple[Any, int]]]] = {}
_encoders: dict[tuple[type[Message], int], Callable[..., Generator[None, None, None]]] = {}


def decode_in_slices(
    cls: type[Message], buffer: memoryview, version: int, position: int = 0
) -> Generator[None, None, tuple[Any, int]]:
    """`codec.decode`, in slices; raises MalformedMessage like it."""
    return (yield from _decoder(cls, version)(buffer, position))


def encode_in_slices(message: Message, version: int) -> Generator[None, None, list[Part]]:
    """`codec.encode_parts`, in slices. What is small is joined, so that there are not many more parts than slices."""
    pieces: list[bytes] = []
    parts: list[Part] = []
    joined: list[Part] = []
    for _ in _encoder(type(message), version)(message, pieces, parts):
        _join(pieces, parts, joined)
        yield
    _join(pieces, parts, joined)
    return joined


def write_end_of_element(source: Source) -> None:
    """Writes the lines that end the work on an element of an array."""
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
    """Moves everything to `joined`: bytes of our own in one run, and what is only passed through as it is."""
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
