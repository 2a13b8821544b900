"""Decodes and encodes very long messages in slices.

Decoding a request with a hundred thousand partitions takes a quarter of a second, during which the event loop would
serve no other connection. The functions that `compile_decoder` and `compile_encoder` generate therefore also exist as
generators, with the same code except for a pause after `ELEMENTS_PER_SLICE` array elements. The caller decides what
runs between slices. The result is that of the plain function.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from typing import Any

from ottla.wire.message import Message, Part
from ottla.wire.source import Source

__all__ = [
    "ELEMENTS_PER_SLICE",
    "decode_in_slices",
    "encode_around",
    "encode_elements_in_slices",
    "encode_in_slices",
    "write_end_of_element",
    "write_start_of_generator",
]

# An element takes one or two microseconds.
ELEMENTS_PER_SLICE = 4_000

_decoders: dict[tuple[type[Message], int], Callable[..., Generator[None, None, tuple[Any, int]]]] = {}
_encoders: dict[tuple[type[Message], int], Callable[..., Generator[None, None, None]]] = {}
_elements_encoders: dict[tuple[type[Message], int, str], Callable[..., Generator[None, None, None]]] = {}


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


def encode_elements_in_slices(
    cls: type[Message], version: int, array: str, elements: Sequence[Any]
) -> Generator[None, None, list[bytes]]:
    """Encodes some elements of a message's array, in slices and without their count: see `encode_around`.

    The elements must have no records fields.
    """
    pieces: list[bytes] = []
    encoded: list[bytes] = []
    for _ in _elements_encoder(cls, version, array)(elements, pieces, []):
        encoded.append(b"".join(pieces))
        pieces.clear()
        yield
    encoded.append(b"".join(pieces))
    return encoded


def encode_around(message: Message, version: int, array: str, count: int, elements: list[bytes]) -> list[Part]:
    """The message as parts, with `count` elements in its array that are already encoded. The array itself is empty."""
    from ottla.wire.codec import encoder

    pieces: list[bytes] = []
    placeholder = _EncodedArray(count, pieces)
    setattr(message, array, placeholder)
    encoder(type(message), version)(message, pieces, [])
    head, tail = pieces[: placeholder.position], pieces[placeholder.position :]
    return [b"".join(head), *elements, b"".join(tail)]


class _EncodedArray:
    """A placeholder for an array while its message is encoded. It notes the place of the array's elements."""

    def __init__(self, count: int, pieces: list[bytes]) -> None:
        self._count = count
        self._pieces = pieces
        self.position = 0

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Any]:
        # The encoder has written the count and begins with the elements.
        self.position = len(self._pieces)
        return iter(())


def write_start_of_generator(source: Source) -> None:
    """Writes the first lines of the function. They make it a generator even if its message has no array to pause at."""
    source.line(f"left = {ELEMENTS_PER_SLICE}")
    source.line("if not left:")
    source.line("    yield")


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


def _elements_encoder(cls: type[Message], version: int, array: str) -> Callable[..., Generator[None, None, None]]:
    function = _elements_encoders.get((cls, version, array))
    if function is None:
        from ottla.wire.compile_encoder import compile_elements_encoder

        function = _elements_encoders[cls, version, array] = compile_elements_encoder(cls, version, array)
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
