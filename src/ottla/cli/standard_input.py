"""Lines of standard input as they arrive, without blocking the event loop.

A pipe may pause for any time, and records that were read before the pause must be sent meanwhile, so a thread reads.
The thread does not belong to the loop's executor: the executor is joined at the end, but Ctrl-C has to end the command
while the thread is blocked. It reads the descriptor directly, because a thread that holds the lock of a buffered stream
would block the interpreter's shutdown.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncIterator
from typing import TextIO

__all__ = ["content_of", "lines_of"]

CHUNK_BYTES = 64 * 1024

# Chunks that may be read ahead.
CHUNKS_AHEAD_MAX = 2


async def lines_of(stream: TextIO) -> AsyncIterator[list[bytes]]:
    r"""All lines without line ends, in lists of the lines available at the time; the last line may lack its end.

    Lines end as for Java's readers: with `\n`, `\r` or both. Their bytes are not decoded.
    """
    try:
        descriptor = stream.fileno()
    except (OSError, ValueError):
        # Text in memory, which never blocks.
        yield stream.read().encode().splitlines()
        return
    chunks = _Chunks(descriptor)
    partial = bytearray()
    while chunk := await chunks.next():
        partial += chunk
        if b"\n" not in chunk and b"\r" not in chunk:
            # A line of any length costs no more than its bytes.
            continue
        whole = bytes(partial).splitlines(keepends=True)
        # The next chunk may continue the last line, or complete a `\r` to `\r\n`.
        partial = bytearray() if whole[-1].endswith(b"\n") else bytearray(whole.pop())
        if whole:
            yield [line.rstrip(b"\r\n") for line in whole]
    if partial:
        # A carriage return at the end of a chunk ends a line of its own if no line feed followed.
        yield bytes(partial).splitlines()


async def content_of(stream: TextIO) -> bytes:
    """All bytes up to the end."""
    chunks = _Chunks(stream.fileno())
    pieces = []
    while chunk := await chunks.next():
        pieces.append(chunk)
    return b"".join(pieces)


class _Chunks:
    """Chunks that a thread reads from a descriptor, in order and a little ahead; an empty chunk is the end."""

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
                # The loop is closed: the command has ended.
                return
