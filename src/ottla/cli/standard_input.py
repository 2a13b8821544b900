"""Lines of standard input as they come, without holding up the event loop.

Whoever waits for the next line must not keep those before it from being sent: a pipe may pause for as long as it likes.
So a thread reads. It is not one of the loop's executor, for those are waited for at the end, and Ctrl-C has to end a
command also while nobody writes; and it reads the descriptor itself, since a thread that holds the lock of a buffered
stream would be in the way of the interpreter's end.
"""

from __future__ import annotations

import asyncio
import codecs
import io
import os
import threading
from collections.abc import AsyncIterator
from typing import TextIO

__all__ = ["lines_of"]

CHUNK_BYTES = 64 * 1024

# Chunks that may be read before those before them are used up.
CHUNKS_AHEAD_MAX = 2


async def lines_of(stream: TextIO) -> AsyncIterator[list[str]]:
    """All lines, without their ends, as many at a time as are there; the last one may have no end."""
    try:
        descriptor = stream.fileno()
    except (OSError, ValueError):
        # Not a file but text in memory, which never keeps anybody waiting.
        text = stream.read()
        yield text.removesuffix("\n").split("\n") if text else []
        return
    decode = io.IncrementalNewlineDecoder(
        codecs.getincrementaldecoder(stream.encoding)(stream.errors or "strict"), translate=True
    ).decode
    chunks = _Chunks(descriptor)
    rest = ""
    while True:
        chunk = await chunks.next()
        *whole, rest = (rest + decode(chunk, final=not chunk)).split("\n")
        if not chunk:
            yield [*whole, rest] if rest else whole
            return
        if whole:
            yield whole


class _Chunks:
    """What a thread of its own reads from a descriptor, in order, a little ahead; empty at the end."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._loop = asyncio.get_running_loop()
        self._read: asyncio.Queue[bytes | OSError] = asyncio.Queue()
        self._room = threading.Semaphore(CHUNKS_AHEAD_MAX)
        threading.Thread(target=self._run, name="standard input", daemon=True).start()

    async def next(self) -> bytes:
        chunk = await self._read.get()
        self._room.release()
        if isinstance(chunk, OSError):
            raise chunk
        return chunk

    def _run(self) -> None:
        chunk: bytes | OSError = b"more"
        while chunk and not isinstance(chunk, OSError):
            self._room.acquire()
            try:
                chunk = os.read(self._descriptor, CHUNK_BYTES)
            except OSError as error:
                chunk = error
            try:
                self._loop.call_soon_threadsafe(self._read.put_nowait, chunk)
            except RuntimeError:
                # The loop is closed: the command has ended meanwhile.
                return
