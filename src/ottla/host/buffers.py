"""Buffers that frames are read into.

A request's record bytes are written to the segment from the very buffer they were received in, after its offsets were
patched in place: so every frame has a writable buffer that nobody else touches while any view of it is alive.

Small frames get a bytearray of their own. Large ones are worth reusing, since fresh memory costs page faults: a few
are kept, and one is handed out again when no view of it is left, which a bytearray tells by agreeing to change its
size. Nobody has to give a buffer back, and a request that keeps its bytes for long merely keeps that one buffer away
from the others.
"""

from __future__ import annotations

__all__ = ["LARGE_SIZE_MIN", "SCRATCH_SIZE", "LargeBuffers"]

# What one read may take from a socket when no large frame is under way; shared by all connections of a loop.
SCRATCH_SIZE = 64 * 1024

# Frames up to this size are cheaper to allocate than to look for.
LARGE_SIZE_MIN = 64 * 1024

# Kept for reuse; larger frames than this are rare and are given back to the system at once.
LARGE_SIZE_MAX = 2 * 1024 * 1024

BUFFERS_MAX = 16


class LargeBuffers:
    __slots__ = ("_buffers", "_buffers_max")

    def __init__(self, *, buffers_max: int = BUFFERS_MAX) -> None:
        self._buffers: list[bytearray] = []
        self._buffers_max = buffers_max

    def take(self, size: int) -> bytearray:
        """A buffer of at least `size` bytes, with arbitrary contents."""
        if size < LARGE_SIZE_MIN or size > LARGE_SIZE_MAX:
            return bytearray(size)
        buffers = self._buffers
        for buffer in buffers:
            if len(buffer) >= size and _has_no_views(buffer):
                return buffer
        buffer = bytearray(_rounded(size))
        if len(buffers) >= self._buffers_max:
            # The oldest goes: sizes change with the workload, and a pool full of too small buffers helps nobody.
            del buffers[0]
        buffers.append(buffer)
        return buffer

    def clear(self) -> None:
        """Gives everything back to the system: called when the node has been idle for a while."""
        self._buffers.clear()


def _has_no_views(buffer: bytearray) -> bool:
    try:
        buffer.append(0)
    except BufferError:
        return False
    buffer.pop()
    return True


def _rounded(size: int) -> int:
    """The next power of two: frames of one producer differ by a few bytes and should share buffers."""
    return 1 << (size - 1).bit_length()
