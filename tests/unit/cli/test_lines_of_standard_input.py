"""Lines of standard input whose last line end is a carriage return at the end of a chunk."""

from __future__ import annotations

import asyncio
import os

import pytest

from ottla.cli import standard_input
from ottla.cli.standard_input import lines_of


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"abc\rdef", [b"abc", b"def"]),
        (b"abc\rdef\r", [b"abc", b"def"]),
        (b"abc\r\ndef", [b"abc", b"def"]),
        (b"abc\r\rd", [b"abc", b"", b"d"]),
    ],
)
def test_a_carriage_return_at_the_end_of_a_chunk(
    content: bytes, expected: list[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    # The first chunk ends behind the first carriage return.
    monkeypatch.setattr(standard_input, "CHUNK_BYTES", 4)

    async def read() -> list[bytes]:
        reader, writer = os.pipe()
        os.write(writer, content)
        os.close(writer)
        with os.fdopen(reader) as stream:
            return [line async for lines in lines_of(stream) for line in lines]

    assert asyncio.run(read()) == expected
